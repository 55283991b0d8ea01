"""Does the pod get its GPUs by resource claims, of which the webhook does not know what they allocated?"""

from collections.abc import Iterator

from webhook.catalogue import cards, opting
from webhook.catalogue.entry import Message
from webhook.explain.examined import ExaminedPod
from webhook.explain.findings import Finding, fails, unknown
from webhook.explain.words import listed
from webhook.model.errors import shorten

CLAIMS = "resource-claims"
_NAMED = 4


def claims(examined: ExaminedPod) -> Iterator[Finding]:
    """Nothing, for a pod that a device plugin serves."""
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
    """``resource claim gpus``, ``resource claims a and b``."""
    shown = [shorten(name) for name in found[:_NAMED]]
    if len(found) > _NAMED:
        shown.append(f"{len(found) - _NAMED} more")
    if not shown:
        return "resource claims that HAMi-DRA made"
    return f"resource claim{'s' if len(found) > 1 else ''} {listed(shown)}"
