"""The written form of traffic: read as it was written; and of what others write, nothing is believed that cannot be."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hardware.traffic.windows import AT, both, steady
from webhook.hardware.traffic.model import (
    MOST_CARDS,
    MOST_CHARACTERS,
    Traffic,
    Window,
    format_traffic,
    parse_traffic,
    pod_traffic,
    unused,
)
from webhook.words.errors import FormatError

SOURCE = "Lease gpu-topology/gpu-topology-n1"


def good() -> dict[str, Any]:
    windows = [
        {"seconds": 60, "nvlink": 0, "pcie": 1, "utilization": 0.9},
        {"seconds": 315, "nvlink": 5, "pcie": 2, "utilization": 0.1},
    ]
    return {"at": "2026-11-23T03:20:10Z", "cards": {"GPU-a": windows}}


def refused(document: Any) -> str:
    with pytest.raises(FormatError, match=SOURCE) as error:
        parse_traffic(document if isinstance(document, str) else json.dumps(document), SOURCE)
    return str(error.value)


@st.composite
def traffics(draw: st.DrawFn) -> Traffic:
    number, share = st.none() | st.integers(0, 10**15), st.none() | st.sampled_from([0.0, 0.5, 1.0])
    window = st.builds(Window, seconds=st.integers(10, 86400), nvlink=number, pcie=number, utilization=share)
    uuid = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=40)
    cards = draw(st.dictionaries(uuid, st.lists(window, max_size=8).map(tuple), max_size=4))
    moment = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=draw(st.integers(0, 10**8)))
    return Traffic(at=moment, cards=cards)


@given(traffics())
def test_what_was_written_is_read(traffic: Traffic) -> None:
    assert parse_traffic(format_traffic(traffic), SOURCE) == traffic


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda each: (
            st.lists(each)
            | st.dictionaries(
                st.sampled_from(["at", "seconds", "cards", "GPU-a", "nvlink", "pcie", "utilization"]), each
            )
        ),
        max_leaves=20,
    )
)
def test_no_document_is_more_than_refused(document: Any) -> None:
    text = json.dumps(document)
    try:
        found = parse_traffic(text, SOURCE)
    except FormatError:
        return
    unused(found, tuple(found.cards), AT)
    pod_traffic(found, tuple(found.cards), AT)


@given(st.text())
def test_no_text_is_more_than_refused(text: str) -> None:
    with pytest.raises(FormatError, match=SOURCE):
        parse_traffic(text, SOURCE)


def test_the_form_is_the_documented_one() -> None:
    text = format_traffic(both(steady(lengths=(60,), pcie=10)))
    one = '[{"seconds":60,"nvlink":0,"pcie":600,"utilization":1.0}]'
    assert text == f'{{"at":"2026-11-23T03:20:10Z","cards":{{"GPU-a":{one},"GPU-b":{one}}}}}'


def test_a_good_document_is_read() -> None:
    found = parse_traffic(json.dumps(good()), SOURCE)
    assert found.cards["GPU-a"][1] == Window(seconds=315, nvlink=5, pcie=2, utilization=0.1)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("at",), "yesterday"),
        (("at",), "2026-11-23T03:20:10"),
        (("cards",), {f"GPU-{number}": [] for number in range(MOST_CARDS + 1)}),
        (("cards",), {"": []}),
        (("cards",), {"GPU-\n": []}),
        (("cards",), {"GPU-a\n": []}),
        (("cards",), {"G" * 81: []}),
        (("cards", "GPU-a"), [{"seconds": 60}] * 17),
        (("cards", "GPU-a"), [{}]),
        (("cards", "GPU-a", 0, "seconds"), 0),
        (("cards", "GPU-a", 0, "seconds"), 10**6),
        (("cards", "GPU-a", 0, "nvlink"), -1),
        (("cards", "GPU-a", 0, "nvlink"), 2**63),
        (("cards", "GPU-a", 0, "nvlink"), "1"),
        (("cards", "GPU-a", 0, "pcie"), 10**400),
        (("cards", "GPU-a", 0, "utilization"), 1.1),
        (("cards", "GPU-a", 0, "utilization"), -0.1),
    ],
)
def test_what_cannot_be_is_refused(path: tuple[str | int, ...], value: Any) -> None:
    document: Any = good()
    place = document
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    assert "traffic of GPUs in JSON" in refused(document)


def test_a_text_that_is_too_long_is_not_even_looked_at() -> None:
    assert "at most 16384 characters" in refused("[" * (MOST_CHARACTERS + 1))


def test_brackets_within_brackets_are_refused() -> None:
    assert "JSON" in refused("[" * MOST_CHARACTERS)


@pytest.mark.parametrize("path", [(), ("cards", "GPU-a", 0)])
def test_members_of_other_names_may_be_nested_to_any_depth(path: tuple[str | int, ...]) -> None:
    document: Any = good()
    place = document
    for name in path:
        place = place[name]
    place["more"] = {"deep": "HERE"}
    text = json.dumps(document)
    deep = "[" * (MOST_CHARACTERS - len(text))
    assert 'found "expected JSON, found it nested too deep"' in refused(text.partition('"HERE"')[0] + deep)


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
def test_the_first_and_the_last_year_are_times_like_others(at: str) -> None:
    found = parse_traffic(json.dumps({**good(), "at": at}), SOURCE)
    assert unused(found, ("GPU-a", "GPU-b"), AT) is None
    assert (pod_traffic(found, ("GPU-a",), AT) is None) == (at < "2026")


def test_all_cards_that_an_agent_reads_fit_with_all_windows() -> None:
    windows = steady(nvlink=450e9, pcie=60e9, busy=0.951)
    cards = {f"GPU-00000000-0000-0000-0000-{number:012d}": windows for number in range(MOST_CARDS)}
    text = format_traffic(Traffic(at=AT, cards=cards))
    assert len(text) < 0.85 * MOST_CHARACTERS
    assert parse_traffic(text, SOURCE).cards == cards
