"""Has no planner lead for a while, so that no pod is held back any more."""

from collections.abc import Callable
from datetime import UTC, datetime

from certs.election import lease_spec
from webhook.cluster.api.errors import Conflict
from webhook.programs.planner.lease import PlannerLease
from webhook.words import names

PAUSE_SECONDS = 300
"""Planners wait so long before one of them leads again."""
ATTEMPTS = 5


async def pause(lease: PlannerLease, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> bool:
    """Take the Lease in the name of none: the planner that leads finds that out at its next renewal.

    Webhooks know the name, and hold no pod back while it is there.

    Returns:
        Whether there is a Lease that planners lead by.

    Raises:
        ApiError: it cannot be had.
    """
    for attempt in range(ATTEMPTS):
        found = await lease.get()
        if found is None:
            return False
        try:
            await lease.replace(found, lease_spec(found, names.PLANNER_PAUSED, now(), duration=PAUSE_SECONDS))
        except Conflict:  # a planner renewed it in between
            if attempt == ATTEMPTS - 1:
                raise
        else:
            return True
    return False
