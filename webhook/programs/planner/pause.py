"""The pause of all planners: for a while none of them leads, so that no pod is held back."""

from webhook.cluster.api.errors import Conflict
from webhook.cluster.api.leader_lease import LeaderLease
from webhook.cluster.api.verbs import Api
from webhook.words import names

PAUSE_SECONDS = 300
"""Time before a planner leads again."""
ATTEMPTS = 5


async def pause(api: Api, namespace: str) -> bool:
    """Take the Lease under a name that no planner has. The planner that leads sees it at its next renewal.

    Webhooks know the name, and hold no pod back while it stands in the Lease.

    Args:
        api: The API server.
        namespace: The namespace of the planners.

    Returns:
        Whether there is a Lease of the planners.

    Raises:
        ApiError: the Lease cannot be read or written.
    """
    lease = LeaderLease(api, namespace, names.PLANNER_LEASE, names.PLANNER_PAUSED, seconds=PAUSE_SECONDS)
    for attempt in range(ATTEMPTS):
        found = await lease.find()
        if found is None:
            return False
        try:
            await lease.write(found)
        except Conflict:  # a planner renewed the Lease in between
            if attempt == ATTEMPTS - 1:
                raise
        else:
            return True
    return False
