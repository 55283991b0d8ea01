"""The condition on placement: the planner's choice of cards, the cards that HAMi gave, and what a pod waits for."""

from collections.abc import Iterator
from types import MappingProxyType

import msgspec

from webhook.decisions.allocation.claim import FAMILY as CLAIM
from webhook.decisions.allocation.reader import read_allocation
from webhook.decisions.place.placed_annotation import Placed, link_text, read_placed
from webhook.decisions.place.reasons import PlaceReason
from webhook.decisions.request.placement import (
    PodToPlace,
    has_parts_or_one_card,
    not_waiting,
    unplaced,
    unplaced_as_it_is,
)
from webhook.insight.explain.examination import ExaminedPod
from webhook.insight.explain.findings import Finding, fails, holds, not_needed, unknown
from webhook.insight.explain.words import HAVE
from webhook.objects.pod import Metadata
from webhook.words import names
from webhook.words.catalogue import placement_findings as found
from webhook.words.catalogue import waiting
from webhook.words.catalogue.entry import Entry, Message
from webhook.words.choices import OnViolation, Placement, PlacementMode
from webhook.words.duration import duration
from webhook.words.errors import FormatError, LimitError
from webhook.words.listing import listed
from webhook.words.printable import fitted
from webhook.words.timestamp import parse_timestamp

PLACEMENT = "placement"

_FAMILY = "hami"
_UNSCHEDULABLE = "Unschedulable"
_ENTRIES = MappingProxyType({entry.code: entry for entry in vars(waiting).values() if isinstance(entry, Entry)})
_HOPELESS = frozenset({PlaceReason.NEVER_FITS})
"""Reasons that remain when other pods end."""
_OF_CLAIMS = (
    "the planner chooses no GPUs of resource claims, which cannot be changed once the pod exists; gpu-topology claim "
    "writes a template that only linked GPUs satisfy"
)
_WITHOUT_WAITING = "the pod had its cards chosen by the scheduler"


def placement(examined: ExaminedPod) -> Iterator[Finding]:
    """Yields one finding for a pod that asks for HAMi's cards or has claims; nothing for other pods."""
    if examined.family == _FAMILY:
        yield _placement(examined)
    elif examined.family == CLAIM:
        yield not_needed(PLACEMENT, _OF_CLAIMS)


def _placement(examined: ExaminedPod) -> Finding:
    annotations = examined.evidence.pod.annotations
    placed = read_placed(annotations)
    if names.PLACE_GATE in examined.spec.scheduling_gates:
        return _behind_the_gate(examined, placed)
    label = examined.evidence.pod.labels.get(names.PLACEMENT, "")
    if examined.evidence.node:
        return _with_a_node(examined, placed, label)
    if placed and _pins(placed, examined):
        return _pinned(examined, placed, label)
    if label == Placement.RELEASED:
        return unknown(PLACEMENT, _said(examined) or found.LET_GO.say())
    if placed:
        return unknown(PLACEMENT, found.LIST_CHANGED.say(chosen=_chosen(examined, placed)))
    if label == Placement.PINNED:
        return unknown(PLACEMENT, found.CHOICE_UNREADABLE.say())
    return _never_waited(examined)


def _behind_the_gate(examined: ExaminedPod, placed: Placed | None) -> Finding:
    planner, since = examined.evidence.planner, _since(examined)
    if planner.is_alive is False:
        then = _without_a_planner(examined)
        return fails(PLACEMENT, found.PLANNER_GONE.say(since=since, why=planner.said, then=then))
    condition = examined.evidence.pod.placed
    said = _said(examined)
    if placed and _pins(placed, examined):
        said = found.HOLDS_ITS_CARDS.say(since=since, chosen=_chosen(examined, placed))
    elif said is None:
        said = found.NO_REASON_YET.say(since=since, lease=f": {planner.said}" if planner.said else "")
    else:
        text = f"the pod waits behind the scheduling gate {names.PLACE_GATE}{since}: {said.text}"
        said = Message(said.code, text, said.fix)
    is_hopeless = condition is not None and condition.reason in _HOPELESS
    judge = fails if is_hopeless and _denies(examined) else unknown
    return judge(PLACEMENT, _with_doubt(examined, said))


