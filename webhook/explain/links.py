"""Which GPUs does the pod have, and how are they linked?"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from webhook.allocation.read import DIALECTS
from webhook.bind.binding import may_be_opted_in
from webhook.explain.cards import WHOLE_CARDS
from webhook.explain.examined import ExaminedPod
from webhook.explain.findings import Finding, fails, holds, not_needed, unknown
from webhook.explain.words import HAVE, clause, gpus, listed
from webhook.model import names
from webhook.model.binding import BIND_SENTENCES, BindReason
from webhook.model.errors import shorten
from webhook.model.references import referred_annotations
from webhook.request.demand import required
from webhook.request.nvlink_switches import shuts_p2p
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


def links(examined: ExaminedPod) -> Iterator[Finding]:
    """Allocation, node, links, bandwidth, requirements, and what the binding told the pod."""
    if examined.requests.mig:
        yield not_needed(LINKS, f"between MIG instances there is no NVLink: see {WHOLE_CARDS}")
        return
    yield _allocation(examined)
    yield _node(examined)
    if examined.resolution:
        for gpu_set in examined.resolution.sets:
            yield from _set(examined, examined.resolution.node, gpu_set)
    else:
        yield unknown(LINKS, "which GPUs they are is not known")
    yield _requirements(examined)
    yield _written_at_binding(examined)


def _allocation(examined: ExaminedPod) -> Finding:
    if examined.resolution:
        shares = [f"{gpus(given.gpus)} to container {given.container.name}" for given in examined.resolution.containers]
        return holds(ALLOCATION, f"node {examined.evidence.node} gives {listed(shares)}")
    missing = examined.unresolved
    if missing is None:
        return unknown(ALLOCATION, "the pod is not scheduled yet: which GPUs it gets is open")
    if missing.reason is Unresolved.NODE_UNKNOWN:
        return unknown(ALLOCATION, f"GPUs of node {examined.evidence.node}, of which nothing is known")
    if _lacks_uuids(examined):
        said = f"what is known of node {examined.evidence.node} has no UUIDs, and the scheduler names GPUs by theirs"
        return unknown(ALLOCATION, said, _ADD_UUIDS)
    said = missing.text
    if missing.reason not in (Unresolved.NO_ALLOCATION, Unresolved.STALE_ALLOCATION):  # which say it all
        said = f"{clause(BIND_SENTENCES[BindReason(missing.reason.value)])}: {said}"
    remedy = _remedy(examined, missing.reason)
    if missing.reason in _NOT_KNOWN:
        return unknown(ALLOCATION, said, remedy)
    return fails(ALLOCATION, said, remedy, stops=missing.reason is Unresolved.MIG_ALLOCATION)


def _remedy(examined: ExaminedPod, reason: Unresolved) -> str:
    if examined.actual.refusal and examined.unresolved and examined.unresolved.text == examined.actual.refusal:
        return "Correct what the message names, and create the pod again"
    annotations_of_pod = examined.evidence.pod.annotations
    other = next((dialect for dialect in DIALECTS if annotations_of_pod.get(dialect.key, "").strip(";")), None)
    if reason is Unresolved.NO_ALLOCATION and other and other.family != examined.family:
        return (
            f"Annotation {other.key} is of {other.family.capitalize()}, but the configuration says that the pod's "
            f"resources are of {examined.family}: write resources: family: {other.family} there, and give it with "
            "--config"
        )
    if reason is Unresolved.GPU_UNKNOWN:
        return f"Look at the node: {_show(examined)}"
    if reason is Unresolved.NODE_UNKNOWN and examined.evidence.reading.node_problem:
        return f"{HAVE} to list ConfigMaps and to get nodes"
    return _REMEDIES[reason]


def _show(examined: ExaminedPod) -> str:
    options = examined.evidence.reading.show
    return f"gpu-topology topology show {options or f'on node {_name(examined)}'}"


def _name(examined: ExaminedPod) -> str:
    return examined.resolution.node.name if examined.resolution else examined.evidence.node


def _lacks_uuids(examined: ExaminedPod) -> bool:
    """Whether the GPUs of the pod are missed because their node's were read without UUIDs, as nvidia-smi may print."""
    if examined.unresolved is None or examined.unresolved.reason is not Unresolved.GPU_UNKNOWN:
        return False
    sources = examined.evidence.sources
    return any(not gpu.uuid for node in (sources.published, sources.annotated) if node for gpu in node.topology.gpus)


def _node(examined: ExaminedPod) -> Finding:
    reading = examined.evidence.reading
    if examined.resolution is None:
        missing = examined.unresolved
        if missing and missing.reason is Unresolved.NODE_UNKNOWN:
            problem = reading.node_problem
            said = f"the topology of node {examined.evidence.node} is not known: {problem}" if problem else missing.text
            return unknown(NODE, said, _remedy(examined, missing.reason))
        if _lacks_uuids(examined):
            return unknown(NODE, f"{_teller(examined, examined.evidence.node)}, without UUIDs", _ADD_UUIDS)
        return unknown(NODE, "no GPU of a node to look at")
    node = examined.resolution.node
    if node.origin is Origin.AGENT and reading.age_problem:
        said = f"{_teller(examined, node.name)}; how long ago is not known: {reading.age_problem}"
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
    return holds(NODE, f"{_teller(examined, node.name)}{less}")


def _teller(examined: ExaminedPod, node: str) -> str:
    """Who says what is known of the node."""
    teller = examined.evidence.reading.node_teller
    return f"{teller} tells it of node {node}" if teller else f"the agent of node {node} published it"


