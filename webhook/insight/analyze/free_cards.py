"""The planner's view of a snapshot: its nodes, its pods, and the cards that are free."""

import msgspec

from webhook.cluster.snapshot.model import KnownPod, Snapshot
from webhook.decisions.place.pod import PodRecord, record_of
from webhook.decisions.place.world import World
from webhook.objects.pod import MalformedPod, Metadata, Pod, PodSpec
from webhook.words import names


class FilledWorld:
    """The planner's world, filled with all nodes and pods of a snapshot.

    Args:
        snapshot: The cluster.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.world = World()
        self.records: list[tuple[KnownPod, PodRecord]] = []
        """The pods that the planner can read, each with its record."""
        max_age = snapshot.policy.binding.topology_max_age_seconds
        for node in snapshot.nodes.values():
            self.world.node_changed(node.name, node.record, node.relied_on(max_age))
        for known in snapshot.pods:
            if (record := _read(known.pod)) is not None:
                self.world.pod_changed(record.key, None, record)
                self.records.append((known, record))
        self.world.refresh()


def before_its_node(known: KnownPod) -> PodRecord | None:
    """Returns the pod as it was before HAMi chose its node and its cards; None if the planner cannot read it."""
    pod = known.pod
    annotations = {key: value for key, value in pod.annotations.items() if key not in names.HAMI_CHOICE}
    annotations.setdefault(names.INJECTED, "")  # else the planner ignores a pod without a node
    metadata = msgspec.structs.replace(pod.metadata or Metadata(), annotations=annotations)
    spec = msgspec.structs.replace(pod.spec or PodSpec(), node_name=None)
    return _read(msgspec.structs.replace(pod, metadata=metadata, spec=spec))


def _read(pod: Pod) -> PodRecord | None:
    try:
        return record_of(pod)
    except MalformedPod:
        return None
