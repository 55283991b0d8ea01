"""An API server for the command line: a stand-in that has some objects and refuses the rest."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.cli.command import Done, gpu_topology
from tests.decisions.claims.cases import CASES
from tests.hardware.topology import machines
from tests.pods import Manifest
from tests.programs.agent.looks import nowhere
from webhook.hardware.topology.document import format_topology
from webhook.objects.lease import micro_time

RESOURCE = "/apis/resource.k8s.io/v1"
SLICES = f"{RESOURCE}/resourceslices"


class Cluster:
    """Objects by their paths; ``None`` is forbidden, and what is not there does not exist."""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {"/version": {"gitVersion": "v1.33.2"}}
        self.asked: list[str] = []
        self.kubeconfig = Path()

    def explain(self, name: str = "team-a/train", *options: str) -> Done:
        return gpu_topology("explain", name, "-v", "--kubeconfig", self.kubeconfig, *options)

    def answer(self, target: str) -> tuple[int, Any]:
        self.asked.append(target)
        parts = urlsplit(target)
        selector = parse_qs(parts.query).get("labelSelector", [""])[0]
        key = f"{parts.path} {selector}".rstrip()
        if key not in self.objects:
            return (200, {"items": []}) if selector else (404, missing(key))
        found = self.objects[key]
        if found is None:
            return 403, {"kind": "Status", "message": "you may not"}
        return 200, found if selector or parts.path == "/version" else named(found, parts.path)


def named(found: dict[str, Any], path: str) -> dict[str, Any]:
    """An object with what the API server gives to each: the name under which it is found, and its namespace."""
    *_, collection, name = path.split("/")
    if "items" in found or not name:
        return found
    own = {"name": name} | (
        {"namespace": path.split("/")[-3]} if "/namespaces/" in path and collection != "namespaces" else {}
    )
    return found | {"metadata": own | (found.get("metadata") or {})}


def missing(key: str) -> dict[str, Any]:
    """What the API server says of an object that is not there."""
    return {"kind": "Status", "message": f"{key} not found", "details": {"kind": key.split("/")[-2]}}


@contextmanager
def serving(directory: Path) -> Iterator[Cluster]:
    """An API server without pods, which answers until the end of the block."""
    made = Cluster()

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            code, document = made.answer(self.path)
            body = json.dumps(document).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        made.kubeconfig = directory / "kubeconfig"
        made.kubeconfig.write_text(json.dumps(nowhere(f"http://127.0.0.1:{server.server_address[1]}")))
        yield made
        server.shutdown()
        thread.join()


def add_pod(cluster: Cluster, manifest: Manifest) -> None:
    cluster.objects["/api/v1/namespaces/team-a/pods/train"] = manifest
    cluster.objects["/api/v1/namespaces/team-a"] = {
        "metadata": {"name": "team-a", "labels": {"gpu.topology/injection": "enabled"}}
    }


def add_topology(cluster: Cluster, *, minutes_ago: int) -> None:
    """What the agent of h20-node-1 published, and its Lease."""
    labels = {"gpu.topology/node": "h20-node-1"}
    metadata = {"name": "gpu-topology-h20-node-1", "namespace": "gpu-topology-system", "labels": labels}
    config_map = {"metadata": metadata, "data": {"topology.json": format_topology(machines.h20())}}
    cluster.objects["/api/v1/configmaps gpu.topology/node=h20-node-1"] = {"items": [config_map]}
    renewed = micro_time(datetime.now(UTC) - timedelta(minutes=minutes_ago))
    path = "/apis/coordination.k8s.io/v1/namespaces/gpu-topology-system/leases/gpu-topology-h20-node-1"
    cluster.objects[path] = {"metadata": metadata, "spec": {"renewTime": renewed}}


def add_claim_case(cluster: Cluster, name: str, *, node: str = "a100-bridged") -> str:
    """The pod of a captured case on its node, with its claims and slices; returns its name for ``explain``."""
    folder = CASES / name
    found = json.loads((folder / "pod.json").read_text())
    found["spec"]["nodeName"] = node
    cluster.objects[f"/api/v1/namespaces/team/pods/{found['metadata']['name']}"] = found
    cluster.objects["/api/v1/namespaces/team"] = {
        "metadata": {"name": "team", "labels": {"gpu.topology/injection": "enabled"}}
    }
    for claim in json.loads((folder / "claims.json").read_text()):
        cluster.objects[f"{RESOURCE}/namespaces/team/resourceclaims/{claim['metadata']['name']}"] = claim
    cluster.objects[SLICES] = {"items": json.loads((folder / "slices.json").read_text())}
    return f"team/{found['metadata']['name']}"
