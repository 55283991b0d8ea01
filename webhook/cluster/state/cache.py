"""The last known objects of one kind at the API server, regardless of the order of messages.

An older state of an object never replaces a newer one, and a deleted object does not come back with an old message. So
each object carries its version. That of a deleted object is kept until the API server has said that all changes up to
that version have been delivered. A list is taken object by object, so that a resync needs no room for a second copy.
"""

from collections.abc import Callable, Mapping, Set
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from webhook.cluster.state.report import CacheReport
from webhook.words.errors import GpuTopologyError
from webhook.words.printable import printable

Document = bytes | bytearray | memoryview

T = TypeVar("T")

FAILING_SECONDS = 10.0
"""The silence of an API server that refuses or does not answer, in seconds, after which a mirror is not relied on."""
SILENT_SECONDS = 150.0
"""The silence of an API server without failures after which a mirror is not relied on: bookmarks come each minute."""


class Versioned(Protocol):
    """One state of one object."""

    @property
    def name(self) -> str:
        """The name of the object, within the collection."""

    @property
    def version(self) -> int:
        """The version; a newer state has a greater one."""

    @property
    def document(self) -> Document:
        """The object as JSON."""


class _Entry(NamedTuple, Generic[T]):
    version: int
    value: T | None
    """The kept value; None if the object cannot be read."""
    weight: int
    is_short: bool = False
    """Whether only what has to be kept of the value is kept."""


class Limit(NamedTuple):
    """The capacity of a cache. Further objects are left out, and counted."""

    objects: int
    bytes: int


class Share(NamedTuple, Generic[T]):
    """The part of the capacity that the objects of one owner may take, so that none takes the room of others."""

    owner: Callable[[T], str]
    """A function that returns the owner of a value, such as a node; empty for a value that takes nobody's share."""
    limit: Limit
    of_all: Limit | None = None
    """The part that the objects of all owners together may take."""
    shorten: Callable[[T], T] | None = None
    """A function that returns what has to be kept of a value beyond the share; ``None``: it is left out."""


class Form(NamedTuple, Generic[T]):
    """The reduction of the objects of one kind, and the capacity for them."""

    read: Callable[[Document, str, T | None], T]
    """A function from an object's JSON, its name and the earlier value to the value to keep. It raises
    :class:`GpuTopologyError` for an object that it cannot read."""
    weigh: Callable[[T], int]
    """A function that returns the bytes of a value."""
    limit: Limit
    share: Share[T] | None = None


