"""An HTTPS server in this process that the API server asks as an admission webhook."""

import base64
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeAlias

from certs.certificate import issue
from tests.control_plane.control_plane import CERTIFICATE_LIFETIME

Respond: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]
"""What an AdmissionReview is answered with: from its ``request`` the ``response``, but for the ``uid``."""


@contextmanager
def running_webhook(directory: Path, name: str, respond: Respond) -> Iterator[dict[str, str]]:
    """Gives the ``clientConfig`` of the webhook, which runs until the end.

    Args:
        directory: Takes its certificate and key.
        name: Of these files and of the thread.
        respond: Runs in a thread of its own for each request.
    """
    bundle = issue(("127.0.0.1",), now=datetime.now(UTC), lifetime=CERTIFICATE_LIFETIME)
    certificate, key = directory / f"{name}.crt", directory / f"{name}.key"
    for file, content in ((certificate, bundle.certificate), (key, bundle.key)):
        file.touch(mode=0o600)
        file.write_bytes(content)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(respond)) as server:
        server.daemon_threads = True
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, name=name)
        thread.start()
        try:
            authority = base64.b64encode(bundle.authority).decode()
            yield {"url": f"https://127.0.0.1:{server.server_port}/", "caBundle": authority}
        finally:
            server.shutdown()
            thread.join()


def _handler(respond: Respond) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            request = review["request"]
            body = json.dumps(review | {"response": {"uid": request["uid"]} | respond(request)}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002  # the name of the base class
            """Says nothing."""

    return Handler
