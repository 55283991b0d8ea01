"""A stand-in for the API server: pods over keep-alive TLS and, if it has a cluster, lists and watches.

It answers the GET of a pod in chunks, without a content length, as Go does for bodies over 2 KB (net/http/server.go,
bufferBeforeChunkingSize). It decodes no pod, because it must be faster than the webhook.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import uvloop

from bench.bodies import SERIAL
from bench.cluster import OWN_NAMESPACE, Cluster, Write
from bench.objects import Objects
from certs.certificate import issue
from certs.context import server_context

END = b"\r\n\r\n"
HEAD = (
    b"HTTP/1.1 200 OK\r\n"
    b"Audit-Id: 5b8f4c1d-6e0a-4f27-9d3c-2a1b7e9f8c60\r\n"
    b"Cache-Control: no-cache, private\r\n"
    b"Content-Type: application/json\r\n"
    b"X-Kubernetes-Pf-Flowschema-Uid: 0a6f8d0e-0d5b-4b63-9a0e-3f8b0f7d9c11\r\n"
    b"X-Kubernetes-Pf-Prioritylevel-Uid: 3f1b7c9a-54d2-4f7e-8a60-1c2d3e4f5a6b\r\n"
    b"Date: Thu, 15 Jan 2026 09:30:00 GMT\r\n"
)
READY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
NAME = re.compile(rb"GET /(?:api/v1|apis/resource\.k8s\.io/v1)/namespaces/[^/ ]+/(pods|resourceclaims)/([^/? ]+) ")


class Pods:
    """The pods, and their claims.

    Args:
        pods: The pods to hand out in turn. The twelve digits at the end of the requested name choose one, and replace
            ``SERIAL`` in it.
        claims: One claim for each pod, chosen by the same digits; none if the pods have no claims.
    """

    def __init__(self, pods: Sequence[bytes], claims: Sequence[bytes] = ()) -> None:
        self._kept = {
            b"pods": [chunked(pod) for pod in pods],
            b"resourceclaims": [chunked(claim) for claim in claims],
        }

    def answer(self, request: bytes) -> bytes:
        """Returns the whole answer to a request."""
        asked = NAME.match(request)
        kept = self._kept[asked[1]] if asked else []
        if asked is None or not kept:
            return READY
        serial = asked[2][-len(SERIAL) :]
        if len(serial) < len(SERIAL) or not serial.isdigit():
            return READY
        return kept[int(serial) % len(kept)].replace(SERIAL, serial)


def chunked(document: bytes) -> bytes:
    """Returns an answer with the document in one chunk."""
    return HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0" % (len(document), document) + END


class Connection(asyncio.Protocol):
    """One connection, which answers each request when it is complete."""

    def __init__(self, pods: Pods, cluster: Cluster, objects: Objects) -> None:
        self._pods = pods
        self._objects = objects
        self._cluster = cluster
        self._write: Write
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop when the handshake is done."""
        self._write = cast("asyncio.Transport", transport).write

    def connection_lost(self, _: Exception | None) -> None:
        """Called by the loop."""
        self._cluster.forget(self._write)

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        self._received += data
        while END in self._received:
            request, _, rest = self._received.partition(END)
            said = LENGTH.search(request)
            length = int(said[1]) if said else 0
            if len(rest) < length:
                return
            self._received = rest[length:]
            self._answer(request, rest[:length])

    def _answer(self, request: bytes, body: bytes) -> None:
        method, target = request.split(b" ", 2)[:2]
        found = self._objects.answer(method.decode(), target.decode(), json.loads(body or b"{}"))
        if found is not None:
            status, document = found
            text = json.dumps(document).encode()
            self._write(b"HTTP/1.1 %d -\r\nContent-Length: %d\r\n\r\n%s" % (status, len(text), text))
        elif not self._cluster.answer(target.decode(), self._write):
            self._write(self._pods.answer(request))


async def serve(port: int, ca_file: Path, pods: Pods, cluster: Cluster, objects: Objects) -> None:
    """Serves until a signal ends it."""
    bundle = issue(["127.0.0.1"], now=datetime.now(UTC), lifetime=timedelta(days=1))
    ca_file.write_bytes(bundle.authority)
    loop = asyncio.get_running_loop()
    tls = server_context(bundle)
    server = await loop.create_server(lambda: Connection(pods, cluster, objects), "127.0.0.1", port, ssl=tls)
    await asyncio.gather(server.serve_forever(), cluster.live())


def main() -> None:
    """Reads the pods and serves them."""
    parser = argparse.ArgumentParser(prog="python -m bench.api_server", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--ca-file", type=Path, required=True, help="where to write the authority to trust")
    parser.add_argument("--pods", type=Path, required=True, help="a directory with *.json, and claims/*.json")
    parser.add_argument("--nodes", type=int, default=0, help="nodes of its cluster")
    parser.add_argument("--resync", type=float, default=0.0, help="seconds after which watches expire; 0: never")
    parser.add_argument("--authority", type=Path, help="where to write the authority that the webhook makes")
    arguments = parser.parse_args()
    directory: Path = arguments.pods
    pods, claims = (
        [path.read_bytes() for path in sorted(folder.glob("*.json"))] for folder in (directory, directory / "claims")
    )
    cluster, objects = Cluster(arguments.nodes, arguments.resync), Objects(OWN_NAMESPACE, arguments.authority)
    uvloop.run(serve(arguments.port, arguments.ca_file, Pods(pods, claims), cluster, objects))


if __name__ == "__main__":
    main()
