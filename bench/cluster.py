"""The cluster of the stand-in for the API server: namespaces, and nodes with eight GPUs and an agent each.

Objects have the size of real ones, managedFields included, and change as often: each Lease once a minute, and each Node
twice a minute, because HAMi's device plugin and scheduler exchange a handshake in its annotations every 30 s (HAMi
pkg/device-plugin, watchAndRegister).
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from bench import bodies
from bench.bindings import topology
from webhook.hardware.topology.document import format_topology
from webhook.hardware.topology.nccl_file import format_nccl_topology

OWN_NAMESPACE = "gpu-topology"
NAMESPACES = 200
LEASE_SECONDS, NODE_SECONDS = 60.0, 30.0
TICK_SECONDS = 0.05
BOOKMARK_SECONDS = 60.0
END_OF_CHUNKS = b"0\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
GONE = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410, "message": "old"}
PLACE = '"@version@"'
HAMI_DEPLOYMENT = {
    "metadata": {"name": "hami-scheduler", "namespace": "kube-system"},
    "spec": {
        "template": {"spec": {"containers": [{"name": "vgpu-scheduler-extender", "image": "projecthami/hami:v2.9.0"}]}}
    },
}
OTHERS = {
    "/version": {"major": "1", "minor": "33", "gitVersion": "v1.33.2"},
    "/apis/apps/v1/deployments": {"items": [HAMI_DEPLOYMENT]},
}

Write = Callable[[bytes], None]


@dataclass
class Collection:
    """A collection of objects as JSON. Each text is cut at the place of the resource version."""

    objects: list[tuple[bytes, bytes]]
    versions: list[int]
    seconds: float = 0.0
    """The seconds in which each object changes once; 0: never."""
    watchers: set[Watcher] = field(default_factory=set)

    def item(self, number: int) -> bytes:
        """Returns the JSON of one object."""
        before, after = self.objects[number]
        return b'%s"%d"%s' % (before, self.versions[number], after)


class Watcher:
    """One watch of a client."""

    def __init__(self, write: Write) -> None:
        self._write = write
        write(CHUNKED)

    def tell(self, kind: bytes, document: bytes) -> None:
        """Sends an event."""
        line = b'{"type":"%s","object":%s}\n' % (kind, document)
        self._write(b"%x\r\n%s\r\n" % (len(line), line))

    def end(self) -> None:
        """Ends the watch, and so the answer."""
        self._write(END_OF_CHUNKS)


class Cluster:
    """The cluster: its collections and their changes.

    Args:
        nodes: The number of nodes.
        resync: The interval in seconds after which all watches end because their version is gone; 0: never.
    """

    def __init__(self, nodes: int, resync: float) -> None:
        self._resync = resync
        self._version = 1_000_000
        own = f"namespaces/{OWN_NAMESPACE}"
        self._collections = {
            "/api/v1/namespaces": _collection(map(_namespace, range(NAMESPACES))),
            "/api/v1/nodes": _collection(map(_node, range(nodes)), NODE_SECONDS),
            f"/api/v1/{own}/configmaps": _collection(map(_config_map, range(nodes))),
            f"/apis/coordination.k8s.io/v1/{own}/leases": _collection(map(_lease, range(nodes)), LEASE_SECONDS),
        }

    def answer(self, target: str, write: Write) -> bool:
        """Answers a request, or begins to; returns False if the request is not about the cluster."""
        url = urlsplit(target)
        if url.path in OTHERS:
            _say(write, msgspec.json.encode(OTHERS[url.path]))
            return True
        collection = self._collections.get(url.path)
        if collection is None:
            return False
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        if "watch" in query:
            collection.watchers.add(Watcher(write))
        else:
            begin = int(query.get("continue", "0"))
            _say(write, self._page(collection, begin, begin + int(query["limit"])))
        return True

    def forget(self, write: Write) -> None:
        """Removes the watches of a closed connection."""
        for collection in self._collections.values():
            collection.watchers = {one for one in collection.watchers if one._write is not write}  # noqa: SLF001

    async def live(self) -> None:
        """Changes objects, and sends bookmarks or ends watches, forever."""
        loop = asyncio.get_running_loop()
        for collection in self._collections.values():
            if collection.seconds and collection.objects:
                loop.create_task(self._change(collection))  # noqa: RUF006 - ends with the process
        while True:
            await asyncio.sleep(self._resync or BOOKMARK_SECONDS)
            for collection in self._collections.values():
                self._remind(collection)

    async def _change(self, collection: Collection) -> None:
        numbers = itertools.cycle(range(len(collection.objects)))
        due = 0.0
        while True:
            await asyncio.sleep(TICK_SECONDS)
            due += TICK_SECONDS * len(collection.objects) / collection.seconds
            for number in itertools.islice(numbers, int(due)):
                self._version += 1
                collection.versions[number] = self._version
                for watcher in collection.watchers:
                    watcher.tell(b"MODIFIED", collection.item(number))
            due %= 1

    def _remind(self, collection: Collection) -> None:
        """Ends all watches because their version is gone, or sends them a bookmark."""
        for watcher in collection.watchers:
            if self._resync:
                watcher.tell(b"ERROR", msgspec.json.encode(GONE))
                watcher.end()
            else:
                bookmark = {"metadata": {"resourceVersion": str(self._version)}}
                watcher.tell(b"BOOKMARK", msgspec.json.encode(bookmark))
        if self._resync:
            collection.watchers.clear()

    def _page(self, collection: Collection, begin: int, end: int) -> bytes:
        following = f',"continue":"{end}"' if end < len(collection.objects) else ""
        items = b",".join(collection.item(number) for number in range(begin, min(end, len(collection.objects))))
        head = f'{{"kind":"List","metadata":{{"resourceVersion":"{self._version}"{following}}},"items":['
        return head.encode() + items + b"]}"


def _say(write: Write, body: bytes) -> None:
    write(CHUNKED + b"%x\r\n%s\r\n" % (len(body), body) + END_OF_CHUNKS)


def _collection(objects: Iterator[dict[str, Any]], seconds: float = 0.0) -> Collection:
    cut = []
    for one in objects:
        before, _, after = json.dumps(one, separators=(",", ":")).partition(PLACE)
        cut.append((before.encode(), after.encode()))
    return Collection(cut, list(range(1, len(cut) + 1)), seconds)


def node_name(number: int) -> str:
    """Returns the name of the node with a number."""
    return f"gpu-node-{number:05}"


def _metadata(name: str, **more: Any) -> dict[str, Any]:
    written = {"metadata": {key: more[key] for key in ("labels", "annotations") if key in more}}
    entry = {
        "manager": "agent",
        "operation": "Update",
        "fieldsType": "FieldsV1",
        "fieldsV1": bodies.owned_fields(written),
    }
    uid = f"0a6f8d0e-0d5b-4b63-9a0e-{abs(hash(name)) % 10**12:012}"
    return {"name": name, "uid": uid, "resourceVersion": PLACE.strip('"'), **more, "managedFields": [entry]}


def _namespace(number: int) -> dict[str, Any]:
    name = f"team-{number}" if number else bodies.NAMESPACE
    labels = {"kubernetes.io/metadata.name": name}
    if not number:
        labels["gpu.topology/injection"] = "enabled"
    return {"metadata": _metadata(name, labels=labels)}


def _node(number: int) -> dict[str, Any]:
    name = node_name(number)
    gpus = [
        {
            "id": _renamed(gpu.uuid, number),
            "index": gpu.index,
            "count": 10,
            "devmem": gpu.memory_mib,
            "devcore": 100,
            "type": f"NVIDIA-{gpu.name}",
            "numa": gpu.numa_node or 0,
            "mode": "hami-core",
            "health": True,
            "devicevendor": "NVIDIA",
        }
        for gpu in topology().gpus
    ]
    scores = [{"uuid": one["id"], "score": {other["id"]: 100 for other in gpus if other is not one}} for one in gpus]
    labels = {f"nvidia.com/gpu.label-{one}": "a-value-of-a-label" for one in range(40)}
    annotations = {
        "hami.io/node-handshake": "Requesting_2026-01-15 09:30:00",
        "hami.io/node-nvidia-register": json.dumps(gpus, separators=(",", ":")),
        "hami.io/node-nvidia-score": json.dumps(scores, separators=(",", ":")),
        **{f"example.com/annotation-{one}": "v" * 60 for one in range(10)},
    }
    return {"metadata": _metadata(name, labels=labels, annotations=annotations)}


def _config_map(number: int) -> dict[str, Any]:
    name = node_name(number)
    document = format_topology(topology()).replace(topology().node, name)
    for gpu in topology().gpus:
        document = document.replace(gpu.uuid, _renamed(gpu.uuid, number))
    metadata = _metadata(f"gpu-topology-{name}", labels={"gpu.topology/node": name})
    data = {"topology.json": document, "nccl-topo.xml": format_nccl_topology(topology())}
    return {"metadata": metadata, "data": data}


def _lease(number: int) -> dict[str, Any]:
    name = node_name(number)
    spec = {"holderIdentity": name, "leaseDurationSeconds": 600, "renewTime": "2026-01-15T09:30:00.000000Z"}
    return {"metadata": _metadata(f"gpu-topology-{name}", labels={"gpu.topology/node": name}), "spec": spec}


def _renamed(uuid: str, number: int) -> str:
    return re.sub(r"[0-9a-f]{8}$", f"{number:08x}", uuid)
