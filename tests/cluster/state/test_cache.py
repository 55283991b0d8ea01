"""Whatever the order in which it is told, a cache ends with what the server has."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from webhook.cluster.state.cache import Cache, Document, Form, Limit, Share
from webhook.words.errors import FormatError

NAMES = ("a", "b", "c", "d")
Changed = Callable[[str, int | None, int | None], None]
PLENTY = Limit(objects=1000, bytes=1_000_000)


class State(NamedTuple):
    """One state of an object."""

    name: str
    version: int
    document: bytes = b"0"


@dataclass
class Told:
    """What was logged, and the time."""

    lines: list[str] = field(default_factory=list)
    now: float = 0.0


def read(document: Document, name: str, _: int | None) -> int:
    value: Any = json.loads(bytes(document))
    if not isinstance(value, int):
        raise FormatError(name, expected="a number", found=value)
    return value


def make(told: Told | None = None, limit: Limit = PLENTY, changed: Changed | None = None) -> Cache[int]:
    told = told or Told()
    return Cache(
        "things", Form(read, lambda _: 10, limit), tell=told.lines.append, clock=lambda: told.now, changed=changed
    )


class Index:
    """What follows a cache, and checks that it hears the truth about the value before."""

    def __init__(self) -> None:
        self.values: dict[str, int] = {}
        self.calls = 0

    def changed(self, name: str, before: int | None, after: int | None) -> None:
        assert self.values.pop(name, None) == before
        assert before is not after
        self.calls += 1
        if after is not None:
            self.values[name] = after


def test_what_is_beyond_the_number_of_objects_is_left_out_counted_and_told_once() -> None:
    told = Told()
    cache = make(told, Limit(objects=2, bytes=1000))
    assert [cache.put(State(name, number)) for number, name in enumerate("abcd", 1)] == [True, True, False, False]
    assert cache.values().keys() == {"a", "b"}
    assert (cache.left_out, cache.weight) == (2, 22)
    assert told.lines == ["things: expected at most 2 objects and 1000 bytes, found more; what is beyond is left out"]


def test_a_cache_that_left_something_out_is_incomplete_until_a_list_left_nothing_out() -> None:
    cache = make(limit=Limit(objects=1, bytes=1000))
    cache.put(State("a", 1))
    assert not cache.is_incomplete
    cache.put(State("b", 2))
    assert cache.is_incomplete
    cache.listed(3, {"a"})  # in which "b" was left out, as far as is known
    assert cache.is_incomplete
    cache.drop(State("a", 4))
    cache.put(State("b", 5))
    cache.listed(5, {"b"})
    assert not cache.is_incomplete


def test_a_full_cache_takes_new_states_of_what_it_has_and_others_when_there_is_room() -> None:
    cache = make(limit=Limit(objects=2, bytes=1000))
    for number, name in enumerate("abc", 1):
        cache.put(State(name, number))
    assert cache.put(State("a", 4, b"4"))
    assert cache.get("a") == 4
    cache.drop(State("a", 5))
    assert cache.put(State("c", 6, b"6"))
    assert cache.values() == {"b": 0, "c": 6}


def test_what_is_beyond_the_bytes_is_left_out_with_the_state_before() -> None:
    cache = Cache[int](
        "things", Form(read, lambda value: value, Limit(9, 100)), tell=Told().lines.append, clock=lambda: 0.0
    )
    assert cache.put(State("a", 1, b"50"))
    assert not cache.put(State("b", 2, b"49"))
    assert cache.put(State("b", 3, b"48"))
    assert not cache.put(State("a", 4, b"51"))
    assert cache.values() == {"b": 48}
    assert cache.weight == 49


def test_what_cannot_be_read_counts_too() -> None:
    cache = make(limit=Limit(objects=1, bytes=1000))
    assert [cache.put(State(name, 1, b'"x"')) for name in "ab"] == [True, False]
    assert len(cache) == 1


def test_it_is_filled_only_by_a_whole_list() -> None:
    cache = make()
    cache.put(State("a", 3))
    assert not cache.filled
    cache.listed(10, {"a"})
    assert cache.filled


def test_an_object_that_cannot_be_read_is_its_own_problem_and_said_once() -> None:
    told = Told()
    cache = make(told)
    cache.put(State("good", 1, b"1"))
    cache.put(State("bad", 2, b'"x"'))
    cache.put(State("bad", 3, b'"x"'))
    assert (cache.get("good"), cache.get("bad")) == (1, None)
    assert told.lines == ['things: bad: bad: expected a number, found "x"']
    cache.put(State("bad", 4, b"4"))
    assert cache.get("bad") == 4


def test_a_readable_state_is_gone_when_the_next_cannot_be_read() -> None:
    cache = make()
    cache.put(State("a", 1, b"1"))
    cache.put(State("a", 2, b'"x"'))
    assert cache.get("a") is None


def test_the_weight_is_that_of_what_is_there() -> None:
    cache = make()
    cache.put(State("a", 1))
    cache.put(State("a", 2))
    cache.put(State("bb", 3))
    assert cache.weight == 11 + 12
    cache.drop(State("bb", 4))
    assert cache.weight == 11
    cache.listed(9, set())
    assert (cache.weight, len(cache)) == (0, 0)


def test_after_a_restore_from_a_backup_lower_versions_are_believed() -> None:
    told = Told()
    cache = make(told)
    cache.put(State("a", 500, b"1"))
    cache.put(State("b", 600, b"1"))
    cache.listed(700, {"a", "b"})
    cache.forget_versions()
    cache.put(State("a", 20, b"2"))
    cache.listed(30, {"a"})
    assert dict(cache.values()) == {"a": 2}
    cache.put(State("c", 31, b"3"))
    assert cache.get("c") == 3
    assert "restored from a backup" in told.lines[0]


def test_an_index_hears_of_what_changes_what_cannot_be_read_what_has_no_room_and_what_is_gone() -> None:
    index = Index()
    cache = make(limit=Limit(objects=2, bytes=1000), changed=index.changed)
    cache.put(State("a", 1, b"1"))
    cache.put(State("b", 2, b"2"))
    assert index.values == {"a": 1, "b": 2}
    cache.put(State("a", 3, b'"x"'))
    assert index.values == {"b": 2}
    cache.put(State("a", 4, b"4"))
    cache.put(State("c", 5, b"5"))
    assert index.values == {"a": 4, "b": 2}
    cache.drop(State("b", 6))
    cache.listed(9, set())
    assert index.values == {}


def test_an_index_hears_nothing_of_a_state_with_the_same_value() -> None:
    index = Index()
    cache = Cache[int](
        "things",
        Form(
            lambda document, name, before: read(document, name, before) if before is None else before,
            lambda _: 10,
            PLENTY,
        ),
        tell=Told().lines.append,
        clock=lambda: 0.0,
        changed=index.changed,
    )
    cache.put(State("a", 1, b"1"))
    cache.put(State("a", 2, b"2"))
    assert (index.calls, cache.version("a")) == (1, 2)


MOST, OF_OWNER, OF_ALL, SHORT = 3000, 1000, 2000, 3
"""Bytes of a cache with shares, and what is kept of a value that is shortened. The weight of a value is the value."""


def owner_of(value: int) -> str:
    """The owner of a value, in its last digit; 0 is nobody."""
    return "" if value % 10 == 0 or value <= SHORT else f"o{value % 10}"


def shared(
    told: Told | None = None, index: Index | None = None, *, most: int = MOST, of_all: int = OF_ALL
) -> Cache[int]:
    return Cache(
        "things",
        Form(
            lambda document, name, before: before if before == (value := read(document, name, None)) else value,
            lambda value: value,
            Limit(objects=1000, bytes=most),
            Share(owner_of, Limit(1000, OF_OWNER), Limit(1000, of_all), lambda value: min(value, SHORT)),
        ),
        tell=(told or Told()).lines.append,
        clock=lambda: 0.0,
        changed=index.changed if index else None,
    )


def put_values(cache: Cache[int], *values: int) -> list[int | None]:
    for number, value in enumerate(values, 1):
        cache.put(State(f"{number:02}", number, str(value).encode()))
    return [cache.get(f"{number:02}") for number in range(1, len(values) + 1)]


def test_beyond_the_share_of_its_owner_and_of_all_a_value_is_short_and_counted_and_told_once() -> None:
    told = Told()
    cache = shared(told)
    assert put_values(cache, 501, 401, 301, 902, 303, 204) == [501, 401, SHORT, 902, SHORT, SHORT]
    assert (cache.shortened, cache.left_out, cache.is_incomplete) == (3, 0, False)
    most = f"things: o1: expected at most 1000 objects and {OF_OWNER} bytes"
    assert told.lines == [f"{most}, found more; of what is beyond only what has to be kept is kept"]


def test_a_value_of_nobody_is_never_short_and_left_out_only_of_a_full_cache() -> None:
    cache = shared()
    assert put_values(cache, 901, 902, 900, 500) == [901, 902, 900, None]
    assert (cache.shortened, cache.left_out, cache.is_incomplete) == (0, 1, True)


def test_a_value_is_whole_again_when_it_changes_and_there_is_room() -> None:
    cache = shared()
    assert put_values(cache, 501, 401, 301) == [501, 401, SHORT]
    cache.drop(State("01", 10))
    cache.put(State("03", 11, b"311"))
    assert cache.get("03") == 311


def test_a_change_that_is_shortened_to_the_same_is_told_to_no_index() -> None:
    index = Index()
    cache = shared(index=index)
    put_values(cache, 501, 401, 301)
    calls = index.calls
    cache.put(State("03", 20, b"321"))
    assert (index.calls, cache.version("03")) == (calls, 20)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(SHORT, 700), st.booleans()), max_size=120))
def test_an_owner_within_its_share_and_what_has_to_be_kept_lose_nothing_to_others(
    states: list[tuple[int, int, bool]],
) -> None:
    index = Index()
    cache = shared(index=index, most=100_000, of_all=100_000)
    truth: dict[str, int] = {}
    modest = {"", *(f"o{number}" for number in range(1, 10))}
    for version, (number, value, is_deletion) in enumerate(states, 1):
        name = f"{number:02}"
        if is_deletion:
            cache.drop(State(name, version))
            truth.pop(name, None)
        else:
            truth[name] = value
            cache.put(State(name, version, str(value).encode()))
        weights = Counter[str]()
        for kept in truth.values():
            weights[owner_of(kept)] += 2 + kept
        modest -= {owner for owner, weight in weights.items() if owner and weight > OF_OWNER}
        assert cache.values() == index.values
        assert {key for key, kept in truth.items() if owner_of(kept) in modest and cache.get(key) != kept} == set()
        assert (cache.values().keys(), cache.left_out) == (truth.keys(), 0)


def test_what_the_api_server_does_not_have_is_gone_until_something_newer_is_heard_of_it() -> None:
    cache = make()
    cache.put(State("a", 5, b"5"))
    cache.absent("a")
    cache.absent("never seen")
    assert (cache.get("a"), cache.version("a"), len(cache)) == (None, None, 0)
    cache.put(State("a", 5, b"5"))
    assert cache.get("a") is None
    cache.put(State("a", 9, b"9"))
    assert cache.get("a") == 9


@dataclass
class Server:
    """The truth, and what it may still send."""

    version: int = 0
    objects: dict[str, State] = field(default_factory=dict)
    unsent: list[tuple[str, State]] = field(default_factory=list)
    sent: list[tuple[str, State]] = field(default_factory=list)

    def put(self, name: str) -> None:
        self.version += 1
        self.objects[name] = State(name, self.version, str(self.version).encode())
        self.unsent.append(("put", self.objects[name]))

    def delete(self, name: str) -> None:
        if name in self.objects:
            self.version += 1
            del self.objects[name]
            self.unsent.append(("drop", State(name, self.version)))

    def values(self) -> dict[str, int]:
        return {name: one.version for name, one in self.objects.items()}


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(NAMES)),
        st.tuples(st.just("delete"), st.sampled_from(NAMES)),
        st.tuples(st.just("events"), st.integers(0, 6)),
        st.tuples(st.just("again"), st.integers(0, 20)),
        st.tuples(st.just("bookmark"), st.none()),
        st.tuples(st.just("lost"), st.none()),
        st.tuples(st.just("pages"), st.integers(0, 4)),
        st.tuples(st.just("get"), st.sampled_from(NAMES)),
    ),
    max_size=60,
)


@given(STEPS, st.randoms(use_true_random=False))
def test_after_any_lists_events_errors_bookmarks_duplicates_and_disorder_it_has_what_the_server_has(
    steps: list[tuple[str, Any]], chance: Any
) -> None:
    server, index = Server(), Index()
    cache = make(changed=index.changed)
    snapshots: list[tuple[int, list[State]]] = []
    for step, argument in steps:
        if step == "put":
            server.put(argument)
        elif step == "delete":
            server.delete(argument)
        elif step == "events":
            deliver(cache, server, argument, chance)
        elif step == "again" and server.sent:
            tell(cache, server.sent[argument % len(server.sent)])
        elif step == "bookmark":
            deliver(cache, server, len(server.unsent), chance)
            cache.caught_up(server.version)
        elif step == "lost":
            server.unsent.clear()  # the watch broke and its version expired: only a list helps
            relist(cache, server, server.version, list(server.objects.values()))
        elif step == "pages":  # a list that breaks off, or that ends after events and other lists
            snapshots.append((server.version, list(server.objects.values())))
            for one in snapshots[-1][1][:argument]:
                cache.put(one)
        elif step == "get":
            get(cache, server, argument)
        assert index.values == dict(cache.values())
    if snapshots and snapshots[-1][0] == server.version:
        relist(cache, server, *snapshots[-1])
    deliver(cache, server, len(server.unsent), chance)
    assert dict(cache.values()) == index.values == server.values()


def deliver(cache: Cache[int], server: Server, count: int, chance: Any) -> None:
    """The next events, in any order, some of them twice."""
    events, server.unsent = server.unsent[:count], server.unsent[count:]
    server.sent += events
    mixed = events + [one for one in events if chance.random() < 0.3]
    chance.shuffle(mixed)
    for one in mixed:
        tell(cache, one)


def get(cache: Cache[int], server: Server, name: str) -> None:
    """What a GET beside the watch tells."""
    if name in server.objects:
        cache.put(server.objects[name])
    else:
        cache.absent(name)


def tell(cache: Cache[int], event: tuple[str, State]) -> None:
    kind, state = event
    (cache.put if kind == "put" else cache.drop)(state)


def relist(cache: Cache[int], server: Server, version: int, objects: list[State]) -> None:
    for one in objects:
        cache.put(one)
    cache.listed(version, {one.name for one in objects})
    server.unsent = [(kind, one) for kind, one in server.unsent if one.version > version]