def _without_a_planner(examined: ExaminedPod) -> str:
    """Returns what happens to a waiting pod while no planner is alive, in a clause."""
    if _denies(examined):
        return f"with {names.PREFIX}on-violation: deny it waits until one is"
    seconds = examined.evidence.policy.placement.release_seconds
    return f"the webhook lets it go {seconds} s after the last sign of one (placement.releaseSeconds)"


def _denies(examined: ExaminedPod) -> bool:
    return examined.injected and examined.options.on_violation is OnViolation.DENY


def _with_doubt(examined: ExaminedPod, message: Message) -> Message:
    """Returns the message; where the signs of the planner could not be read, it adds that and the permission needed."""
    problem = examined.evidence.planner.problem
    if not problem:
        return message
    text = f"{message.text}; whether a planner is alive is not known: {problem}"
    permission = f"{HAVE}s to get MutatingWebhookConfigurations and Leases"
    return Message(message.code, text, f"{message.fix}. {permission}" if message.fix else permission)


def _pinned(examined: ExaminedPod, placed: Placed, label: str) -> Finding:
    """Returns the finding about a pod that has its list of cards, is past the gate, and has no node."""
    scheduled, planner = examined.evidence.pod.scheduled, examined.evidence.planner
    chosen = _chosen(examined, placed)
    if scheduled is None or scheduled.reason != _UNSCHEDULABLE:
        return unknown(PLACEMENT, found.NOT_TAKEN_YET.say(chosen=chosen))
    refusal = fitted(scheduled.message or _UNSCHEDULABLE)
    if planner.is_alive is False:
        message = found.PIN_WITHOUT_PLANNER.say(chosen=chosen, said=refusal.rstrip("."), why=planner.said)
        return fails(PLACEMENT, message)
    said = _said(examined) if label == Placement.RELEASED or placed.preempts else None
    return unknown(PLACEMENT, _with_doubt(examined, said or found.NOT_TAKEN.say(chosen=chosen, said=refusal)))


def _with_a_node(examined: ExaminedPod, placed: Placed | None, label: str) -> Finding:
    given = _given(examined)
    if placed and given == set(placed.cards):
        return holds(PLACEMENT, f"HAMi gave what the planner chose: {_chosen(examined, placed)}{_given_up(placed)}")
    if label == Placement.RELEASED:
        said = _said(examined) or found.LET_GO.say()
        return not_needed(PLACEMENT, f"{_WITHOUT_WAITING}: {said.text}")
    if placed and given:
        chosen, others = _cards(examined, placed.cards), _cards(examined, sorted(given))
        return fails(PLACEMENT, waiting.OTHER_CARDS.say(chosen=chosen, given=others))
    if placed:
        return not_needed(
            PLACEMENT, f"the planner chose {_chosen(examined, placed)}; see allocation for what HAMi gave"
        )
    return _never_waited(examined)


def _given(examined: ExaminedPod) -> set[str]:
    """Returns the UUIDs of the cards that HAMi gave; empty if unreadable, which the condition ``allocation`` says."""
    evidence = examined.evidence
    try:
        limits = evidence.policy.limits.allocation
        allocation = read_allocation(evidence.pod.annotations, family=_FAMILY, holder=examined.holder, limits=limits)
    except (FormatError, LimitError):
        return set()
    return {device.uuid for device in allocation.devices}


def _never_waited(examined: ExaminedPod) -> Finding:
    """Returns the finding about a pod that shows no trace of the planner."""
    as_it_is = not examined.injected and has_parts_or_one_card(examined.requests)
    if not (examined.injected or as_it_is):
        return not_needed(PLACEMENT, "only pods that the webhook prepared wait for the planner")
    why = (unplaced_as_it_is if as_it_is else unplaced)(_to_place(examined))
    if why:
        return not_needed(PLACEMENT, f"the planner does not choose the cards of this pod: {why.message.text}")
    policy, planner = examined.evidence.policy, examined.evidence.planner
    if not examined.evidence.reading.is_configured and policy.placement.mode is PlacementMode.OBSERVE:
        said = "in the default configuration no pod waits for the planner; --config says how the cluster is configured"
        return not_needed(PLACEMENT, said)
    idle = not_waiting(policy, examined.cluster)
    if idle:
        seen = f": {planner.said}" if planner.said and not planner.is_alive else ""
        return not_needed(PLACEMENT, f"no pod waits: {idle.message.text}{seen}")
    return not_needed(PLACEMENT, f"the pod did not wait: {_created_before(examined)}")


