"""One object that is nested more deeply than a decoder goes hides no other."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.kube.nesting import MOST_LEVELS, decode, shallow

ANY = msgspec.json.Decoder()
leaves = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text()
values = st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=40)


class Items(msgspec.Struct):
    items: list[msgspec.Raw]


LIST = msgspec.json.Decoder(Items)


def nested(levels: int, inside: Any = 1) -> str:
    return "[" * levels + json.dumps(inside) + "]" * levels


@given(values)
def test_what_is_not_deep_stays_as_it_is(value: Any) -> None:
    document = json.dumps(value).encode()
    assert shallow(document) == document
    assert decode(ANY, document) == value


@given(values, st.integers(10_000, 20_000), st.booleans())
def test_beside_something_deep_all_else_is_read(value: Any, levels: int, ascii_only: bool) -> None:
    other = json.dumps(value, ensure_ascii=ascii_only)
    document = f'{{"items": [{other}, {{"deep": {nested(levels, "]]}}")}}}, {other}]}}'.encode()
    first, deep, last = (msgspec.json.decode(item) for item in decode(LIST, document).items)
    assert (first, last) == (value, value)
    for _ in range(MOST_LEVELS - 3):
        deep = deep["deep"] if isinstance(deep, dict) else deep[0]
    assert deep == ["nested too deep"]


NO_JSON = ("[" * 9000, "]" * 9000, '{"items": ' + "[" * 9000, nested(9000) + "]", '"' + "[" * 9000)


@pytest.mark.parametrize("document", NO_JSON)
def test_what_is_no_json_is_refused_as_such(document: str) -> None:
    with pytest.raises(msgspec.DecodeError, match=r"JSON|truncated"):
        decode(ANY, document.encode())


def test_brackets_in_texts_do_not_count() -> None:
    text = '"' + "[" * 9000 + '\\"' + "{" * 9000 + '\\\\"'
    assert shallow(text.encode()) == text.encode()


def test_a_decoder_goes_less_deep_than_a_claim_may() -> None:
    """Else none of this would be needed."""
    with pytest.raises(RecursionError, match="maximum recursion depth"):
        ANY.decode(nested(5000).encode())