class Cache(Generic[T]):
    """The kept values of the objects of one kind, by their names.

    Args:
        kind: The name of the kind, such as ``nodes``.
        form: The reduction of the objects, and the capacity for them.
        tell: A function that takes a text for the log.
        clock: A clock in seconds that never goes back.
        changed: A function that is called for each changed value, with the name, the earlier value and the present one.
            ``None`` means that no value is kept, or that the object cannot be read. So an index can follow the cache.
    """

    def __init__(
        self,
        kind: str,
        form: Form[T],
        *,
        tell: Callable[[str], None],
        clock: Callable[[], float],
        changed: Callable[[str, T | None, T | None], None] | None = None,
    ) -> None:
        self.kind = kind
        self.filled = False
        """True if the cache has been complete once."""
        self.problem = ""
        """The reason why requests to the API server fail; empty if they succeed."""
        self.weight = 0
        """The bytes of all values, without those that Python adds."""
        self.left_out = 0
        """The number of states of objects that were left out because of the limit."""
        self.shortened = 0
        """The number of states of objects of which less is kept, because their owner has no more room."""
        self.is_incomplete = False
        """True if something was left out since the list before the last one."""
        self._left_out_then = 0
        self._used: dict[str, Limit] = {}
        """What the whole objects of each owner take of its share, and those of all by the empty text."""
        self._is_full = False
        self._read, self._weigh, self._limit, self._share = form
        self._tell = tell
        self._clock = clock
        self._changed = changed
        self._entries: dict[str, _Entry[T]] = {}
        self._gone: dict[str, int] = {}
        """The versions of deletions of objects that an old message may still mention."""
        self._floor = 0
        """The version up to which everything is known: an object that is missing here has no state that is so old."""
        self._faults: dict[str, str] = {}
        """The problems of objects, so that each is logged once."""
        self.confirmed: float | None = None
        """The time of the API server's last answer, on the clock; None if there was none."""

    def get(self, name: str) -> T | None:
        """Return the kept value of the object of that name."""
        entry = self._entries.get(name)
        return entry.value if entry else None

    def version(self, name: str) -> int | None:
        """Return the version of the kept state of the object, readable or not; ``None`` without one."""
        entry = self._entries.get(name)
        return entry.version if entry else None

    def __len__(self) -> int:
        return len(self._entries)

    def values(self) -> Mapping[str, T]:
        """Return a copy of all values, by name."""
        return {name: entry.value for name, entry in list(self._entries.items()) if entry.value is not None}

    def put(self, versioned: Versioned) -> bool:
        """Take a state of an object, and return whether an object of that name is kept now."""
        name, version = versioned.name, versioned.version
        before = self._entries.get(name)
        if version <= (before.version if before else max(self._floor, self._gone.get(name, 0))):
            return before is not None
        try:
            value = self._read(versioned.document, name, before.value if before else None)
            entry: _Entry[T] = _Entry(version, value, len(name) + self._weigh(value))
            problem = ""
        except GpuTopologyError as error:
            entry, problem = _Entry(version, None, len(name)), str(error)
        self._gone.pop(name, None)
        fitted = self._fitted(name, entry, before)
        if fitted is None:
            self._remove(name)  # the earlier state is no longer true
            return False
        if problem:
            self.doubt(name, problem)
        else:
            self._faults.pop(name, None)
        self._keep(name, before, fitted)
        return True

    def drop(self, versioned: Versioned) -> None:
        """Remove a deleted object; the version is that of its deletion."""
        name, version = versioned.name, versioned.version
        before = self._entries.get(name)
        if before and before.version > version:
            return  # a newer object has that name
        if version > max(self._floor, self._gone.get(name, 0)):
            self._gone[name] = version
        self._remove(name)

    def absent(self, name: str) -> None:
        """Remove an object that the API server says does not exist, at a version that it did not name."""
        if (entry := self._entries.get(name)) is not None:
            self._gone[name] = max(entry.version, self._gone.get(name, 0))
            self._remove(name)

    def listed(self, version: int, names: Set[str]) -> None:
        """Take the names of all objects at that version; each was put already, and every other kept one is removed."""
        self._is_full = False
        self.is_incomplete, self._left_out_then = self.left_out > self._left_out_then, self.left_out
        for name in [name for name, entry in self._entries.items() if entry.version <= version and name not in names]:
            self._remove(name)
        self.caught_up(version)
        self.filled = True

    def caught_up(self, version: int) -> None:
        """Note that all changes up to that version have been delivered."""
        self._floor = max(self._floor, version)
        self._gone = {name: end for name, end in self._gone.items() if end > self._floor}

    def not_served(self) -> None:
        """Remove all objects, because there are none of the kind. They may come back later, in the same versions."""
        for name in list(self._entries):
            self._remove(name)
        self._gone, self._floor = {}, 0
        self._is_full = self.is_incomplete = False
        self.filled = True

    def forget_versions(self) -> None:
        """Treat whatever comes next as newer, regardless of its version: the cluster was restored from a backup."""
        self._entries = {name: entry._replace(version=-1) for name, entry in self._entries.items()}
        self._gone = {}
        self._floor = 0
        self._tell(f"{self.kind}: versions went back; the cluster seems to be restored from a backup. All is read anew")

    def confirm(self) -> None:
        """Note that the API server has answered."""
        self.confirmed = self._clock()

    def doubt(self, name: str, problem: str) -> None:
        """Log a problem of an object once."""
        if self._faults.get(name) != problem:
            self._faults[name] = problem
            self._tell(printable(f"{self.kind}: {name + ': ' if name else ''}{problem}"))

    def failed(self, problem: str) -> None:
        """Note that a request failed; an empty ``problem`` means that requests succeed again."""
        if bool(problem) != bool(self.problem):
            self._tell(problem or f"{self.kind}: the API server answers again")
        self.problem = problem

    def silence(self) -> float:
        """Return the seconds since the API server's last answer, or 0.0 while they are not unusual."""
        silent = self._clock() - (self.confirmed or 0.0)
        return silent if silent > (FAILING_SECONDS if self.problem else SILENT_SECONDS) else 0.0

    def report(self) -> CacheReport:
        """Report the present condition."""
        return CacheReport(
            name=self.kind,
            objects=len(self),
            bytes=self.weight,
            left_out=self.left_out,
            shortened=self.shortened,
            filled=self.filled,
            confirmed_seconds=None if self.confirmed is None else self._clock() - self.confirmed,
        )

    def _keep(self, name: str, before: _Entry[T] | None, entry: _Entry[T]) -> None:
        self._entries[name] = entry
        self._weigh_in(before, -1)
        self._weigh_in(entry, 1)
        self._tell_change(name, before, entry)

    def _weigh_in(self, entry: _Entry[T] | None, sign: int) -> None:
        """Add an entry to all that is counted, or, with the sign -1, take it away."""
        if entry is None:
            return
        self.weight += sign * entry.weight
        owner = self._owner(entry)
        for each in (owner, "") if owner else ():
            used = self._used.pop(each, Limit(0, 0))
            if objects := used.objects + sign:
                self._used[each] = Limit(objects, used.bytes + sign * entry.weight)

    def _owner(self, entry: _Entry[T] | None) -> str:
        """Return the owner of whose share an entry takes; empty if it takes nobody's."""
        if self._share is None or entry is None or entry.value is None or entry.is_short:
            return ""
        return self._share.owner(entry.value)

    def _fitted(self, name: str, entry: _Entry[T], before: _Entry[T] | None) -> _Entry[T] | None:
        """Return ``entry`` as it is kept in the place of ``before``: whole, or short; None if there is no room.

        A misfit is counted, and logged once a list.
        """
        used = Limit(len(self._entries), self.weight)
        beyond = self._beyond_share(entry, before) or _beyond(self._limit, used, entry, before)
        if not beyond:
            return entry
        shorten = self._share.shorten if self._share and self._owner(entry) else None
        if shorten and entry.value is not None:
            value = shorten(entry.value)
            if before and before.value == value:
                value = before.value
            entry = _Entry(entry.version, value, len(name) + self._weigh(value), is_short=True)
            if not _beyond(self._limit, used, entry, before):
                self.shortened += 1
                self._tell_full(f"{beyond}, found more; of what is beyond only what has to be kept is kept")
                return entry
        self.left_out += 1
        self.is_incomplete = True
        self._tell_full(f"{beyond}, found more; what is beyond is left out")
        return None

    def _tell_full(self, text: str) -> None:
        if not self._is_full:
            self._is_full = True
            self._tell(printable(f"{self.kind}: {text}"))

    def _beyond_share(self, entry: _Entry[T], before: _Entry[T] | None) -> str:
        owner, owner_before = self._owner(entry), self._owner(before)
        if self._share is None or not owner:
            return ""
        of_owner = self._used.get(owner, Limit(0, 0))
        if beyond := _beyond(self._share.limit, of_owner, entry, before if owner == owner_before else None):
            return f"{owner}: {beyond}"
        if self._share.of_all is None:
            return ""
        return _beyond(self._share.of_all, self._used.get("", Limit(0, 0)), entry, before if owner_before else None)

    def _remove(self, name: str) -> None:
        entry = self._entries.pop(name, None)
        self._faults.pop(name, None)
        if entry:
            self._weigh_in(entry, -1)
            self._tell_change(name, entry, None)

    def _tell_change(self, name: str, before: _Entry[T] | None, after: _Entry[T] | None) -> None:
        old, new = before.value if before else None, after.value if after else None
        if self._changed and old is not new:
            self._changed(name, old, new)


def _beyond(most: Limit, used: Limit, entry: _Entry[Any], before: _Entry[Any] | None) -> str:
    """Return what is expected, if ``entry`` does not fit in the place of ``before``; empty if it fits."""
    objects = used.objects + (before is None)
    weight = used.bytes + entry.weight - (before.weight if before else 0)
    if objects <= most.objects and weight <= most.bytes:
        return ""
    return f"expected at most {most.objects} objects and {most.bytes} bytes"