def _created_before(examined: ExaminedPod) -> str:
    if (examined.evidence.pod.metadata or Metadata()).uid:
        return "when it was created no planner was alive, or placement was off"
    return "it has no scheduling gate"


def _to_place(examined: ExaminedPod) -> PodToPlace:
    """Returns the pod as it was before HAMi chose its node, because that node does not tell whether the pod waited."""
    evidence = examined.evidence
    pod, metadata = evidence.pod, evidence.pod.metadata or Metadata()
    annotations = {key: value for key, value in pod.annotations.items() if key != names.HAMI_ALLOCATED_NODE}
    return PodToPlace(
        pod=msgspec.structs.replace(
            pod,
            metadata=msgspec.structs.replace(metadata, annotations=annotations),
            spec=msgspec.structs.replace(examined.spec, node_name=None),
        ),
        options=examined.options,
        profile=examined.profile,
        requests=examined.requests,
        namespace=evidence.namespace,
        policy=evidence.policy,
        cluster=examined.cluster,
        is_admitted=bool(metadata.uid),
    )


def _said(examined: ExaminedPod) -> Message | None:
    """Returns what the planner says about the pod, with the remedy; ``None`` if it says nothing that is known here."""
    condition = examined.evidence.pod.placed
    if condition is None:
        return None
    code, _, text = condition.message.partition(": ")
    entry = _ENTRIES.get(code)
    return Message(entry.code, fitted(text), entry.fix) if entry and text else None


def _pins(placed: Placed, examined: ExaminedPod) -> bool:
    """Returns whether HAMi's choice is limited to the cards that the planner chose."""
    return examined.evidence.pod.annotations.get(names.USE_GPU_UUID) == ",".join(placed.cards)


def _chosen(examined: ExaminedPod, placed: Placed) -> str:
    """Returns the choice in words, such as ``GPU0 and GPU1 of node a (NVLink, 240 GB/s)``."""
    link = f" ({fitted(link_text(placed))})" if len(placed.cards) > 1 else ""
    attempt = f", choice {placed.attempt}" if placed.attempt > 1 else ""
    return f"{_cards(examined, placed.cards)} of node {fitted(placed.node)}{link}{attempt}"


def _given_up(placed: Placed) -> str:
    lost = [f"{placed.share:.0%} of the ring bandwidth that such a node can give"] if placed.share < 1 else []
    return "".join(f"; {fitted(text)}" for text in (*lost, *placed.gave_up))


def _cards(examined: ExaminedPod, uuids: tuple[str, ...] | list[str]) -> str:
    """Returns the names of cards in the matrix of the node; their UUIDs where it is not known."""
    sources = examined.evidence.sources
    nodes = [known for known in (sources.published, sources.annotated) if known]
    gpus = [next((gpu for node in nodes if (gpu := node.gpu(uuid, None))), None) for uuid in uuids]
    if all(gpus):
        return listed(gpu.label for gpu in sorted((gpu for gpu in gpus if gpu), key=lambda gpu: gpu.index))
    return listed(fitted(uuid) for uuid in uuids)


def _since(examined: ExaminedPod) -> str:
    """Returns how long the pod has waited, in words. A pod gets its gate when it is created."""
    created = parse_timestamp((examined.evidence.pod.metadata or Metadata()).creation_timestamp)
    if created is None:
        return ""
    at = examined.evidence.asked_at
    if at is None:
        return f" since {created:%Y-%m-%d %H:%M:%S} UTC"
    return f" for {duration((at - created).total_seconds())}"
