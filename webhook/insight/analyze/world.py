"""What is free in a snapshot, as the planner reckons it."""

from collections.abc import Iterator

import msgspec

from webhook.analyze.snapshot import KnownPod, Snapshot
from webhook.model import names
from webhook.model.errors import ManifestError
from webhook.place.pod import PodRecord, read_pod
from webhook.place.world import World


class FilledWorld:
    """A world with all nodes and pods of a snapshot.

    Args:
        snapshot: The cluster.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.world = World()
        self.records: list[tuple[KnownPod, PodRecord]] = []
        """The pods that the planner can read."""
        max_age = snapshot.policy.binding.topology_max_age_seconds
        for node in snapshot.nodes.values():
            self.world.node_changed(node.name, node.record, node.relied_on(max_age))
        for known, record in _records(snapshot):
            self.world.pod_changed(record.key, None, record)
            self.records.append((known, record))
        self.world.refresh()


def _records(snapshot: Snapshot) -> Iterator[tuple[KnownPod, PodRecord]]:
    for known in snapshot.pods:
        try:
            record: PodRecord | None = read_pod(known.document, known.name, None)
        except ManifestError:
            record = _read(msgspec.json.decode(known.document), known)
        if record is not None:
            yield known, record


def before_its_node(known: KnownPod) -> PodRecord | None:
    """The pod as it was before HAMi chose its node and its cards; None if the planner cannot read it."""
    document = msgspec.json.decode(known.document)
    document["spec"].pop("nodeName", None)
    annotations = document["metadata"].setdefault("annotations", {})
    for key in (names.HAMI_ALLOCATED_NODE, names.HAMI_DEVICES_ALLOCATED, names.HAMI_DEVICES_TO_ALLOCATE):
        annotations.pop(key, None)
    annotations.setdefault(names.INJECTED, "")  # the planner keeps nothing else of a pod without a node
    return _read(document, known)


def _read(document: dict[str, dict[str, object]], known: KnownPod) -> PodRecord | None:
    """Pods of files may lack what the API server gives to each."""
    metadata = document["metadata"]
    metadata.setdefault("uid", f"{known.namespace}/{known.name}")
    metadata.setdefault("resourceVersion", "0")
    metadata.setdefault("name", known.name)
    try:
        return read_pod(msgspec.json.encode(document), known.name, None)
    except ManifestError:
        return None
