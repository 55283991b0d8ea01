"""The keeper of a program's mirrors: one for each kind of objects that the program names, and how they are."""

from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from time import monotonic
from typing import Any, NamedTuple, TypeVar

from webhook.cluster.kinds import Collection
from webhook.cluster.state.cache import SILENT_SECONDS, Cache, Form
from webhook.cluster.state.report import CacheReport

T = TypeVar("T")

Work = Callable[[], Coroutine[Any, Any, None]]
"""Goes on for as long as a mirror is kept."""
Fill = Callable[[Collection, Cache[Any], Counter[tuple[str, str]]], Work]
"""The work that keeps a cache what a collection is. The counter takes failures, by resource and kind."""


class _Kept(NamedTuple):
    collection: Collection
    cache: Cache[Any]
    is_needed: bool


class Keeper:
    """Knows the mirrors; another fills them from the API server.

    Args:
        tell: Takes a text for the log.
        clock: Seconds that never go back.
    """

    def __init__(self, *, tell: Callable[[str], None], clock: Callable[[], float] = monotonic) -> None:
        self.tell = tell
        self.clock = clock
        self._kept: list[_Kept] = []

    def keep(
        self,
        collection: Collection,
        form: Form[T],
        *,
        changed: Callable[[str, T | None, T | None], None] | None = None,
        name: str = "",
        is_needed: bool = True,
    ) -> Cache[T]:
        """A mirror of a collection.

        Args:
            collection: To be listed and watched.
            form: What is kept of each object.
            changed: Hears of every change.
            name: In logs and metrics, if that is not the name of the collection.
            is_needed: Whether nothing can be said before it is filled. Failures of another are not counted.
        """
        read, weigh, limit = form
        kind = name or collection.name
        cache = Cache[T](kind, read, weigh, limit=limit, tell=self.tell, clock=self.clock, changed=changed)
        self.add(collection, cache, is_needed=is_needed)
        return cache

    def add(self, collection: Collection, cache: Cache[Any], *, is_needed: bool = True) -> None:
        """Keep a mirror that has been made already; :meth:`keep`."""
        self._kept.append(_Kept(collection, cache, is_needed))

    def work(self, fill: Fill, errors: Counter[tuple[str, str]]) -> list[Work]:
        """The work that keeps all mirrors true, to be begun again after a bug.

        Args:
            fill: Makes that of one mirror.
            errors: Counts failures, by resource and kind.
        """
        return [fill(kept.collection, kept.cache, errors if kept.is_needed else Counter()) for kept in self._kept]

    @property
    def caches(self) -> Sequence[Cache[Any]]:
        """The mirrors that are needed."""
        return [kept.cache for kept in self._kept if kept.is_needed]

    @property
    def is_filled(self) -> bool:
        """Whether each was complete once."""
        return all(cache.filled for cache in self.caches)

    @property
    def is_settled(self) -> bool:
        """Whether each was complete once, or the API server has said why not."""
        return all(cache.filled or cache.problem for cache in self.caches)

    @property
    def missing(self) -> list[tuple[str, str]]:
        """The mirrors that were never complete, and why as far as that is known."""
        return [(cache.kind, cache.problem) for cache in self.caches if not cache.filled]

    def report(self) -> tuple[CacheReport, ...]:
        """How each of them is. In any thread."""
        return tuple(cache.report() for cache in self.caches)


def waiting(missing: Sequence[tuple[str, str]]) -> str:
    """The names of what is missing, and the first problem; empty if nothing is."""
    problem = next((problem for _, problem in missing if problem), "")
    return ", ".join(kind for kind, _ in missing) + (f" ({problem})" if problem else "")


def blindness(*caches: Cache[Any]) -> str:
    """Why no decision can be based on these at the moment; empty when it can."""
    for cache in caches:
        if cache.is_incomplete:
            return f"{cache.kind}: the cluster has more than can be kept"
        if cache.silence():
            return cache.problem or f"{cache.kind}: nothing was heard of them for {SILENT_SECONDS:.0f} s"
    return ""
