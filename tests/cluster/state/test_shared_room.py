"""A full cache keeps less of the objects of the owner that fills it, and all of those of the others."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.cluster.state.test_cache import Index, State, Told
from webhook.cluster.state.cache import Cache, Document, Limit
from webhook.cluster.state.owners import Owners, Shortening

MOST = 6400
SHORT = 3
"""What is kept of a value that is shortened. The weight of a value is the value."""


def read(document: Document, _: str, before: int | None) -> int:
    value: Any = json.loads(bytes(document))
    assert isinstance(value, int)
    return before if before == value else value


def owner(name: str) -> str:
    return name.partition("/")[0]


def make(told: Told | None = None, index: Index | None = None) -> Cache[int]:
    return Cache(
        "things",
        read,
        lambda value: value,
        limit=Limit(objects=1000, bytes=MOST),
        shortening=Shortening(owner, lambda value: min(value, SHORT)),
        tell=(told or Told()).lines.append,
        clock=lambda: 0.0,
        changed=index.changed if index else None,
    )


def put(cache: Cache[int], version: int, name: str, value: int) -> bool:
    return cache.put(State(name, version, str(value).encode()))


def test_the_objects_of_the_largest_owner_are_short_when_there_is_no_room() -> None:
    told = Told()
    cache = make(told)
    for number in range(6):
        assert put(cache, number + 1, f"large/{number}", 1000)
    assert put(cache, 10, "large/6", 1000)
    assert put(cache, 11, "large/7", 1000)
    assert (cache.get("large/5"), cache.get("large/6"), cache.get("large/7")) == (1000, SHORT, SHORT)
    assert (cache.left_out, cache.is_incomplete, cache.shortened) == (0, False, 2)
    said = "things: expected at most 6400 bytes, found more; those of large take the most, so of these only what has to"
    assert told.lines == [f"{said} be kept is kept"]


def test_another_owner_gets_room_from_the_largest_the_newest_objects_first() -> None:
    index = Index()
    cache = make(index=index)
    for number in range(6):
        put(cache, number + 1, f"large/{number}", 1000)
    assert put(cache, 10, "small/0", 900)
    assert (
        cache.values() == index.values == {**{f"large/{n}": 1000 for n in range(5)}, "large/5": SHORT, "small/0": 900}
    )


def test_a_value_is_whole_again_when_it_changes_and_there_is_room() -> None:
    cache = make()
    for number in range(7):
        put(cache, number + 1, f"large/{number}", 1000)
    assert cache.get("large/6") == SHORT
    cache.drop(State("large/0", 20))
    put(cache, 21, "large/6", 1001)
    assert cache.get("large/6") == 1001


def test_a_change_that_is_shortened_to_the_same_is_told_to_no_index() -> None:
    index = Index()
    cache = make(index=index)
    for number in range(7):
        put(cache, number + 1, f"large/{number}", 1000)
    calls = index.calls
    put(cache, 20, "large/6", 1001)
    assert (index.calls, cache.version("large/6")) == (calls, 20)


def test_an_owner_is_named_again_after_the_next_list() -> None:
    told = Told()
    cache = make(told)
    names = {f"large/{number}" for number in range(8)}
    for number, name in enumerate(sorted(names), 1):
        put(cache, number, name, 1000)
    cache.listed(9, names)
    put(cache, 10, "large/8", 1000)
    assert len(told.lines) == 2


def test_where_nothing_can_be_shortened_what_is_beyond_is_left_out() -> None:
    cache = make()
    for number in range(2200):
        put(cache, number + 1, f"{number}/a", 2)
    assert cache.left_out > 0
    assert cache.is_incomplete
    assert cache.weight <= MOST


STATES = st.lists(
    st.tuples(st.sampled_from(("a", "b", "c")), st.integers(0, 20), st.integers(0, 3000), st.booleans()), max_size=120
)


@given(STATES)
def test_an_owner_that_never_had_its_equal_share_keeps_everything_whole(
    states: list[tuple[str, int, int, bool]],
) -> None:
    index = Index()
    cache = make(index=index)
    truth: dict[str, int] = {}
    modest = set("abc")
    for version, (who, number, value, is_deletion) in enumerate(states, 1):
        name = f"{who}/{number}"
        if is_deletion:
            cache.drop(State(name, version))
            truth.pop(name, None)
        else:
            truth[name] = value
            put(cache, version, name, value)
        weights = {each: sum(len(key) + kept for key, kept in truth.items() if owner(key) == each) for each in "abc"}
        modest -= {each for each, weight in weights.items() if weight >= MOST // 4}
        kept = cache.values()
        assert kept == index.values
        assert cache.weight == sum(len(key) + value for key, value in kept.items()) <= MOST
        assert {key: value for key, value in kept.items() if owner(key) in modest and value > SHORT} == {
            key: value for key, value in truth.items() if owner(key) in modest and value > SHORT
        }


def test_owners_are_told_by_size_and_small_ones_are_left_out() -> None:
    owners = Owners(owner)
    for name, weight in (("b/0", 50), ("a/0", 30), ("a/1", 40), ("c/0", 5)):
        owners.count(name, weight)
    assert list(owners.by_size(["c/0", "b/0", "a/1", "a/0"], 10)) == ["a/1", "a/0", "b/0"]
    owners.count("a/1", -40)
    assert list(owners.by_size(["b/0", "a/0"], 10)) == ["b/0", "a/0"]
    assert owners.is_largest("a/0", 20)
    assert not owners.is_largest("a/0", 19)
