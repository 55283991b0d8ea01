"""Conditions on resource claims: the claims through which the pod gets GPUs, and the devices that they gave it."""

from collections.abc import Iterator, Sequence

from webhook.decisions.claims.evidence import claim_title, template_title
from webhook.decisions.claims.pod import EXTENDED, claim_names, shared_entries, used_entries
from webhook.decisions.resolve.resolve import Unresolved
from webhook.insight.explain.examination import ExaminedPod
from webhook.insight.explain.findings import Finding, fails, holds, not_needed, unknown
from webhook.objects.claims import ClaimSpec, Consumer, ResourceClaim, Result
from webhook.words.catalogue import cards, opting
from webhook.words.catalogue.claims import (
    CLAIM_MISSING,
    CLAIM_NOT_ALLOCATED,
    CLAIM_NOT_READ,
    CLAIM_WAITS,
    CLAIMS_GIVEN_BACK,
    COUNT_AWAITS_CLAIM,
    DEVICE_NOT_PUBLISHED,
    DEVICE_WITHOUT_UUID,
    POOL_INCOMPLETE,
    POOL_NOT_PUBLISHED,
    TEMPLATE_ASKS,
    TEMPLATE_MISSING,
)
from webhook.words.catalogue.entry import Message
from webhook.words.errors import shorten
from webhook.words.listing import counted, listed
from webhook.words.printable import fitted

CLAIMS = "resource-claims"
_NAMED = 4
_ENDED = ("Succeeded", "Failed")
_NOT_STARTED = (None, "", "Pending")
"""Phases in which the driver has not prepared the devices of all containers, as far as the API server knows."""
_UNSAID = frozenset(
    entry.code for entry in (POOL_NOT_PUBLISHED, POOL_INCOMPLETE, DEVICE_NOT_PUBLISHED, DEVICE_WITHOUT_UUID)
)
"""Codes of problems that hide the GPUs from us, and do no harm to the pod."""


def claims(examined: ExaminedPod) -> Iterator[Finding]:
    """Yields the findings about the claims of a pod; none for a pod that a device plugin serves."""
    if not examined.looks_at_claims:
        yield from _not_looked_at(examined)
        return
    described = list(_described(examined))
    problem = _problem(examined)
    if problem and not any(finding.code for finding in described):
        described = [problem]
    yield from described
    status = examined.evidence.pod.status
    if examined.given.no_partition and (status is None or status.phase in _NOT_STARTED):
        yield fails(CLAIMS, examined.given.no_partition)
    if examined.is_preloaded_by_claims or examined.cluster.is_preloaded(examined.claimed_count):
        yield fails(CLAIMS, cards.HAMI_DRA_DRIVER.say())


def _not_looked_at(examined: ExaminedPod) -> Iterator[Finding]:
    if examined.gets_claims_alone and examined.claims is not None:
        yield unknown(CLAIMS, opting.CLAIMED_DEVICES.say(claims=_named(examined.claims.names)))
        if examined.claims.of_hami:
            yield fails(CLAIMS, cards.HAMI_DRA_DRIVER.say())
    elif examined.claimed_count:
        yield unknown(CLAIMS, _of_count(examined))
        if examined.cluster.is_preloaded(examined.claimed_count):
            yield fails(CLAIMS, cards.HAMI_DRA_DRIVER.say())


def _of_count(examined: ExaminedPod) -> Message:
    if examined.evidence.pod.has_extended_claim:
        return opting.COUNT_WAS_CLAIMED.say()
    return opting.COUNT_SERVED_BY_CLAIMS.say(resource=examined.claimed_count)


def _named(found: tuple[str, ...]) -> str:
    """Returns the claims in words: ``resource claim gpus``, ``resource claims a and b``."""
    if not found:
        return "resource claims that HAMi-DRA made"
    return f"resource claim{'s' if len(found) > 1 else ''} {listed(map(shorten, found), _NAMED)}"


def _problem(examined: ExaminedPod) -> Finding | None:
    """Returns why the GPUs that the claims gave are not known, although each is allocated; ``None`` if they are."""
    problem = examined.given.problem
    if problem is None:
        return None
    status = examined.evidence.pod.status
    if status and status.phase in _ENDED:
        return unknown(CLAIMS, CLAIMS_GIVEN_BACK.say(problem=problem.message.text))
    is_waiting = problem.reason is Unresolved.STALE_ALLOCATION and not examined.is_bound
    is_unsaid = problem.reason is Unresolved.NO_ALLOCATION or problem.message.code in _UNSAID
    return (unknown if is_waiting or is_unsaid else fails)(CLAIMS, problem.message)


def _described(examined: ExaminedPod) -> Iterator[Finding]:
    """Yields one finding for each claim that is for GPUs, or may be."""
    pod, known = examined.evidence.pod, examined.evidence.claims
    names, specs = claim_names(pod), known.specs(pod)
    used = used_entries(pod)
    for entry in used:
        name = names.by_entry.get(entry)
        claim = known.claims.get(name) if name else None
        spec = specs.get(entry)
        if spec is not None and not _is_of_gpus(examined, spec):
            continue  # a claim for a NIC, or for a channel between nodes
        if claim and claim.allocation:
            yield _allocated(examined, entry, claim)
        elif name:
            yield _without_allocation(examined, name, spec)
        elif entry != EXTENDED:
            yield _not_made(examined, entry, names.templates.get(entry, ""), spec)
    if EXTENDED not in used and any(claimed.is_extended for claimed in examined.claimed):
        resource = next((each.request.resource for each in examined.gpu_containers if each.request), "")
        yield unknown(CLAIMS, COUNT_AWAITS_CLAIM.say(resource=resource or "the resource"))


