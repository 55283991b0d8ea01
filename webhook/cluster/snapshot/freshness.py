"""Whether a snapshot is of this moment."""

import msgspec


class Standing(msgspec.Struct, frozen=True):
    """Whether the cluster is followed, and if not, since when and why."""

    live: bool
    at: str = ""
    """When the cluster was read last."""
    since: str = ""
    """Of what time the cluster is that is shown, if it is not followed."""
    reason: str = ""
    """Why it is not followed."""
