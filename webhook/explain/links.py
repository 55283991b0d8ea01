"""Which GPUs does the pod have, and how are they linked?"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from webhook.allocation.read import DIALECTS
from webhook.bind.binding import may_be_told
from webhook.explain.cards import WHOLE_CARDS
from webhook.explain.case import Case
from webhook.explain.findings import Finding, fails, holds, not_needed, unknown
from webhook.explain.variables import shuts_p2p
from webhook.explain.words import HAVE, clause, gpus, listed
from webhook.model import names
from webhook.model.binding import BIND_SENTENCES, BindReason
from webhook.model.errors import shorten
from webhook.model.references import referred_annotations
from webhook.resolve.node import KnownNode, Origin
from webhook.resolve.outputs import FOR_PEOPLE, annotations
from webhook.resolve.resolve import Resolution, Unresolved
from webhook.topology.health import node_health
from webhook.topology.model import Gpu
from webhook.topology.sets import GpuSet

ALLOCATION, NODE, LINKS, BANDWIDTH, REQUIREMENTS, TOLD = (
    "allocation",
    "node-topology",
    "links",
    "bandwidth",
    "requirements",
    "told-at-binding",
)
PAIRS_SHOWN = 6

_REMEDIES = {
    Unresolved.NO_ALLOCATION: "Look whether the scheduler of these GPUs has scheduled the pod: spec.schedulerName",
    Unresolved.STALE_ALLOCATION: "Create the pod again",
    Unresolved.BAD_ALLOCATION: "Create the pod again",
    Unresolved.MIG_ALLOCATION: "Run the pod on a node whose GPUs are not in MIG mode",
    Unresolved.OVER_LIMIT: "Use less, or raise the limit in the configuration of the webhook",
    Unresolved.NODE_UNKNOWN: "Run the agent on the node, or give its topology with --topology or --state",
}
_ADD_UUIDS = "Add the output of nvidia-smi -L to the topology"
_NOT_KNOWN = (Unresolved.NO_ALLOCATION, Unresolved.NODE_UNKNOWN)
"""What says nothing about the GPUs themselves."""


def links(case: Case) -> Iterator[Finding]:
    """Allocation, node, links, bandwidth, requirements, and what the binding told the pod."""
    if case.requests.mig:
        yield not_needed(LINKS, f"between MIG instances there is no NVLink: see {WHOLE_CARDS}")
        return
    yield _allocation(case)
    yield _node(case)
    if case.resolution:
        for one in case.resolution.sets:
            yield from _set(case, case.resolution.node, one)
    else:
        yield unknown(LINKS, "which GPUs they are is not known")
    yield _requirements(case)
    yield _told(case)


def _allocation(case: Case) -> Finding:
    if case.resolution:
        given = [f"{gpus(one.gpus)} to container {one.container.name}" for one in case.resolution.containers]
        return holds(ALLOCATION, f"node {case.evidence.node} gives {listed(given)}")
    missing = case.unresolved
    if missing is None:
        return unknown(ALLOCATION, "the pod is not scheduled yet: which GPUs it gets is open")
    if missing.reason is Unresolved.NODE_UNKNOWN:
        return unknown(ALLOCATION, f"GPUs of node {case.evidence.node}, of which nothing is known")
    if _lacks_uuids(case):
        said = f"what is known of node {case.evidence.node} has no UUIDs, and the scheduler names GPUs by theirs"
        return unknown(ALLOCATION, said, _ADD_UUIDS)
    said = missing.text
    if missing.reason not in (Unresolved.NO_ALLOCATION, Unresolved.STALE_ALLOCATION):  # which say it all
        said = f"{clause(BIND_SENTENCES[BindReason(missing.reason.value)])}: {said}"
    remedy = _remedy(case, missing.reason)
    if missing.reason in _NOT_KNOWN:
        return unknown(ALLOCATION, said, remedy)
    return fails(ALLOCATION, said, remedy, stops=missing.reason is Unresolved.MIG_ALLOCATION)


def _remedy(case: Case, reason: Unresolved) -> str:
    if case.actual.refusal and case.unresolved and case.unresolved.text == case.actual.refusal:
        return "Correct what the message names, and create the pod again"
    annotations_of_pod = case.evidence.pod.annotations
    other = next((one for one in DIALECTS if annotations_of_pod.get(one.key, "").strip(";")), None)
    if reason is Unresolved.NO_ALLOCATION and other and other.family != case.family:
        return (
            f"Annotation {other.key} is of {other.family.capitalize()}, but the configuration says that the pod's "
            f"resources are of {case.family}: write resources: family: {other.family} there, and give it with --config"
        )
    if reason is Unresolved.GPU_UNKNOWN:
        return f"Look at the node: {_show(case)}"
    if reason is Unresolved.NODE_UNKNOWN and case.evidence.reading.node_problem:
        return f"{HAVE} to list ConfigMaps and to get nodes"
    return _REMEDIES[reason]


def _show(case: Case) -> str:
    options = case.evidence.reading.show
    return f"gpu-topology topology show {options}" if options else f"gpu-topology topology show on node {_name(case)}"


def _name(case: Case) -> str:
    return case.resolution.node.name if case.resolution else case.evidence.node


def _lacks_uuids(case: Case) -> bool:
    """Whether the GPUs of the pod are missed because their node's were read without UUIDs, as nvidia-smi may print."""
    if case.unresolved is None or case.unresolved.reason is not Unresolved.GPU_UNKNOWN:
        return False
    sources = case.evidence.sources
    return any(not gpu.uuid for node in (sources.published, sources.annotated) if node for gpu in node.topology.gpus)


