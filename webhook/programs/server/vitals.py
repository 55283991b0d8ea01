"""How the server is at this moment, as far as it does not count it: values that whoever knows them hands in."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from webhook.cluster.state.report import CacheReport, TopologyReport


@dataclass(frozen=True, kw_only=True, slots=True)
class Vitals:
    """What does not apply is left out: with state from a directory there is no cache."""

    ready: bool = False
    """Whether reviews can be answered, as ``/readyz`` says."""
    draining: bool = False
    """Whether a stop has begun."""
    connections: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """By port and :class:`webhook.programs.http.connections.Phase`."""
    unfinished_bytes: Mapping[str, int] = field(default_factory=dict)
    """What they hold, by port."""
    hami: str = ""
    """The version of HAMi, as known; empty if it is not."""
    kubernetes: str = ""
    """The version of Kubernetes, as known; empty if it is not."""
    certificate_ends: float | None = None
    """When the serving certificate is no longer valid, in seconds since 1970 UTC."""
    authority_ends: float | None = None
    """When the authority that signed it is no longer valid; of several the first to end. Seconds since 1970 UTC."""
    certificate_failures: int | None = None
    """How often caring for the certificates failed."""
    certificate_leader: bool | None = None
    """Whether this replica renews the certificates of all."""
    caches: tuple[CacheReport, ...] = ()
    topologies: TopologyReport | None = None
    api_errors: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Requests to the API server that failed, by resource (``pods``, ``configmaps``) and by the
    :class:`webhook.cluster.api.errors.ApiError`."""
    planner_alive: bool | None = None
    """Whether a planner is alive, as the webhook knows."""
    gates_opened: Mapping[str, int] | None = None
    """Gates of waiting pods that this replica has opened, by :class:`webhook.programs.server.gates.Cause`."""
    unmatched_schedulers: int | None = None
    """Accounts of HAMi's schedulers whose Bindings the webhook is not asked about."""
