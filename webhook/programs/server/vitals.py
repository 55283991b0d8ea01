"""The values of the server at this moment that are no counts. The parts of the program that know them fill them in."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from webhook.cluster.state.report import CacheReport, TopologyReport


@dataclass(frozen=True, kw_only=True, slots=True)
class Vitals:
    """The values of one moment. Those that do not apply are left out: with state from a directory there is no cache."""

    ready: bool = False
    """Whether reviews can be answered, as ``/readyz`` says."""
    draining: bool = False
    """Whether a stop has begun."""
    connections: Mapping[str, int] = field(default_factory=dict)
    """Connections by port."""
    closed: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Connections that the server ended, by port and :class:`webhook.programs.http.server.Cause`."""
    hami: str = ""
    """The version of HAMi; empty if it is not known."""
    kubernetes: str = ""
    """The version of Kubernetes; empty if it is not known."""
    certificate_ends: float | None = None
    """The end of the serving certificate, in seconds since 1970 UTC."""
    authority_ends: float | None = None
    """The end of the authority that signed it, in seconds since 1970 UTC; of several authorities the first to end."""
    certificate_failures: int | None = None
    """The number of failures of the keepers of certificates."""
    certificate_leader: bool | None = None
    """Whether this replica renews the certificates of all replicas."""
    caches: tuple[CacheReport, ...] = ()
    topologies: TopologyReport | None = None
    api_errors: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Requests to the API server that failed, by resource (``pods``, ``configmaps``) and by the
    :class:`webhook.cluster.api.errors.ApiError`."""
    planner_alive: bool | None = None
    """Whether a planner is alive, as far as the webhook knows."""
    gates_opened: Mapping[str, int] | None = None
    """Gates of waiting pods that this replica has opened, by :class:`webhook.programs.server.gates.Cause`."""
    unmatched_schedulers: int | None = None
    """The number of accounts of HAMi's schedulers whose Bindings do not reach the webhook."""