def _node(case: Case) -> Finding:
    reading = case.evidence.reading
    if case.resolution is None:
        missing = case.unresolved
        if missing and missing.reason is Unresolved.NODE_UNKNOWN:
            problem = reading.node_problem
            said = f"the topology of node {case.evidence.node} is not known: {problem}" if problem else missing.text
            return unknown(NODE, said, _remedy(case, missing.reason))
        if _lacks_uuids(case):
            return unknown(NODE, f"{_teller(case, case.evidence.node)}, without UUIDs", _ADD_UUIDS)
        return unknown(NODE, "no GPU of a node to look at")
    node = case.resolution.node
    if node.origin is Origin.AGENT and reading.age_problem:
        said = f"{_teller(case, node.name)}; how long ago is not known: {reading.age_problem}"
        return unknown(NODE, said, f"{HAVE} to get Leases, or look whether the agent runs")
    if node.stale:
        return unknown(NODE, node.stale, _REMEDIES[Unresolved.NODE_UNKNOWN])
    if node.origin is Origin.HAMI and not reading.node_teller:
        if reading.node_problem:
            said = f"HAMi's annotations of node {node.name} tell it; what the agent knows was not read"
            return holds(NODE, f"{said}: {reading.node_problem}")
        return holds(
            NODE, f"HAMi's annotations of node {node.name} tell it; the agent, which knows more, published none"
        )
    less = "; it has it from HAMi's annotations, which know less than the agent" if node.origin is Origin.HAMI else ""
    return holds(NODE, f"{_teller(case, node.name)}{less}")


def _teller(case: Case, node: str) -> str:
    """Who says what is known of the node."""
    teller = case.evidence.reading.node_teller
    return f"{teller} tells it of node {node}" if teller else f"the agent of node {node} published it"


def _set(case: Case, node: KnownNode, one: GpuSet) -> Iterator[Finding]:
    members = [gpu for gpu in node.topology.gpus if gpu.index in one.gpus]
    if one.weakest is None:
        yield not_needed(LINKS, f"{gpus(members)} is by itself")
        return
    if node.doubt(one):
        yield unknown(LINKS, node.doubt(one), _remedy(case, Unresolved.NODE_UNKNOWN))
        return
    yield _joined(case, node, one, members)
    yield _bandwidth(node, one, members)


def _joined(case: Case, node: KnownNode, one: GpuSet, members: Sequence[Gpu]) -> Finding:
    pairs = list(combinations(one.gpus, 2))
    apart = [pair for pair in pairs if not node.gpu_set(pair).every_pair_has_nvlink]
    if not apart:
        return holds(LINKS, f"every pair of {gpus(members)} has NVLink: link class {one.link}")
    shown = [f"GPU{a}-GPU{b} ({node.gpu_set((a, b)).link})" for a, b in apart[:PAIRS_SHOWN]]
    more = [f"{len(apart) - PAIRS_SHOWN} more"] if len(apart) > PAIRS_SHOWN else []
    said = f"{len(apart)} of {len(pairs)} pairs of {gpus(members)} have no NVLink: {listed(shown + more)}"
    if len(pairs) == 1:
        said = f"{gpus(members)} have no NVLink: {shown[0]}"
    if len(apart) < len(pairs):
        remedy = (
            "Have GPUs chosen that are all joined: gpuSchedulerPolicy: topology-aware in the values of HAMi's chart, "
            "which publishes pair scores too, and "
            f'{names.PREFIX}require-nvlink: "true" with {names.PREFIX}on-violation: deny'
        )
        return fails(LINKS, said, remedy)
    if any(
        node.gpu_set(pair).every_pair_has_nvlink for pair in combinations([gpu.index for gpu in node.topology.gpus], 2)
    ):
        remedy = f"Other GPUs of node {node.name} are joined: {_show(case)}"
    else:
        remedy = f"No two GPUs of node {node.name} have NVLink: run the pod on another node"
    return fails(LINKS, said, remedy, stops=True)


def _bandwidth(node: KnownNode, one: GpuSet, members: Sequence[Gpu]) -> Finding:
    if one.weakest is None:
        raise TypeError("a set of one GPU has no bandwidth")
    first, second = one.weakest.gpus
    ring = "-".join(map(str, (*one.ring, one.ring[0])))
    said = (
        f"GPU{first}-GPU{second} have {one.bandwidth_text} GB/s per direction, no pair has less; "
        f"best ring {ring}: {one.ring_bandwidth:.1f} GB/s"
    )
    faults = list(_faults(node, members))
    if faults:
        return fails(BANDWIDTH, f"{said}; {'; '.join(faults)}", f"Have node {node.name} looked at, or avoid these GPUs")
    return holds(BANDWIDTH, said)


