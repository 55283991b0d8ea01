"""The pods in the planner's memory: the resources that each takes, and the requests of those without a node."""

from functools import lru_cache
from itertools import islice
from sys import intern

import msgspec

from webhook.decisions.allocation.hami import Counted, counted_parts
from webhook.decisions.allocation.model import WHOLE
from webhook.decisions.place.group import group_of
from webhook.decisions.place.kept_pod import gate_alone, kept_pod, size_of
from webhook.decisions.place.placed_annotation import Placed, read_placed
from webhook.decisions.place.scheduling import ANY_NODE, MOST_OF_NEEDS, NodeNeeds, node_needs
from webhook.objects.amounts import MOST_RESOURCES, Amounts, greatest, read_amounts, total
from webhook.objects.pod import (
    NO_CONDITION,
    Container,
    MalformedPod,
    Metadata,
    Pod,
    PodCondition,
    PodSpec,
    Resources,
    decode_stored_pod,
)
from webhook.words import names
from webhook.words.errors import ManifestError
from webhook.words.nesting import Document
from webhook.words.shape import shape_problem

MOST_ALLOCATION, LONGEST_VALUE = 16 * 1024, 128
"""The most characters of HAMi's list, in which a card has about 60, and of values that this project writes."""
MOST_PARTS = 256
"""The most parts of cards, and the most cards, that are kept of a pod: as many as a pod may be given. HAMi's list is an
annotation, which users can write, and may name tens of thousands of cards that no node has."""
NEEDS_BYTES = 12
"""About the bytes that requirements to nodes take for each of their JSON, where they are thousands of short values."""
MOST_OF_SHORT = 16
"""The most cards that are kept of a pod with a node when its namespace has no more room in the planner's memory: no
machine has more."""
MEMORY_FULL = "the planner's memory has no more room for waiting pods of its namespace"
MOST_ASKED = 1024
"""The most requests, over all containers, that are kept of a running pod with cards."""
MOST_SHARED = 8
"""The most resources of a pod whose amounts are one value for all pods that ask for the same."""
_AMOUNTS_KEPT = 4096
_NEVER = "Never"
"""The ``preemptionPolicy`` of pods for which no pod is evicted."""
_POD_LEVEL = ("cpu", "memory")
"""The resources that a pod may request as a whole, besides huge pages: k8s.io/component-helpers resource/helpers.go,
IsSupportedPodLevelResource."""


class UnboundPod(msgspec.Struct, frozen=True):
    """A pod without a node that carries the mark of injection, the planner's gate or its label."""

    pod: Pod
    """What is kept of the pod, as admission reads it."""
    version: str
    """The resourceVersion of the pod."""
    gates: tuple[str, ...]
    """The names of its scheduling gates, in their order."""
    priority: int
    created: str
    """The creationTimestamp of the pod."""
    needs: NodeNeeds
    scheduled: PodCondition
    """The condition ``PodScheduled``, of the scheduler."""
    placed: PodCondition
    """The condition ``gpu.topology/Placed``, of the planner."""
    is_ending: bool
    """Whether the pod is being deleted."""
    chosen: Placed | None = None
    """The annotation ``gpu.topology/placed``, read once because it may be long; None: there is none to read."""
    may_preempt: bool = True
    """Whether kube-scheduler may evict pods of lower priority for the pod (``preemptionPolicy``)."""
    size: int = 0
    """About the bytes of ``pod``, ``needs`` and ``chosen``."""
    why_cut: str = ""
    """Why of ``pod`` only what opens its gate is kept, in a clause; empty: all is kept that the planner reads."""

    @property
    def is_gated(self) -> bool:
        """Whether the pod has the planner's scheduling gate."""
        return names.PLACE_GATE in self.gates

    @property
    def other_gates(self) -> tuple[str, ...]:
        """The names of its gates but the planner's, in their order."""
        return tuple([gate for gate in self.gates if gate != names.PLACE_GATE])


class Occupant(msgspec.Struct, frozen=True):
    """A pod with cards that runs on its node."""

    allocation: str
    """HAMi's list of the devices of the pod."""
    asked: tuple[tuple[str, bool, Amounts], ...]
    """For each container: its name, whether it is an init container, and its requests; init containers first."""
    mark: str
    """The annotation ``gpu.topology/injected``; empty without it."""
    link: str
    """The annotation ``gpu.topology/link``; empty without it."""
    expects_nvlink: str
    """The annotation ``gpu.topology/expect-nvlink``; empty without it."""


