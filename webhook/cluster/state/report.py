"""How the state of a cluster is, for metrics."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class CacheReport:
    """One cache, for metrics."""

    name: str
    objects: int
    bytes: int
    """That are kept, without those that Python adds."""
    left_out: int
    """How often a state of an object was not kept, because more is not kept of one kind."""
    filled: bool
    """Whether it was complete once."""
    confirmed_seconds: float | None
    """Since the API server was heard last, by a list, an event or a bookmark, of which one comes each minute; None:
    never."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TopologyReport:
    """Nodes that have GPUs as far as is known: those that an agent published, and those that HAMi annotated."""

    fresh: int
    old: int
    """Published, but their agents have not been heard of for too long."""
    missing: int
    """Not published."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StateReport:
    """How the state is, for metrics."""

    caches: tuple[CacheReport, ...]
    topologies: TopologyReport
