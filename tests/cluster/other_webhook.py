"""A mutating webhook of somebody else: it adds a container to each pod that it is asked about, as service meshes do."""

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from certs.issue import issue
from tests.cluster.control_plane import CERTIFICATE_LIFETIME

ADDED = "mesh-proxy"


class _AddsContainer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        request = review["request"]
        response: dict[str, Any] = {"uid": request["uid"], "allowed": True}
        if ADDED not in [each["name"] for each in request["object"]["spec"]["containers"]]:
            patch = [{"op": "add", "path": "/spec/containers/-", "value": {"name": ADDED, "image": "x"}}]
            response |= {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(patch).encode()).decode()}
        body = json.dumps(review | {"response": response}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002  # the name of the base class
        """Says nothing."""


@contextmanager
def running_other_webhook(directory: Path, name: str) -> Iterator[dict[str, Any]]:
    """Gives its MutatingWebhookConfiguration of this name, for the pods of namespaces that have opted in."""
    bundle = issue(("127.0.0.1",), now=datetime.now(UTC), lifetime=CERTIFICATE_LIFETIME)
    for file, content in (("other.crt", bundle.certificate), ("other.key", bundle.key)):
        (directory / file).touch(mode=0o600)
        (directory / file).write_bytes(content)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(directory / "other.crt", directory / "other.key")
    with ThreadingHTTPServer(("127.0.0.1", 0), _AddsContainer) as server:
        server.daemon_threads = True
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, name="other-webhook")
        thread.start()
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
        authority = base64.b64encode(bundle.authority).decode()
        webhook = {
            "name": "other.example.com",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": f"https://127.0.0.1:{server.server_port}/", "caBundle": authority},
            "rules": [rule],
            "namespaceSelector": {"matchLabels": {"gpu.topology/injection": "enabled"}},
            "sideEffects": "None",
        }
        try:
            yield {"metadata": {"name": name}, "webhooks": [webhook]}
        finally:
            server.shutdown()
            thread.join()