def _set(examined: ExaminedPod, node: KnownNode, gpu_set: GpuSet) -> Iterator[Finding]:
    members = [gpu for gpu in node.topology.gpus if gpu.index in gpu_set.gpus]
    if gpu_set.weakest is None:
        yield not_needed(LINKS, f"{gpus(members)} is by itself")
        return
    if node.doubt(gpu_set):
        yield unknown(LINKS, node.doubt(gpu_set), _remedy(examined, Unresolved.NODE_UNKNOWN))
        return
    yield _joined(examined, node, gpu_set, members)
    yield _bandwidth(node, gpu_set, members)


def _joined(examined: ExaminedPod, node: KnownNode, gpu_set: GpuSet, members: Sequence[Gpu]) -> Finding:
    pairs = list(combinations(gpu_set.gpus, 2))
    apart = [pair for pair in pairs if not node.gpu_set(pair).every_pair_has_nvlink]
    if not apart:
        return holds(LINKS, f"every pair of {gpus(members)} has NVLink: link class {gpu_set.link}")
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
        remedy = f"Other GPUs of node {node.name} are joined: {_show(examined)}"
    else:
        remedy = f"No two GPUs of node {node.name} have NVLink: run the pod on another node"
    return fails(LINKS, said, remedy, stops=True)


def _bandwidth(node: KnownNode, gpu_set: GpuSet, members: Sequence[Gpu]) -> Finding:
    if gpu_set.weakest is None:
        raise TypeError("a set of one GPU has no bandwidth")
    first, second = gpu_set.weakest.gpus
    said = (
        f"GPU{first}-GPU{second} have {gpu_set.bandwidth_text} GB/s per direction, no pair has less; "
        f"best ring {gpu_set.ring_sentence}"
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


def _requirements(examined: ExaminedPod) -> Finding:
    if not required(examined.options):
        return not_needed(REQUIREMENTS, "the pod requires nothing of its GPUs")
    if examined.resolution is None:
        return unknown(REQUIREMENTS, "they are judged when the GPUs are known")
    if examined.resolution.unmet:
        return fails(REQUIREMENTS, "; ".join(examined.resolution.unmet), "Have other GPUs chosen, or require less")
    if examined.resolution.undecided:
        agent_knows = examined.resolution.doubt or examined.resolution.node.from_hami
        remedy = _remedy(examined, Unresolved.NODE_UNKNOWN) if agent_knows else ""
        return unknown(REQUIREMENTS, examined.resolution.undecided, remedy)
    return holds(REQUIREMENTS, "what the pod requires of its GPUs is met")


_BIND_AGAIN = "Look whether the webhook is registered for pods/binding and was running, and create the pod again"


def _written_at_binding(examined: ExaminedPod) -> Finding:
    """Whether the values that bind writes are those of the pod's GPUs."""
    if not examined.injected:
        return not_needed(TOLD, "only pods that the webhook prepared are told")
    pod = examined.evidence.pod
    if not examined.is_bound:
        said = "the pod is not bound yet: its annotations still say what admission wrote"
        if not may_be_opted_in(pod, examined.evidence.namespace):
            said = f"{said}, and its Binding will be left alone, because the namespace or the pod has opted out"
        return unknown(TOLD, said)
    referred = referred_annotations(pod) - {names.NODE_TOPOLOGY}
    present = pod.annotations
    if examined.resolution is None:
        return unknown(TOLD, "its values cannot be compared with GPUs that are not known")
    wanted = annotations(examined.resolution, referred)
    wrong = {key: value for key, value in wanted.items() if key in referred and present.get(key) != value}
    misread = {key: value for key, value in wanted.items() if key in FOR_PEOPLE and present.get(key, value) != value}
    if not wrong and not misread:
        return holds(TOLD, _for_people(examined, examined.resolution))
    said = "; ".join(
        f"{key} is {shorten(present.get(key, ''))}, and should be {shorten(value)}"
        for key, value in (wrong | misread).items()
    )
    if not wrong:
        changed = "the node, or which pods of its group are there," if examined.options.group else "the node"
        return not_needed(TOLD, f"{said}; no container reads that, but people do: {changed} may have changed since")
    if not examined.profile.shares_gpus or wrong.keys() <= {names.NCCL_P2P_LEVEL}:
        return _written_at_binding_of_exclusive(present, said, wrong.get(names.VISIBLE_UUIDS))
    return fails(TOLD, said, _BIND_AGAIN, stops=_shows_nothing(examined))


def _written_at_binding_of_exclusive(present: Mapping[str, str], said: str, wanted: str | None) -> Finding:
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


def _shows_nothing(examined: ExaminedPod) -> bool:
    """Whether some container still has the values that show it no GPU."""
    values = examined.evidence.pod.annotations
    hidden = values.get(names.VISIBLE_UUIDS) == names.NO_VISIBLE_DEVICE
    return hidden or any(
        values.get(key) == names.NO_CUDA_DEVICE for key in values if key.startswith(names.CUDA_VISIBLE_DEVICES_PREFIX)
    )


def _for_people(examined: ExaminedPod, resolution: Resolution) -> str:
    told = examined.evidence.pod.annotations.get(names.LINK)
    if told is None:
        return "the webhook did not answer its Binding, but no value that the pod has is wrong"
    return f"what the pod was told fits its GPUs: link class {resolution.worst.link}"
