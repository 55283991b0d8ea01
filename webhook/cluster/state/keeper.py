"""The keeper of a program's mirrors: one for each kind of objects that the program names."""

from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from time import monotonic
from typing import Any, NamedTuple, TypeVar

from webhook.cluster.kinds import Collection
from webhook.cluster.state.cache import SILENT_SECONDS, Cache, Form
from webhook.cluster.state.report import CacheReport

T = TypeVar("T")

Work = Callable[[], Coroutine[Any, Any, None]]
"""A task that runs while a mirror is kept."""
Fill = Callable[[Collection, Cache[Any], Counter[tuple[str, str]]], Work]
"""A function that returns the task that fills a cache from a collection. The counter takes failures, by resource and
kind."""


class _Kept(NamedTuple):
    collection: Collection
    cache: Cache[Any]
    is_needed: bool


class Keeper:
    """The registry of mirrors; another object fills them from the API server.

    Args:
        tell: A function that takes a text for the log.
        clock: A clock in seconds that never goes back.
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
        """Make a mirror of a collection.

        Args:
            collection: The collection to list and watch.
            form: The reduction of each object.
            changed: A function that is called for each change.
            name: The name in logs and metrics, if it is not that of the collection.
            is_needed: True if the state is unknown before it is filled. Failures of another mirror are not counted.
        """
        cache = Cache(name or collection.name, form, tell=self.tell, clock=self.clock, changed=changed)
        self.add(collection, cache, is_needed=is_needed)
        return cache

    def add(self, collection: Collection, cache: Cache[Any], *, is_needed: bool = True) -> None:
        """Register a mirror that has been made already; :meth:`keep`."""
        self._kept.append(_Kept(collection, cache, is_needed))

    def work(self, fill: Fill, errors: Counter[tuple[str, str]]) -> list[Work]:
        """Return the tasks that keep all mirrors current, to be restarted after a bug.

        Args:
            fill: A function that returns the task of one mirror.
            errors: The counts of failures, by resource and kind.
        """
        return [fill(kept.collection, kept.cache, errors if kept.is_needed else Counter()) for kept in self._kept]

    @property
    def caches(self) -> Sequence[Cache[Any]]:
        """The mirrors that are needed."""
        return [kept.cache for kept in self._kept if kept.is_needed]

    @property
    def is_filled(self) -> bool:
        """True if each needed mirror has been complete once."""
        return all(cache.filled for cache in self.caches)

    @property
    def is_settled(self) -> bool:
        """True if each needed mirror has been complete once, or has a reason why not."""
        return all(cache.filled or cache.problem for cache in self.caches)

    @property
    def missing(self) -> list[tuple[str, str]]:
        """The mirrors that were never complete, with the reason as far as it is known."""
        return [(cache.kind, cache.problem) for cache in self.caches if not cache.filled]

    def report(self) -> tuple[CacheReport, ...]:
        """Report the condition of each needed mirror. Any thread may call this."""
        return tuple(cache.report() for cache in self.caches)


def waiting(missing: Sequence[tuple[str, str]]) -> str:
    """Name the missing parts and the first problem; empty if nothing is missing."""
    problem = next((problem for _, problem in missing if problem), "")
    return ", ".join(kind for kind, _ in missing) + (f" ({problem})" if problem else "")


def blindness(*caches: Cache[Any]) -> str:
    """Return the reason why no decision can rely on these mirrors at the moment; empty if it can."""
    for cache in caches:
        if cache.is_incomplete:
            return f"{cache.kind}: the cluster has more than can be kept"
        if cache.silence():
            return cache.problem or f"{cache.kind}: nothing was heard of them for {SILENT_SECONDS:.0f} s"
    return ""