class PodRecord(msgspec.Struct, frozen=True):
    """One pod that has not ended."""

    namespace: str
    name: str
    uid: str
    node: str
    """The node of the pod; empty: none yet. kube-scheduler counts a pod on no other node, and an annotation such as
    HAMi's ``hami.io/vgpu-node`` of a pod without a node may be any user's."""
    is_bound: bool
    """Whether the pod is bound to its node."""
    amounts: Amounts
    held: tuple[str, ...]
    """The UUIDs of the GPUs that HAMi counts as the pod's own, whole or in part. HAMi counts every pod that has not
    ended and carries a node and a list of devices (pkg/scheduler/scheduler.go, onAddPod)."""
    held_on: str
    """The node on which HAMi counts these GPUs. A list that names GPUs of another node takes none of those."""
    group: str
    """The group of pods that work together, as ``label=value``; empty: the pod works alone."""
    unbound: UnboundPod | None
    occupant: Occupant | None = None
    """The running pod with its cards; None while the pod does not run, or has no cards."""
    priority: int = 0
    is_leaving: bool = False
    """Whether the pod is being deleted and still takes resources of its node."""
    parts: tuple[Counted, ...] = ()
    """The parts of cards that HAMi counts as the pod's own; empty where it has whole cards."""
    nominated: str = ""
    """The node on which kube-scheduler makes room for the pod; empty: none."""

    @property
    def key(self) -> str:
        """The namespace and name of the pod."""
        return f"{self.namespace}/{self.name}"


def read_pod(document: Document, name: str, before: PodRecord | None) -> PodRecord:
    """Reads the record of a pod of the API server.

    Args:
        document: The pod as JSON.
        name: The name of the pod, for errors.
        before: The record that was kept of the pod.

    Returns:
        The record from before, if nothing in it changed.

    Raises:
        ManifestError: the document is no pod.
    """
    try:
        pod = decode_stored_pod(bytes(document))
        _check(pod)
        record = record_of(pod)
    except (msgspec.DecodeError, MalformedPod) as error:
        said = shape_problem(error) if isinstance(error, msgspec.DecodeError) else str(error)
        raise ManifestError(f"pod {name}: {said}") from None
    return before if before == record else record


def shortened(pod: PodRecord) -> PodRecord:
    """Returns what has to be kept of a pod when its namespace has no more room in the planner's memory.

    A pod that waits goes on without a choice. Of a pod with a node the cards that it can have there are kept. A list of
    cards of a pod without a node is the scheduler's for a moment only, or a user's.
    """
    cards = pod.held[:MOST_OF_SHORT] if pod.is_bound else ()
    is_whole = len(cards) == len(pod.held)
    return msgspec.structs.replace(
        pod,
        held=cards,
        parts=pod.parts if is_whole else (),
        occupant=pod.occupant if is_whole else None,
        amounts={name: pod.amounts[name] for name in islice(pod.amounts, MOST_SHARED)},
        unbound=pod.unbound and _cut(pod.unbound),
    )


def _cut(unbound: UnboundPod) -> UnboundPod:
    return msgspec.structs.replace(
        unbound,
        pod=gate_alone(unbound.pod),
        needs=ANY_NODE,
        size=0,
        chosen=None,
        why_cut=unbound.why_cut or MEMORY_FULL,
    )


def _check(pod: Pod) -> None:
    """Raises MalformedPod if the pod lacks what every pod of the API server has."""
    metadata = pod.metadata or Metadata()
    if pod.spec is None or not (metadata.name and metadata.uid and metadata.resource_version):
        raise MalformedPod("expected metadata with name, uid and resourceVersion, and a spec, found a pod without")


def record_of(pod: Pod) -> PodRecord:
    """Returns the record of a pod. A pod from a file may lack the uid and version that the API server gives each pod.

    Raises:
        MalformedPod: a field has another type than in a pod.
    """
    metadata, spec = pod.metadata or Metadata(), pod.spec or PodSpec()
    namespace, name = metadata.namespace or names.DEFAULT_NAMESPACE, metadata.name or pod.display_name
    ended, chosen = pod.has_ended, pod.annotations.get(names.HAMI_ALLOCATED_NODE, "")
    counted = () if ended or not chosen else counted_parts(pod.annotations.get(names.HAMI_DEVICES_ALLOCATED, ""))
    # A pod that is being deleted works with no others: those that follow it are a group of their own.
    group = "" if metadata.deletion_timestamp else group_of(pod)
    unbound = _unbound(pod, metadata, spec) if not ended and _is_of_interest(pod, spec) else None
    return PodRecord(
        namespace=intern(namespace),
        name=name,
        uid=metadata.uid or f"{namespace}/{name}",
        node=intern("" if ended else spec.node_name or ""),
        is_bound=bool(spec.node_name),
        amounts={} if ended else _amounts(spec),
        held_on=intern(chosen),
        held=_held(counted),
        group=intern(group),
        unbound=unbound,
        occupant=_occupant(pod, spec),
        priority=spec.priority or 0,
        parts=_parts(counted),
        is_leaving=not ended and bool(spec.node_name) and metadata.deletion_timestamp is not None,
        nominated="" if ended or spec.node_name else intern(_nominated(pod)),
    )


def _nominated(pod: Pod) -> str:
    return (pod.status.nominated_node_name if pod.status else None) or ""


