"""Conditions on the GPUs of the pod: allocation, links, bandwidth, requirements, and the values of the Binding."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from webhook.decisions.allocation.reader import DIALECTS
from webhook.decisions.bind.binding import may_be_opted_in
from webhook.decisions.request.demand import required
from webhook.decisions.request.nvlink_switches import shuts_p2p
from webhook.decisions.request.refit import alignment
from webhook.decisions.resolve.node import KnownNode, Origin
from webhook.decisions.resolve.outputs import FOR_PEOPLE, annotations
from webhook.decisions.resolve.resolve import Resolution, Unresolved
from webhook.hardware.topology.health import node_health
from webhook.hardware.topology.model import Gpu
from webhook.hardware.topology.sets import GpuSet, LinkClass
from webhook.insight.explain.cards import WHOLE_CARDS
from webhook.insight.explain.examination import ExaminedPod, Unknown
from webhook.insight.explain.findings import Finding, fails, hint, holds, not_needed, unknown
from webhook.insight.explain.reviews import binding_reviews
from webhook.insight.explain.words import gpus
from webhook.objects.pod import Pod
from webhook.objects.references import referred_annotations
from webhook.words import names
from webhook.words.catalogue.claims import SEE_RESOURCE_CLAIMS, UNMET_BY_CLAIM
from webhook.words.catalogue.entry import Message
from webhook.words.catalogue.links import (
    AGE_NOT_KNOWN,
    ALLOCATION_MOVED,
    ALLOCATION_OF_ANOTHER_FAMILY,
    GPUS_NOT_KNOWN,
    JUDGED_LATER,
    LINKS_FAULTY,
    LINKS_NOT_KNOWN,
    LINKS_NOT_READ,
    NO_GPU_OF_A_NODE,
    NO_NVLINK_HERE,
    NO_NVLINK_ON_NODE,
    NO_UUIDS,
    NODE_NOT_KNOWN,
    NODE_NOT_READ,
    NOT_BOUND,
    NOT_BOUND_AND_OPTED_OUT,
    NOT_SCHEDULED,
    REMAP_SEES_OTHERS,
    REQUESTS_CONTRADICT,
    REQUIREMENTS_DOUBTFUL,
    REQUIREMENTS_UNDECIDED,
    SOME_PAIRS_UNLINKED,
    TOPOLOGY_OLD,
    TOPOLOGY_WITHOUT_UUIDS,
    UNMET,
    VALUES_NOT_COMPARED,
    VALUES_WRONG,
)
from webhook.words.catalogue.rights import UNLINKED_AT_BINDING
from webhook.words.errors import shorten
from webhook.words.listing import listed
from webhook.words.printable import fitted

ALLOCATION, NODE, LINKS, BANDWIDTH, REQUIREMENTS, TOLD = (
    "allocation",
    "node-topology",
    "links",
    "bandwidth",
    "requirements",
    "told-at-binding",
)
PAIRS_SHOWN = 6
_WRITTEN_LIMIT = 80

_LINKED = (LinkClass.NVSWITCH, LinkClass.NVLINK)
_UNLINKED = (LinkClass.PARTIAL, LinkClass.PIX, LinkClass.PXB, LinkClass.PHB, LinkClass.SYS)

_NOT_KNOWN = (Unresolved.NO_ALLOCATION, Unresolved.NODE_UNKNOWN)
"""Reasons that say nothing about the GPUs themselves."""


def links(examined: ExaminedPod) -> Iterator[Finding]:
    """Yields conditions on allocation, node, links, bandwidth, requirements, and the values written at the Binding."""
    if examined.requests.mig:
        yield not_needed(LINKS, f"between MIG instances there is no NVLink: see {WHOLE_CARDS}")
        return
    yield _allocation(examined)
    yield _node(examined)
    if examined.resolution:
        for gpu_set in examined.resolution.sets:
            yield from _set(examined, examined.resolution.node, gpu_set)
    else:
        yield _linked_at_binding(examined)
    yield _requirements(examined)
    yield _written_at_binding(examined)
    yield from binding_reviews(examined)


def _allocation(examined: ExaminedPod) -> Finding:
    if examined.resolution:
        shares = [f"{gpus(given.gpus)} to container {given.container.name}" for given in examined.resolution.containers]
        return holds(ALLOCATION, f"node {examined.evidence.node} gives {listed(shares)}")
    missing = examined.unresolved
    if missing is None:
        return unknown(ALLOCATION, NOT_SCHEDULED.say())
    if examined.given.problem:
        return unknown(ALLOCATION, SEE_RESOURCE_CLAIMS.say())
    if missing.reason is Unresolved.NODE_UNKNOWN:
        return unknown(ALLOCATION, NODE_NOT_KNOWN.say(node=examined.evidence.node))
    if _lacks_uuids(examined):
        return unknown(ALLOCATION, NO_UUIDS.say(node=examined.evidence.node))
    message = _particulars(examined, missing)
    if missing.reason in _NOT_KNOWN:
        return unknown(ALLOCATION, message)
    return fails(ALLOCATION, message, stops=missing.reason is Unresolved.MIG_ALLOCATION)


def _particulars(examined: ExaminedPod, missing: Unknown) -> Message:
    """Returns why the GPUs are not known, with the remedy for this pod."""
    message = missing.message
    if examined.actual.refusal and message.advice == examined.actual.refusal:
        return REQUESTS_CONTRADICT.say(problem=message.text)
    written = examined.evidence.pod.annotations
    other = next((dialect for dialect in DIALECTS if written.get(dialect.key, "").strip(";")), None)
    if missing.reason is Unresolved.NO_ALLOCATION and other and other.family != examined.family:
        return ALLOCATION_OF_ANOTHER_FAMILY.say(
            key=other.key, scheduler=other.family.capitalize(), family=examined.family, other_family=other.family
        )
    if missing.reason is Unresolved.GPU_UNKNOWN:
        return Message(message.code, message.text, f"Look at the node: {_show(examined)}")
    return message


def _show(examined: ExaminedPod) -> str:
    options = examined.evidence.reading.show
    return f"gpu-topology topology show {options or f'on node {_name(examined)}'}"


def _name(examined: ExaminedPod) -> str:
    return examined.resolution.node.name if examined.resolution else examined.evidence.node


def _lacks_uuids(examined: ExaminedPod) -> bool:
    """Returns whether the GPUs of the pod are unknown because the topology of the node has GPUs without UUIDs.

    The output of nvidia-smi may lack them.
    """
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
            if problem:
                return unknown(NODE, NODE_NOT_READ.say(node=examined.evidence.node, problem=problem))
            return unknown(NODE, missing.message)
        if _lacks_uuids(examined):
            return unknown(NODE, TOPOLOGY_WITHOUT_UUIDS.say(teller=_teller(examined, examined.evidence.node)))
        return unknown(NODE, NO_GPU_OF_A_NODE.say())
    node = examined.resolution.node
    if node.origin is Origin.AGENT and reading.age_problem:
        message = AGE_NOT_KNOWN.say(teller=_teller(examined, node.name), problem=reading.age_problem)
        return unknown(NODE, message)
    if node.stale:
        return unknown(NODE, TOPOLOGY_OLD.say(stale=node.stale))
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
    """Returns the source of the topology of the node, in a clause."""
    teller = examined.evidence.reading.node_teller
    return f"{teller} tells it of node {node}" if teller else f"the agent of node {node} published it"


def _set(examined: ExaminedPod, node: KnownNode, gpu_set: GpuSet) -> Iterator[Finding]:
    members = [gpu for gpu in node.topology.gpus if gpu.index in gpu_set.gpus]
    if gpu_set.weakest is None:
        yield not_needed(LINKS, f"{gpus(members)} is by itself")
        return
    if node.doubt(gpu_set):
        yield unknown(LINKS, _doubt(examined, node.doubt(gpu_set)))
        return
    yield _joined(examined, node, gpu_set, members)
    yield _bandwidth(node, gpu_set, members)


def _linked_at_binding(examined: ExaminedPod) -> Finding:
    """Returns the finding on the links of GPUs that are not known here.

    Where the node may not be read, they are linked as the webhook wrote on the pod at its Binding.
    """
    written = examined.evidence.pod.annotations
    link = written.get(names.LINK, "")
    if not examined.evidence.reading.node_problem or link not in (*_LINKED, *_UNLINKED):
        return unknown(LINKS, GPUS_NOT_KNOWN.say())
    order, rate = (fitted(written.get(key, ""), _WRITTEN_LIMIT) for key in (names.RING_ORDER, names.BANDWIDTH))
    told = f"the webhook wrote at the Binding: GPUs {order} have link class {link} and {rate} GB/s per direction"
    if link in _LINKED:
        return holds(LINKS, told)
    return fails(LINKS, UNLINKED_AT_BINDING.say(told=told), stops=link != LinkClass.PARTIAL)


def _doubt(examined: ExaminedPod, doubt: str) -> Message:
    """Returns why links are not known, with a remedy.

    HAMi's annotations tell the links only where its chart is set up so. The first cause is that no agent has published
    a topology.
    """
    reading, sources = examined.evidence.reading, examined.evidence.sources
    if reading.node_problem:
        return LINKS_NOT_READ.say(doubt=doubt)
    is_of_hami = examined.resolution is not None and examined.resolution.node.origin is Origin.HAMI
    if is_of_hami and sources.published is None and not reading.node_teller:
        doubt = _without_agent(doubt)
    return LINKS_NOT_KNOWN.say(doubt=doubt)


def _without_agent(doubt: str) -> str:
    """Returns the sentence with the missing topology of the agent as the cause."""
    what = doubt.partition(": ")[0]
    return f"{what}: no agent has published the topology of the node, and HAMi's annotations do not tell the links"


def _joined(examined: ExaminedPod, node: KnownNode, gpu_set: GpuSet, members: Sequence[Gpu]) -> Finding:
    pairs = list(combinations(gpu_set.gpus, 2))
    apart = [pair for pair in pairs if not node.gpu_set(pair).every_pair_has_nvlink]
    if not apart:
        return holds(LINKS, f"every pair of {gpus(members)} has NVLink: link class {gpu_set.link}")
    unlinked = listed((f"GPU{a}-GPU{b} ({node.gpu_set((a, b)).link})" for a, b in apart), PAIRS_SHOWN)
    if len(apart) < len(pairs):
        message = SOME_PAIRS_UNLINKED.say(unlinked=len(apart), pairs=len(pairs), gpus=gpus(members), shown=unlinked)
        return fails(LINKS, _of_claims(examined, message))
    if any(
        node.gpu_set(pair).every_pair_has_nvlink for pair in combinations([gpu.index for gpu in node.topology.gpus], 2)
    ):
        message = NO_NVLINK_HERE.say(gpus=gpus(members), shown=unlinked, node=node.name, show=_show(examined))
    else:
        message = NO_NVLINK_ON_NODE.say(gpus=gpus(members), shown=unlinked, node=node.name)
    return fails(LINKS, _of_claims(examined, message), stops=True)


def _of_claims(examined: ExaminedPod, message: Message) -> Message:
    """Returns the message with the remedy for GPUs that claims gave, which neither HAMi nor the planner chooses."""
    return Message(message.code, message.text, UNMET_BY_CLAIM.fix) if examined.given.keeps_devices else message


def _bandwidth(node: KnownNode, gpu_set: GpuSet, members: Sequence[Gpu]) -> Finding:
    if gpu_set.weakest is None:
        raise TypeError("a set of one GPU has no bandwidth")
    first, second = gpu_set.weakest.gpus
    said = (
        f"GPU{first}-GPU{second} have {gpu_set.bandwidth_text} GB/s per direction{_measured(node, gpu_set)}, no pair "
        f"has less; best ring {gpu_set.ring_sentence}"
    )
    faults = list(_faults(node, members))
    if faults:
        return fails(BANDWIDTH, LINKS_FAULTY.say(bandwidth=said, faults="; ".join(faults), node=node.name))
    return holds(BANDWIDTH, said)


def _measured(node: KnownNode, gpu_set: GpuSet) -> str:
    """Returns the rate measured between the GPUs of the weakest pair, in the slower direction; empty if none was."""
    if gpu_set.weakest is None:
        return ""
    first, second = gpu_set.weakest.gpus
    told = {(gpu.index, label): mbps for gpu in node.topology.gpus for label, mbps in (*gpu.measured, *gpu.slower)}
    ways = [told[way] for way in ((first, f"GPU{second}"), (second, f"GPU{first}")) if way in told]
    return f" (measured: {min(ways) / 1000:.1f})" if ways else ""


def _faults(node: KnownNode, members: Sequence[Gpu]) -> Iterator[str]:
    """Yields the faults of the links of these GPUs."""
    health = node_health(node.topology)
    for gpu in members:
        if gpu.index in health.ailing:
            yield from (text for text in health.findings if text.startswith(f"{gpu.label} "))
    within = {f"{one.label}-{other.label}," for one, other in combinations(members, 2)}
    yield from (f"measured: {pair}" for pair in health.slower if pair.partition(" ")[0] in within)
    fabric = node.topology.fabric
    if fabric and fabric.is_faulty:
        yield f"the NVLink fabric is {fabric.state} {fabric.status}".rstrip()
    elif fabric and fabric.ailments:
        yield f"the NVLink fabric reports {' and '.join(fabric.ailments)}"


def _requirements(examined: ExaminedPod) -> Finding:
    if not required(examined.options):
        return not_needed(REQUIREMENTS, "the pod requires nothing of its GPUs")
    if examined.resolution is None:
        return unknown(REQUIREMENTS, JUDGED_LATER.say())
    if examined.resolution.unmet:
        entry = UNMET_BY_CLAIM if examined.given.keeps_devices else UNMET
        return fails(REQUIREMENTS, entry.say(unmet="; ".join(examined.resolution.unmet)))
    if examined.resolution.undecided:
        agent_knows = examined.resolution.doubt or examined.resolution.node.from_hami
        entry = REQUIREMENTS_DOUBTFUL if agent_knows else REQUIREMENTS_UNDECIDED
        return unknown(REQUIREMENTS, entry.say(doubt=examined.resolution.undecided))
    return holds(REQUIREMENTS, "what the pod requires of its GPUs is met")


def _written_at_binding(examined: ExaminedPod) -> Finding:
    """Returns the finding whether the values that the webhook wrote at the Binding fit the GPUs of the pod."""
    if not examined.injected:
        return not_needed(TOLD, "only pods that the webhook prepared are told")
    pod = examined.evidence.pod
    if not examined.is_bound:
        is_opted_in = may_be_opted_in(pod, examined.evidence.namespace)
        return unknown(TOLD, (NOT_BOUND if is_opted_in else NOT_BOUND_AND_OPTED_OUT).say())
    referred = referred_annotations(pod) - {names.NODE_TOPOLOGY}
    present = pod.annotations
    if examined.at_binding is None:
        return unknown(TOLD, VALUES_NOT_COMPARED.say())
    wanted = annotations(examined.at_binding, referred)
    wrong = {key: value for key, value in wanted.items() if key in referred and present.get(key) != value}
    misread = {key: value for key, value in wanted.items() if key in FOR_PEOPLE and present.get(key, value) != value}
    if not wrong and not misread:
        return holds(TOLD, _for_people(examined, examined.at_binding))
    said = "; ".join(
        f"{key} is {shorten(present.get(key, ''))}, and should be {shorten(value)}"
        for key, value in (wrong | misread).items()
    )
    if not wrong:
        changed = "the node, or which pods of its group are there," if examined.options.group else "the node"
        return not_needed(TOLD, f"{said}; no container reads that, but people do: {changed} may have changed since")
    if moved := _moved_by_refit(examined, wrong, said):
        return moved
    if not examined.profile.shares_gpus or wrong.keys() <= {names.NCCL_P2P_LEVEL}:
        return _written_at_binding_of_exclusive(present, said, wrong.get(names.VISIBLE_UUIDS))
    return fails(TOLD, VALUES_WRONG.say(differences=said), stops=_shows_nothing(examined))


def _moved_by_refit(examined: ExaminedPod, wrong: Mapping[str, str], said: str) -> Finding | None:
    """Returns the finding about a pod whose allocation HAMi changed after the Binding; None if it did not.

    In ``exclusive`` nothing is lost if the remap container sees all GPUs of the node, because it judges the new ones.
    """
    pod = examined.evidence.pod
    wanted = alignment(pod.annotations) if examined.family == "hami" else None
    if wanted is None or not _names_other_gpus(pod.annotations, wrong):
        return None
    if examined.profile.shares_gpus:
        effect = "; its containers go on seeing the first GPUs, which other pods may get"
    elif _sees_node(pod):
        return hint(TOLD, ALLOCATION_MOVED.say(alignment=wanted, differences=said, effect=""))
    else:
        effect = "; the remap container is shown the first GPUs, and stops the pod (exit code 12) once it is told"
    return fails(TOLD, ALLOCATION_MOVED.say(alignment=wanted, differences=said, effect=effect))


def _names_other_gpus(present: Mapping[str, str], wrong: Mapping[str, str]) -> bool:
    """Returns whether a list that was written at the Binding names other GPUs than the allocation does now."""
    unwritten = ("", names.NO_VISIBLE_DEVICE, names.NO_CUDA_DEVICE)
    return any(
        present.get(key, "") not in unwritten and set(present[key].split(",")) != set(value.split(","))
        for key, value in wrong.items()
        if key == names.VISIBLE_UUIDS or key.startswith(names.CUDA_VISIBLE_DEVICES_PREFIX)
    )


def _sees_node(pod: Pod) -> bool:
    """Returns whether the remap container sees all GPUs of the node and is told those of the Binding beside them."""
    every = pod.spec.init_containers or () if pod.spec else ()
    return any(variable.name == names.REMAP_BOUND_UUIDS for each in every for variable in each.env or ())


def _written_at_binding_of_exclusive(present: Mapping[str, str], said: str, wanted: str | None) -> Finding:
    """Returns the finding about wrong values in profile ``exclusive``.

    They do no harm, unless the remap container sees other GPUs than ``wanted``. A level that an earlier version wrote
    does no harm in any profile.
    """
    shown = present.get(names.VISIBLE_UUIDS) or names.NO_VISIBLE_DEVICE
    if wanted and shown == names.NO_VISIBLE_DEVICE:
        said = f"{said}; the remap container is shown no GPU, so it verifies nothing"
    elif wanted and set(shown.split(",")) != set(wanted.split(",")):
        return fails(TOLD, REMAP_SEES_OTHERS.say(differences=said))
    if shuts_p2p(present.get(names.NCCL_P2P_LEVEL, "")):
        return not_needed(TOLD, f"{said}; what that does, {names.ENV_NCCL_P2P_LEVEL} says")
    return not_needed(TOLD, f"{said}; NCCL uses NVLink with the present values too")


def _shows_nothing(examined: ExaminedPod) -> bool:
    """Returns whether some container still has the values with which it sees no GPU."""
    values = examined.evidence.pod.annotations
    hidden = values.get(names.VISIBLE_UUIDS) == names.NO_VISIBLE_DEVICE
    return hidden or any(
        values.get(key) == names.NO_CUDA_DEVICE for key in values if key.startswith(names.CUDA_VISIBLE_DEVICES_PREFIX)
    )


def _for_people(examined: ExaminedPod, resolution: Resolution) -> str:
    told = examined.evidence.pod.annotations.get(names.LINK)
    if told is None:
        return "the webhook did not answer its Binding, but no value that the pod has is wrong"
    links = "how they are linked is not known" if resolution.doubt else f"link class {resolution.worst.link}"
    return f"what the pod was told fits its GPUs: {links}"