def _faults(node: KnownNode, members: Sequence[Gpu]) -> Iterator[str]:
    """What is wrong with the links of these GPUs."""
    health = node_health(node.topology)
    for gpu in members:
        if gpu.index in health.ailing:
            yield from (text for text in health.findings if text.startswith(f"{gpu.label} "))
    fabric = node.topology.fabric
    if fabric and fabric.is_faulty:
        yield f"the NVLink fabric is {fabric.state} {fabric.status}".rstrip()


def _requirements(case: Case) -> Finding:
    options = case.options
    if not options.require_nvlink and options.min_bandwidth is None:
        return not_needed(REQUIREMENTS, "the pod requires nothing of its GPUs")
    if case.resolution is None:
        return unknown(REQUIREMENTS, "they are judged when the GPUs are known")
    if case.resolution.unmet:
        return fails(REQUIREMENTS, "; ".join(case.resolution.unmet), "Have other GPUs chosen, or require less")
    if case.resolution.doubt:
        return unknown(REQUIREMENTS, case.resolution.doubt, _remedy(case, Unresolved.NODE_UNKNOWN))
    return holds(REQUIREMENTS, "what the pod requires of its GPUs is met")


_BIND_AGAIN = "Look whether the webhook is registered for pods/binding and was running, and create the pod again"


def _told(case: Case) -> Finding:
    """Whether the values that bind writes are those of the pod's GPUs."""
    if not case.injected:
        return not_needed(TOLD, "only pods that the webhook prepared are told")
    pod = case.evidence.pod
    if not case.is_bound:
        said = "the pod is not bound yet: its annotations still say what admission wrote"
        if not may_be_told(pod, case.evidence.namespace):
            said = f"{said}, and its Binding will be left alone, because the namespace or the pod has opted out"
        return unknown(TOLD, said)
    referred = referred_annotations(pod) - {names.NODE_TOPOLOGY}
    present = pod.annotations
    if case.resolution is None:
        return unknown(TOLD, "its values cannot be compared with GPUs that are not known")
    wanted = annotations(case.resolution, referred)
    wrong = {key: value for key, value in wanted.items() if key in referred and present.get(key) != value}
    misread = {key: value for key, value in wanted.items() if key in FOR_PEOPLE and present.get(key, value) != value}
    if not wrong and not misread:
        return holds(TOLD, _for_people(case, case.resolution))
    said = "; ".join(
        f"{key} is {shorten(present.get(key, ''))}, and should be {shorten(value)}"
        for key, value in (wrong | misread).items()
    )
    if not wrong:
        changed = "the node, or which pods of its group are there," if case.options.group else "the node"
        return not_needed(TOLD, f"{said}; no container reads that, but people do: {changed} may have changed since")
    if not case.profile.shares_gpus or wrong.keys() <= {names.NCCL_P2P_LEVEL}:
        return _told_alone(present, said, wrong.get(names.VISIBLE_UUIDS))
    return fails(TOLD, said, _BIND_AGAIN, stops=_shows_nothing(case))


def _told_alone(present: Mapping[str, str], said: str, wanted: str | None) -> Finding:
    """In ``exclusive`` wrong values do no harm, unless the remap container is shown other GPUs than ``wanted``.

    A level that an earlier version wrote does none in any profile.
    """
    shown = present.get(names.VISIBLE_UUIDS) or names.NO_VISIBLE_DEVICE
    if wanted and shown == names.NO_VISIBLE_DEVICE:
        said = f"{said}; the remap container is shown no GPU, so it verifies nothing"
    elif wanted and set(shown.split(",")) != set(wanted.split(",")):
        said = f"{said}; the remap container is shown other GPUs than the pod's, and stops the pod (exit code 12)"
        return fails(TOLD, said, _BIND_AGAIN)
    if shuts_p2p(present.get(names.NCCL_P2P_LEVEL, "")):
        return not_needed(TOLD, f"{said}; what that does, {names.ENV_NCCL_P2P_LEVEL} says")
    return not_needed(TOLD, f"{said}; NCCL uses NVLink with the present values too")


def _shows_nothing(case: Case) -> bool:
    """Whether some container still has the values that show it no GPU."""
    values = case.evidence.pod.annotations
    hidden = values.get(names.VISIBLE_UUIDS) == names.NO_VISIBLE_DEVICE
    return hidden or any(
        values.get(key) == names.NO_CUDA_DEVICE for key in values if key.startswith(names.CUDA_VISIBLE_DEVICES_PREFIX)
    )


def _for_people(case: Case, resolution: Resolution) -> str:
    told = case.evidence.pod.annotations.get(names.LINK)
    if told is None:
        return "the webhook did not answer its Binding, but no value that the pod has is wrong"
    return f"what the pod was told fits its GPUs: link class {resolution.worst.link}"
