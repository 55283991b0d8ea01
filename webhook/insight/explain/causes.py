"""The causes that cost a pod its NVLink: which failing conditions are one, and how sure each of them is."""

import enum
from collections.abc import Set

from webhook.insight.explain.findings import Finding, Verdict
from webhook.insight.explain.links import LINKS
from webhook.insight.explain.nccl_paths import NCCL_LOG
from webhook.insight.explain.opt_in import INJECTED, OPTED_IN, PREPARED
from webhook.insight.explain.placement import PLACEMENT
from webhook.insight.explain.reviews import REVIEWED
from webhook.insight.explain.start import START
from webhook.insight.explain.traffic import NVLINK_USE
from webhook.words.catalogue import cards
from webhook.words.catalogue.traffic import MEASURED_WORSE
from webhook.words.catalogue.variables import EXPANDABLE_SEGMENTS

PREPARATION = frozenset({OPTED_IN, INJECTED, PREPARED, REVIEWED, PLACEMENT})
"""Conditions that decide nothing about NVLink.

An author can do by hand what the webhook does, and the values that the webhook wrote at the Binding are a condition of
their own. Other conditions judge the cards, so the way in which they were chosen does not matter.
"""

_REPORTED: Set[str] = {
    entry.code
    for entry in (
        *(cards.SLICE, cards.LIBRARY_PRELOADED, cards.LIBRARY_PERHAPS_PRELOADED, cards.SLICE_KEEPS_LIBRARY),
        EXPANDABLE_SEGMENTS,
    )
}
"""Messages about HAMi's library in a container, and about memory that CUDA IPC does not pass on.

The library passes the calls for peer access on, so it takes no path from the cards of one container. Users report that
NCCL crashes, hangs or is slow with it: HAMi issues 1764 and 2641, HAMi-core issues 169 and 261. They report that
transfers of expandable segments fall from 200 to 0.3 GB/s: nixl issue 1754, ucx issue 11548.
"""


class Sureness(enum.StrEnum):
    """How sure it is that a cause costs NVLink."""

    CERTAIN = "certain"
    """It follows from how NCCL, CUDA or HAMi are written."""
    SEEN = "seen"
    """Something on this pod shows it: its start, NCCL's log, counters of bytes, a measurement."""
    REPORTED = "reported"
    """Users report it, and it is not proven."""


def sureness(finding: Finding) -> Sureness | None:
    """Returns how sure it is that a finding costs NVLink; None where it costs none, or only some of the bandwidth."""
    if finding.verdict is Verdict.HINT:
        return Sureness.SEEN if finding.condition == NVLINK_USE or finding.code == MEASURED_WORSE.code else None
    if finding.fails and finding.code in _REPORTED:
        return Sureness.REPORTED
    if not is_certain(finding):
        return None
    return Sureness.SEEN if finding.condition in (START, NCCL_LOG) else Sureness.CERTAIN


def is_certain(finding: Finding) -> bool:
    """Whether a finding alone leaves some of the GPUs without NVLink."""
    return finding.fails and (finding.stops or finding.condition in (LINKS, NCCL_LOG))