def _is_of_gpus(examined: ExaminedPod, spec: ClaimSpec) -> bool:
    settings = examined.evidence.policy.claims
    requests = (spec.devices.requests if spec.devices else None) or ()
    return any(
        settings.driver_of_class(alternative.device_class_name)
        for request in requests
        for alternative in request.alternatives
    )


def _asked(examined: ExaminedPod, spec: ClaimSpec) -> str:
    """Returns the GPUs that a claim asks for in words, such as ``2 devices of gpu.nvidia.com``."""
    settings = examined.evidence.policy.claims
    found = []
    for request in (spec.devices.requests if spec.devices else None) or ():
        classes = dict.fromkeys(alternative.device_class_name for alternative in request.alternatives)
        if not any(map(settings.driver_of_class, classes)):
            continue
        counts = {
            0 if alternative.allocation_mode == "All" else alternative.count or 1
            for alternative in request.alternatives
        }
        amount = counted(counts.pop(), "device") if len(counts) == 1 and 0 not in counts else "devices"
        ways = f" in one of {len(request.alternatives)} ways" if len(request.alternatives) > 1 else ""
        found.append(f"{amount} of {listed(map(fitted, classes))}{ways}")
    return listed(found)


def _not_made(examined: ExaminedPod, entry: str, template: str, spec: ClaimSpec | None) -> Finding:
    title = template_title(fitted(template))
    if spec is not None:
        asked = _asked(examined, spec)
        return unknown(CLAIMS, TEMPLATE_ASKS.say(entry=fitted(entry), template=title, asked=asked))
    problem = examined.evidence.claims.unread.get(template_title(template))
    if problem is not None:
        return unknown(CLAIMS, CLAIM_NOT_READ.say(claim=title, problem=problem))
    judge = fails if examined.is_bound else unknown
    return judge(CLAIMS, TEMPLATE_MISSING.say(template=title, entry=fitted(entry)))


def _without_allocation(examined: ExaminedPod, name: str, spec: ClaimSpec | None) -> Finding:
    known, shown = examined.evidence.claims, fitted(name)
    problem = known.unread.get(claim_title(name))
    if problem is not None:
        return unknown(CLAIMS, CLAIM_NOT_READ.say(claim=claim_title(shown), problem=problem))
    status = examined.evidence.pod.status
    missing = CLAIM_NOT_ALLOCATED if name in known.claims else CLAIM_MISSING
    if status and status.phase in _ENDED:
        return unknown(CLAIMS, CLAIMS_GIVEN_BACK.say(problem=missing.say(claim=shown).text))
    if name in known.claims and not examined.is_bound:
        return unknown(CLAIMS, CLAIM_WAITS.say(claim=shown, asked=_asked(examined, spec) if spec else "GPUs"))
    return (fails if examined.is_bound else unknown)(CLAIMS, missing.say(claim=shown))


def _allocated(examined: ExaminedPod, entry: str, claim: ResourceClaim) -> Finding:
    settings = examined.evidence.policy.claims
    results = (claim.allocation.results if claim.allocation else None) or []
    ours = [result for result in results if settings.driver(result.driver)]
    title = claim_title(fitted(claim.metadata.name))
    if ours and all(result.admin_access for result in ours):
        said = f"{title} has admin access to {_devices(ours)}: it looks at GPUs of others, and has none of its own"
        return not_needed(CLAIMS, said)
    if not ours:
        return not_needed(CLAIMS, f"{title} was given no GPU")
    whom = _consumers(examined, entry, claim)
    return holds(CLAIMS, f"{title} was given {_devices([each for each in ours if not each.admin_access])}{whom}")


def _devices(results: Sequence[Result]) -> str:
    """Returns the devices in words, such as ``gpu-0 and gpu-1 of pool n1 by driver gpu.nvidia.com``."""
    pools = dict[tuple[str, str], list[str]]()
    for result in results:
        pools.setdefault((result.driver, result.pool), []).append(fitted(result.device))
    return listed(
        f"{listed(dict.fromkeys(devices))} of pool {fitted(pool)} by driver {fitted(driver)}"
        for (driver, pool), devices in pools.items()
    )


def _consumers(examined: ExaminedPod, entry: str, claim: ResourceClaim) -> str:
    """Returns the other consumers of the claim in words, or that others may use it."""
    others = other_consumers(examined, claim)
    if others:
        shown = listed((fitted(consumer.name) for consumer in others), _NAMED)
        return f"; {shown} {'uses' if len(others) == 1 else 'use'} it too"
    if entry in shared_entries(examined.evidence.pod):
        return "; no other pod uses it now, but pods that name it may"
    return ", for this pod alone"


def other_consumers(examined: ExaminedPod, claim: ResourceClaim) -> list[Consumer]:
    """Returns the other pods, or groups of pods, that may use a claim now."""
    metadata = examined.evidence.pod.metadata
    uid, name = (metadata.uid, metadata.name) if metadata else (None, None)
    return [consumer for consumer in claim.consumers if (consumer.uid != uid if uid else consumer.name != name)]