def _occupant(pod: Pod, spec: PodSpec) -> Occupant | None:
    status, allocation = pod.status, pod.annotations.get(names.HAMI_DEVICES_ALLOCATED, "")
    if status is None or status.phase != "Running" or not spec.node_name:
        return None
    if not allocation or len(allocation) > MOST_ALLOCATION:
        return None
    of_init = [(each.name, True, _asked(each)) for each in spec.init_containers or ()]
    of_others = [(each.name, False, _asked(each)) for each in spec.containers or ()]
    asked = (*of_init, *of_others)
    if sum(len(amounts) for _, _, amounts in asked) > MOST_ASKED:
        return None
    return Occupant(
        allocation=allocation,
        asked=asked,
        mark=_short(pod.annotations, names.INJECTED),
        link=_short(pod.annotations, names.LINK),
        expects_nvlink=_short(pod.annotations, names.EXPECT_NVLINK),
    )


def _short(annotations: dict[str, str], key: str) -> str:
    """Returns the value of an annotation of this project. Longer values come from other programs and count as empty."""
    value = annotations.get(key, "")
    return intern(value) if len(value) <= LONGEST_VALUE else ""


def _is_of_interest(pod: Pod, spec: PodSpec) -> bool:
    if spec.node_name:
        return False
    is_held = names.PLACE_GATE in spec.scheduling_gates
    return is_held or names.INJECTED in pod.annotations or names.PLACEMENT in pod.labels


def _unbound(pod: Pod, metadata: Metadata, spec: PodSpec) -> UnboundPod:
    kept, needs, needs_size = kept_pod(pod), ANY_NODE, 0
    if not kept.why_cut:
        texts = (spec.node_selector_json, spec.affinity_json, spec.tolerations_json)
        needs, needs_size = node_needs(*texts), NEEDS_BYTES * min(MOST_OF_NEEDS, sum(map(size_of, texts)))
    chosen = read_placed(kept.pod.annotations)
    return UnboundPod(
        pod=kept.pod,
        size=kept.size + size_of(chosen) + needs_size,
        version=metadata.resource_version or "0",
        gates=tuple(spec.scheduling_gates),
        priority=spec.priority or 0,
        created=metadata.creation_timestamp or "",
        needs=needs,
        scheduled=pod.scheduled or NO_CONDITION,
        placed=pod.placed or NO_CONDITION,
        is_ending=metadata.deletion_timestamp is not None,
        chosen=chosen,
        may_preempt=spec.preemption_policy != _NEVER,
        why_cut=kept.why_cut,
    )


def _held(counted: tuple[Counted, ...]) -> tuple[str, ...]:
    """Returns the cards of a pod, the first ``MOST_PARTS`` of them."""
    return tuple([intern(uuid) for uuid in islice(dict.fromkeys(part.uuid for part in counted), MOST_PARTS)])


def _parts(counted: tuple[Counted, ...]) -> tuple[Counted, ...]:
    """Returns the parts of cards that a pod has.

    None is kept where one is a whole card, or where there are too many: the pod then holds its cards as a whole.
    """
    if len(counted) > MOST_PARTS or any(part.cores >= WHOLE for part in counted):
        return ()
    return tuple([part._replace(uuid=intern(part.uuid)) for part in counted])


def _amounts(spec: PodSpec) -> Amounts:
    """Returns the amounts that kube-scheduler counts: k8s.io/component-helpers resource/helpers.go, PodRequests.

    Init containers run one after the other, beside the restartable init containers before them. Of thousands of
    resources, which a user may name, the first ones are kept: Kubernetes' own, such as memory, then those of devices.
    """
    restartable: list[Amounts] = []
    peaks: list[Amounts] = []
    for container in spec.init_containers or ():
        asked = _asked(container)
        peaks.append(total((*restartable, asked)))
        if container.restart_policy == "Always":
            restartable.append(asked)
    running = total((*restartable, *map(_asked, spec.containers or ())))
    needed = {**greatest((running, *peaks)), **_of_the_whole_pod(spec.resources)}
    found = total((needed, read_amounts(spec.overhead)))
    kept = sorted(found, key=lambda name: ("/" in name, name))[:MOST_RESOURCES]
    amounts = tuple([(name, found[name]) for name in kept])
    return _shared(amounts) if len(amounts) <= MOST_SHARED else dict(amounts)


def _of_the_whole_pod(resources: Resources | None) -> Amounts:
    """Returns the requests of the pod as a whole, from Kubernetes 1.34 on."""
    asked = read_amounts(resources.requests if resources else None)
    return {name: amount for name, amount in asked.items() if name in _POD_LEVEL or name.startswith("hugepages-")}


@lru_cache(_AMOUNTS_KEPT)
def _shared(amounts: tuple[tuple[str, int], ...]) -> Amounts:
    """Returns one shared value for all pods of a template."""
    return {intern(name): amount for name, amount in amounts}


def _asked(container: Container) -> Amounts:
    """Returns the requests of a container.

    A limit stands for a request that is missing: the API server writes such requests, but not always.
    """
    resources = container.resources
    if resources is None:
        return {}
    return read_amounts({**(resources.limits or {}), **(resources.requests or {})})
