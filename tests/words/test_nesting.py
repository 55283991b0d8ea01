"""One object that is nested more deeply than a decoder goes hides no other."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.words.nesting import MOST_LEVELS, decode, decode_answer, shallow

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
    assert decode(ANY, document) == decode_answer(ANY, document) == value


@given(values, st.integers(10_000, 20_000), st.booleans())
def test_beside_something_deep_all_else_is_read(value: Any, levels: int, ascii_only: bool) -> None:
    other = json.dumps(value, ensure_ascii=ascii_only)
    document = f'{{"items": [{other}, {{"deep": {nested(levels, "]]}}")}}}, {other}]}}'.encode()
    first, deep, last = (msgspec.json.decode(item) for item in decode_answer(LIST, document).items)
    assert (first, last) == (value, value)
    for _ in range(MOST_LEVELS - 3):
        deep = deep["deep"] if isinstance(deep, dict) else deep[0]
    assert deep == ["nested too deep"]


NO_JSON = ("[" * 9000, "]" * 9000, '{"items": ' + "[" * 9000, nested(9000) + "]", '"' + "[" * 9000)


@pytest.mark.parametrize("document", NO_JSON)
def test_what_is_no_json_is_refused_as_such(document: str) -> None:
    with pytest.raises(msgspec.DecodeError, match=r"JSON|truncated"):
        decode_answer(ANY, document.encode())
    with pytest.raises(msgspec.DecodeError, match=r"JSON|truncated"):
        decode(ANY, document)


@pytest.mark.parametrize("document", [b'"\xff"', b'{"\xff": 1}', b'"\xed\xa0\x80"'])
def test_what_is_no_utf8_is_refused_as_no_json(document: bytes) -> None:
    for read in (decode, decode_answer):
        with pytest.raises(msgspec.DecodeError, match="utf-8"):
            read(ANY, document)


def test_a_text_that_is_no_unicode_is_refused_as_no_json() -> None:
    with pytest.raises(msgspec.DecodeError, match="surrogates"):
        decode(ANY, '"\ud800"')


def test_what_is_read_as_a_whole_is_never_cut() -> None:
    with pytest.raises(msgspec.DecodeError, match="nested too deep"):
        decode(ANY, nested(9000))


def test_brackets_in_texts_do_not_count() -> None:
    text = '"' + "[" * 9000 + '\\"' + "{" * 9000 + '\\\\"'
    assert shallow(text.encode()) == text.encode()


def test_a_decoder_goes_less_deep_than_a_claim_may() -> None:
    """Else none of this would be needed."""
    with pytest.raises(RecursionError, match="maximum recursion depth"):
        ANY.decode(nested(5000).encode())
