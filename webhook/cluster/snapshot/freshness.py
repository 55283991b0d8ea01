"""The freshness of a snapshot."""

import msgspec


class Standing(msgspec.Struct, frozen=True):
    """The freshness of a cluster: followed by watches or not, and if not, since when and why."""

    live: bool
    at: str = ""
    """The time of the last reading."""
    since: str = ""
    """The time of the shown state, if the cluster is not followed."""
    reason: str = ""
    """The reason why the cluster is not followed."""
