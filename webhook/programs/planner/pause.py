"""The pause of all planners: for a while none of them leads, so that no pod is held back."""

from collections.abc import Callable
from datetime import UTC, datetime

from certs.election import lease_spec
from webhook.cluster.api.errors import Conflict
from webhook.programs.planner.lease import PlannerLease
from webhook.words import names

PAUSE_SECONDS = 300
"""Time before a planner leads again."""
ATTEMPTS = 5


async def pause(lease: PlannerLease, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> bool:
    """Take the Lease under a name that no planner has. The planner that leads sees it at its next renewal.

    Webhooks know the name, and hold no pod back while it stands in the Lease.

    Returns:
        Whether there is a Lease of the planners.

    Raises:
        ApiError: the Lease cannot be read or written.
    """
    for attempt in range(ATTEMPTS):
        found = await lease.get()
        if found is None:
            return False
        try:
            await lease.replace(found, lease_spec(found, names.PLANNER_PAUSED, now(), duration=PAUSE_SECONDS))
        except Conflict:  # a planner renewed the Lease in between
            if attempt == ATTEMPTS - 1:
                raise
        else:
            return True
    return False
