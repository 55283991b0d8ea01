"""The owners of the objects in a cache, such as their namespaces, and how much of the cache each of them fills.

When a cache is full, less is kept of the objects of the owner that fills most of it. So whoever creates large objects
takes room from no other owner.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Shortening(NamedTuple, Generic[T]):
    """What a full cache does with the objects of the owner that fills most of it."""

    owner: Callable[[str], str]
    """A function from the name of an object to its owner."""
    shorten: Callable[[T], T]
    """A function from a value to what has to be kept of it."""


class Owners:
    """The bytes of the values that are kept whole, by owner.

    Args:
        owner: A function from the name of an object to its owner.
    """

    def __init__(self, owner: Callable[[str], str]) -> None:
        self.of = owner
        self._bytes: Counter[str] = Counter()

    def count(self, name: str, weight: int) -> None:
        """Count a value that came, or one that went, with a negative weight."""
        owner = self.of(name)
        self._bytes[owner] += weight
        if not self._bytes[owner]:
            del self._bytes[owner]

    def is_largest(self, name: str, more: int) -> bool:
        """Return whether no other owner has more bytes than that of an object, if ``more`` are added to its own."""
        return self._bytes[self.of(name)] + more >= max(self._bytes.values(), default=0)

    def by_size(self, names: Iterable[str], least: int) -> Iterator[str]:
        """Yield the names of the objects of the owners that have ``least`` bytes, those of the largest owner first."""
        found: dict[str, list[str]] = {owner: [] for owner, weight in self._bytes.most_common() if weight >= least}
        for name in names:
            if (of_owner := found.get(self.of(name))) is not None:
                of_owner.append(name)
        for of_owner in found.values():
            yield from of_owner
