"""Pods as the planner keeps them: of each what it takes, and of those without a node what they ask for."""

from functools import lru_cache
from sys import intern

import msgspec

from webhook.allocation.hami import counted_cards
from webhook.model import names
from webhook.model.choices import Placement
from webhook.model.errors import ManifestError
from webhook.model.nesting import decode_answer
from webhook.model.pod import Fields, Pod, Quantity
from webhook.model.shape import shape_problem
from webhook.place.amounts import Amounts, greatest, read_amounts, total
from webhook.place.group import group_of
from webhook.place.placed import Later, read_placed
from webhook.place.scheduling import NodeNeeds, node_needs

MOST_ALLOCATION, LONGEST_VALUE = 16 * 1024, 128
"""Characters: of HAMi's list, in which a card has about 60, and of values of ours."""
_AMOUNTS_KEPT = 4096
_SCHEDULED = "PodScheduled"
_POD_LEVEL = ("cpu", "memory")
"""Besides huge pages: k8s.io/component-helpers resource/helpers.go, IsSupportedPodLevelResource."""


class PodCondition(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A condition of the pod's status."""

    type: str
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


NO_CONDITION = PodCondition("")


class UnboundPod(msgspec.Struct, frozen=True):
    """What is known of a pod without a node that carries the mark of injection or a gate of ours."""

    pod: Pod
    """As admission reads it."""
    version: str
    """Its resourceVersion."""
    gates: tuple[str, ...]
    """Its scheduling gates, by name, in their order."""
    priority: int
    created: str
    """Its creationTimestamp."""
    needs: NodeNeeds
    scheduled: PodCondition
    """``PodScheduled``, of the scheduler."""
    placed: PodCondition
    """``gpu.topology/Placed``, of the planner."""
    is_ending: bool
    """Whether it is being deleted."""

    @property
    def is_gated(self) -> bool:
        """Whether it has our scheduling gate."""
        return names.PLACE_GATE in self.gates


class Occupant(msgspec.Struct, frozen=True):
    """What a pod with cards says that runs on its node."""

    allocation: str
    """HAMi's list of its devices."""
    asked: tuple[tuple[str, bool, Amounts], ...]
    """Of each container name, whether it is an init container, and what it asks for; init containers first."""
    started: str
    """When the kubelet took it on, by the clock of the node."""
    mark: str
    """``gpu.topology/injected``; empty without."""
    link: str
    """``gpu.topology/link``; empty without."""
    expects_nvlink: str
    """``gpu.topology/expect-nvlink``; empty without."""


class PodRecord(msgspec.Struct, frozen=True):
    """One pod that has not ended."""

    namespace: str
    name: str
    uid: str
    node: str
    """The node that it is on, or that HAMi has chosen for it; empty: none yet."""
    is_bound: bool
    """Whether it has its node for good."""
    amounts: Amounts
    held: tuple[str, ...]
    """UUIDs of the GPUs that HAMi counts as its own, whole or in part: HAMi counts every pod that has not ended and
    carries a node and a list of devices (pkg/scheduler/scheduler.go, onAddPod)."""
    held_on: str
    """The node on which HAMi counts them. The list of a pod that names GPUs of another node takes none of those."""
    group: str
    """The pods that work together, as ``label=value``; empty: it works alone."""
    later: Later | None
    """What is held for others of its group; None: nothing, or it has no cards itself."""
    unbound: UnboundPod | None
    occupant: Occupant | None = None
    """None while it does not run, or has no cards."""

    @property
    def key(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"


class _Metadata(Fields):
    name: str
    uid: str
    resource_version: str
    namespace: str = names.DEFAULT_NAMESPACE
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


class _Resources(Fields):
    requests: dict[str, Quantity] | None = None
    limits: dict[str, Quantity] | None = None


class _Container(Fields):
    name: str = ""
    resources: _Resources | None = None
    restart_policy: str | None = None


class _Gate(Fields):
    name: str = ""


class _Spec(Fields):
    node_name: str | None = None
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    overhead: dict[str, Quantity] | None = None
    resources: _Resources | None = None
    scheduling_gates: list[_Gate] | None = None
    priority: int | None = None
    node_selector: msgspec.Raw = msgspec.Raw()
    affinity: msgspec.Raw = msgspec.Raw()
    tolerations: msgspec.Raw = msgspec.Raw()


class _Status(Fields):
    phase: str | None = None
    start_time: str | None = None
    conditions: list[PodCondition] | None = None


class _Pod(Fields):
    metadata: _Metadata
    spec: _Spec
    status: _Status | None = None


_DECODER = msgspec.json.Decoder(_Pod)
_AS_ADMITTED = msgspec.json.Decoder(Pod)


def read_pod(document: bytes | bytearray | memoryview, name: str, before: PodRecord | None) -> PodRecord:
    """What is kept of a pod that has not ended.

    Args:
        document: JSON.
        name: Of the pod, for errors.
        before: What was kept of it.

    Returns:
        The value from before, if nothing of that changed.

    Raises:
        ManifestError: it is no pod.
    """
    try:
        found = decode_answer(_DECODER, document)
        record = _record(found, document)
    except msgspec.DecodeError as error:
        raise ManifestError(f"pod {name}: {shape_problem(error)}") from None
    return before if before == record else record


def _record(found: _Pod, document: bytes | bytearray | memoryview) -> PodRecord:
    metadata, spec = found.metadata, found.spec
    annotations = metadata.annotations or {}
    chosen = annotations.get(names.HAMI_ALLOCATED_NODE, "")
    group = group_of(metadata.labels or {})
    ended = (found.status.phase if found.status else "") in ("Succeeded", "Failed")
    return PodRecord(
        namespace=intern(metadata.namespace),
        name=metadata.name,
        uid=metadata.uid,
        node=intern("" if ended else spec.node_name or chosen),
        is_bound=bool(spec.node_name),
        amounts={} if ended else _amounts(spec),
        held_on=intern(chosen),
        held=() if ended or not chosen else _held(annotations),
        group=intern(group),
        later=None if ended or not group else _later(metadata.labels or {}, annotations),
        unbound=_unbound(found, document) if _is_of_interest(found) and not ended else None,
        occupant=_occupant(found, annotations),
    )


def _occupant(found: _Pod, annotations: dict[str, str]) -> Occupant | None:
    status, allocation = found.status, annotations.get(names.HAMI_DEVICES_ALLOCATED, "")
    if status is None or status.phase != "Running" or not status.start_time or not found.spec.node_name:
        return None
    if not allocation or len(allocation) > MOST_ALLOCATION:
        return None
    of_init = [(each.name, True, _asked(each)) for each in found.spec.init_containers or ()]
    of_others = [(each.name, False, _asked(each)) for each in found.spec.containers or ()]
    return Occupant(
        allocation=allocation,
        asked=(*of_init, *of_others),
        started=status.start_time,
        mark=_short(annotations, names.INJECTED),
        link=_short(annotations, names.LINK),
        expects_nvlink=_short(annotations, names.EXPECT_NVLINK),
    )


def _short(annotations: dict[str, str], key: str) -> str:
    """A value of ours is short; longer ones are somebody else's and mean nothing."""
    value = annotations.get(key, "")
    return intern(value) if len(value) <= LONGEST_VALUE else ""


def _is_of_interest(found: _Pod) -> bool:
    if found.spec.node_name:
        return False
    gates = found.spec.scheduling_gates or ()
    return names.INJECTED in (found.metadata.annotations or {}) or any(gate.name == names.PLACE_GATE for gate in gates)


def _unbound(found: _Pod, document: bytes | bytearray | memoryview) -> UnboundPod:
    metadata, spec = found.metadata, found.spec
    conditions = {each.type: each for each in (found.status.conditions if found.status else None) or ()}
    return UnboundPod(
        pod=decode_answer(_AS_ADMITTED, bytes(document)),
        version=metadata.resource_version,
        gates=tuple(gate.name for gate in spec.scheduling_gates or ()),
        priority=spec.priority or 0,
        created=metadata.creation_timestamp or "",
        needs=node_needs(spec.node_selector, spec.affinity, spec.tolerations),
        scheduled=conditions.get(_SCHEDULED, NO_CONDITION),
        placed=conditions.get(names.PLACED_CONDITION, NO_CONDITION),
        is_ending=metadata.deletion_timestamp is not None,
    )


def _later(labels: dict[str, str], annotations: dict[str, str]) -> Later | None:
    """The label says that the planner wrote it, and that the pod was not let go since."""
    if labels.get(names.PLACEMENT) not in (Placement.WAITING, Placement.PINNED):
        return None
    placed = read_placed(annotations)
    return placed.later if placed else None


def _held(annotations: dict[str, str]) -> tuple[str, ...]:
    return tuple(map(intern, counted_cards(annotations.get(names.HAMI_DEVICES_ALLOCATED, ""))))


def _amounts(spec: _Spec) -> Amounts:
    """What kube-scheduler reckons with: k8s.io/component-helpers resource/helpers.go, PodRequests.

    Init containers run one after the other, beside the restartable ones before them.
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
    return _shared(tuple(sorted(total((needed, read_amounts(spec.overhead))).items())))


def _of_the_whole_pod(resources: _Resources | None) -> Amounts:
    """Requests that the pod makes for all its containers, from Kubernetes 1.34 on."""
    asked = read_amounts(resources.requests if resources else None)
    return {name: amount for name, amount in asked.items() if name in _POD_LEVEL or name.startswith("hugepages-")}


@lru_cache(_AMOUNTS_KEPT)
def _shared(amounts: tuple[tuple[str, int], ...]) -> Amounts:
    """One value for all pods of a template."""
    return {intern(name): amount for name, amount in amounts}


def _asked(container: _Container) -> Amounts:
    """The requests; limits stand for requests that are not there (the API server writes them, but not always)."""
    resources = container.resources
    if resources is None:
        return {}
    return read_amounts({**(resources.limits or {}), **(resources.requests or {})})
