"""Which GPUs does the pod have, and how are they linked?"""

from collections.abc import Iterator, Sequence
from itertools import combinations

from webhook.explain.case import Case
from webhook.explain.findings import Finding, Verdict, fails, holds, not_needed, unknown
from webhook.explain.words import clause, gpus, listed
from webhook.model import names
from webhook.model.binding import BIND_SENTENCES, BindReason
from webhook.model.errors import shorten
from webhook.model.references import referred_annotations
from webhook.resolve.node import KnownNode, Origin
from webhook.resolve.outputs import annotations, bandwidth_text
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
    Unresolved.NODE_UNKNOWN: "Run the agent on the node, or give its topology with --topology or --state",
    Unresolved.GPU_UNKNOWN: "Look at the node: gpu-topology topology show",
}
_NOT_KNOWN = (Unresolved.NO_ALLOCATION, Unresolved.NODE_UNKNOWN)
"""What says nothing about the GPUs themselves."""


def links(case: Case) -> Iterator[Finding]:
    """Allocation, node, links, bandwidth, requirements, and what the binding told the pod."""
    yield _allocation(case)
    yield _node(case)
    if case.resolution:
        for one in case.resolution.sets:
            yield from _set(case.resolution.node, one)
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
    said = missing.text
    if missing.reason not in (Unresolved.NO_ALLOCATION, Unresolved.STALE_ALLOCATION):  # which say it all
        said = f"{clause(BIND_SENTENCES[BindReason(missing.reason.value)])}: {said}"
    remedy = _REMEDIES[missing.reason]
    if missing.reason in _NOT_KNOWN:
        return unknown(ALLOCATION, said, remedy)
    return fails(ALLOCATION, said, remedy, stops=missing.reason is Unresolved.MIG_ALLOCATION)


def _node(case: Case) -> Finding:
    if case.resolution is None:
        missing = case.unresolved
        if missing and missing.reason is Unresolved.NODE_UNKNOWN:
            return unknown(NODE, missing.text, _REMEDIES[missing.reason])
        return unknown(NODE, "no GPU of a node to look at")
    node = case.resolution.node
    if node.stale:
        return unknown(NODE, node.stale, _REMEDIES[Unresolved.NODE_UNKNOWN])
    if node.origin is Origin.HAMI:
        return holds(
            NODE, f"HAMi's annotations of node {node.name} tell it; the agent, which knows more, published none"
        )
    return holds(NODE, f"the agent of node {node.name} published it")


def _set(node: KnownNode, one: GpuSet) -> Iterator[Finding]:
    members = [gpu for gpu in node.topology.gpus if gpu.index in one.gpus]
    if one.weakest is None:
        yield not_needed(LINKS, f"{gpus(members)} is by itself")
        return
    yield _joined(node, one, members)
    yield _bandwidth(node, one, members)


def _joined(node: KnownNode, one: GpuSet, members: Sequence[Gpu]) -> Finding:
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
            f"Have GPUs chosen that are all joined: {names.HAMI_SCHEDULER_POLICY}: topology-aware, which the webhook "
            f'sets, and {names.PREFIX}require-nvlink: "true" with {names.PREFIX}on-violation: deny'
        )
        return fails(LINKS, said, remedy)
    if any(
        node.gpu_set(pair).every_pair_has_nvlink for pair in combinations([gpu.index for gpu in node.topology.gpus], 2)
    ):
        remedy = f"Other GPUs of node {node.name} are joined: gpu-topology topology show"
    else:
        remedy = f"No two GPUs of node {node.name} have NVLink: run the pod on another node"
    return fails(LINKS, said, remedy, stops=True)


def _bandwidth(node: KnownNode, one: GpuSet, members: Sequence[Gpu]) -> Finding:
    if one.weakest is None:
        raise TypeError("a set of one GPU has no bandwidth")
    first, second = one.weakest.gpus
    ring = "-".join(map(str, (*one.ring, one.ring[0])))
    said = (
        f"GPU{first}-GPU{second} have {bandwidth_text(one)} GB/s per direction, no pair has less; "
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
    return holds(REQUIREMENTS, "what the pod requires of its GPUs is met")


def _told(case: Case) -> Finding:
    """Whether the values that bind writes are those of the pod's GPUs."""
    if not case.injected:
        return not_needed(TOLD, "only pods that the webhook prepared are told")
    if not case.is_bound:
        return unknown(TOLD, "the pod is not bound yet: its annotations still say what admission wrote")
    pod = case.evidence.pod
    referred = referred_annotations(pod) - {names.NODE_TOPOLOGY}
    present = pod.annotations
    if case.resolution is None:
        return unknown(TOLD, "its values cannot be compared with GPUs that are not known")
    wrong = [
        f"{key} is {shorten(present.get(key, ''))}, and should be {shorten(value)}"
        for key, value in annotations(case.resolution, referred).items()
        if key in referred and present.get(key) != value
    ]
    if not wrong:
        return holds(TOLD, _for_people(case, case.resolution))
    said = "; ".join(wrong)
    if not case.profile.shares_gpus:
        return Finding(TOLD, Verdict.NOT_NEEDED, f"{said}; NCCL uses NVLink with the present values too")
    remedy = "Look whether the webhook is registered for pods/binding and was running, and create the pod again"
    return fails(TOLD, said, remedy, stops=_shows_nothing(case))


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
