"""The condition of a cluster's state, for metrics."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class CacheReport:
    """One cache, for metrics."""

    name: str
    objects: int
    bytes: int
    """The bytes of all values, without those that Python adds."""
    left_out: int
    """The number of states of objects that were left out because of the limit of their kind."""
    shortened: int = 0
    """The number of states of objects of which less is kept, because their owner has no more room."""
    filled: bool
    """True if the cache has been complete once."""
    confirmed_seconds: float | None
    """The seconds since the API server's last sign: a list, an event or a bookmark, of which one comes each minute;
    None if there was none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TopologyReport:
    """The nodes with GPUs, as far as known: those that an agent published, and those that HAMi annotated."""

    fresh: int
    old: int
    """The published nodes whose agents have been silent for too long."""
    missing: int
    """The annotated nodes without a publication."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StateReport:
    """The condition of the state, for metrics."""

    caches: tuple[CacheReport, ...]
    topologies: TopologyReport
