"""The planner's Lease, by which a planner shows that it is alive."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from webhook.objects.lease import is_led, lasts, renewed_at
from webhook.words import names
from webhook.words.duration import duration
from webhook.words.printable import fitted

CLOCKS_DIFFER = 60.0
"""Seconds by which the clock here and that of the planner's node may differ. A planner renews its Lease every few
seconds, and must not count as gone because the clock of a laptop is ahead."""


class PlannerSigns(msgspec.Struct, frozen=True, kw_only=True):
    """The signs that a planner is alive or gone."""

    is_alive: bool | None = None
    """Whether a planner is alive; ``None``: not known."""
    said: str = ""
    """The evidence, in a clause."""
    problem: str = ""
    """The reason why it is not known; empty where nothing could be looked up."""


NO_SIGNS = PlannerSigns()
"""The value where nothing could be looked up."""


def planner_signs(lease: Mapping[str, Any] | None, where: str, *, at: datetime) -> PlannerSigns:
    """Returns the signs of life of a planner, read from its Lease.

    Args:
        lease: The Lease as the API server has it; ``None``: there is none.
        where: The namespace and name of the Lease.
        at: The present time.
    """
    if lease is None:
        return PlannerSigns(is_alive=False, said=f"there is no Lease {where}")
    spec = lease.get("spec")
    holder = spec.get("holderIdentity") if isinstance(spec, Mapping) else None
    if not isinstance(holder, str) or not is_led(holder):
        pauses = holder == names.PLANNER_PAUSED
        said = f"Lease {where} pauses the planner" if pauses else f"Lease {where} names no holder"
        return PlannerSigns(is_alive=False, said=said)
    renewed = renewed_at(lease)
    if renewed is None:
        return PlannerSigns(is_alive=False, said=f"Lease {where} does not say when it was renewed")
    silent = (at - renewed).total_seconds()
    if silent > lasts(lease) + CLOCKS_DIFFER:
        return PlannerSigns(is_alive=False, said=f"Lease {where} was renewed {duration(silent)} ago")
    return PlannerSigns(
        is_alive=True, said=f"Lease {where} is held by {fitted(holder)} and was renewed {duration(silent)} ago"
    )
