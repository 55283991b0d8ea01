"""Text from outside, escaped and bounded by one rule."""

import json
import unicodedata

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.objects.event import NOTE_BYTES, shortened
from webhook.words.errors import FOUND_LIMIT, shorten
from webhook.words.outcome import WARNING_LIMIT, fit
from webhook.words.printable import fitted, printable, printable_json

texts = st.one_of(
    st.text(st.characters(), max_size=200),
    st.text(
        st.sampled_from("a\x00\x1b\n\x7f\x85\x9b\u200b\u200d\u2028\u2029\u202e\u2066\ufeff\ud800\u3164\ufe0f"),
        max_size=200,
    ),
    st.text(min_size=2000, max_size=2100),
)
limits = st.integers(64, 2048)


def hidden(text: str) -> list[str]:
    """The characters that a terminal obeys, or does not show."""
    return [one for one in text if unicodedata.category(one) in {"Cc", "Cf", "Cs", "Zl", "Zp", "Cn", "Co"}]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("train-0", "train-0"),
        ("中文 né", "中文 né"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\x9b31m", "\\x9b31m"),
        ("a\nb\x7f", "a\\nb\\x7f"),
        ("\u202egnp", "\\u202egnp"),
        ("a\u200bb\ufeff", "a\\u200bb\\ufeff"),
        ("\u2028\u2029", "\\u2028\\u2029"),
        ("\ud83d", "\\ud83d"),
        ("\u3164\U000e0100", "\\u3164\\U000e0100"),
        ("C:\\n", "C:\\n"),
    ],
)
def test_what_is_not_shown_is_escaped_and_letters_of_any_language_stay(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(texts)
def test_no_control_character_survives_and_escaping_twice_changes_nothing(text: str) -> None:
    shown = printable(text)
    assert hidden(shown) == []
    assert printable(shown) == shown
    shown.encode()


@pytest.mark.parametrize("indent", [0, 2])
@given(text=st.text(max_size=200))
def test_json_for_a_terminal_has_the_same_value_and_nothing_that_a_terminal_obeys(indent: int, text: str) -> None:
    value = {text: [text, "\x7f\x9b31m\u202e\u2028\U000e0100 né 中文"]}
    written = printable_json(msgspec.json.format(msgspec.json.encode(value), indent=indent).decode())
    assert json.loads(written) == value
    assert hidden(written.replace("\n", "")) == []
    assert "né 中文" in written


@given(texts, limits)
def test_what_is_fitted_is_bounded_printable_and_stays_as_it_is(text: str, limit: int) -> None:
    shown = fitted(text, limit)
    assert len(shown) <= limit
    assert hidden(shown) == []
    assert fitted(shown, limit) == shown


@given(texts)
def test_warnings_notes_of_events_and_quotes_in_messages_follow_the_same_rule(text: str) -> None:
    for shown in (fit(text), shortened(text), shorten(text)):
        assert hidden(shown) == []
    assert len(fit(text)) <= WARNING_LIMIT
    assert len(shortened(text).encode()) <= NOTE_BYTES
    assert len(shorten(text)) <= FOUND_LIMIT + len('""... (2000000 characters)')


def test_what_is_cut_says_how_long_it_was() -> None:
    assert fitted("a" * 1024) == "a" * 1024
    shown = fitted("a" * 2_500_000)
    assert shown.startswith("a" * 900)
    assert shown.endswith("a... (2500000 characters)")


def test_only_as_much_is_escaped_as_is_shown() -> None:
    assert fitted("\x1b" * 2_500_000, 64) == "\\x1b" * 6 + "... (2500000 characters)"
