"""Quantities, judged by the parser of the official client."""

from contextlib import suppress
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubernetes.utils import quantity as official

from webhook.words.errors import FormatError
from webhook.words.quantity import parse_count, parse_quantity

SUFFIXES = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]

numbers = st.one_of(
    st.integers(-(10**17), 10**17).map(str),
    st.decimals(-(10**6), 10**6, places=3, allow_nan=False, allow_infinity=False).map(lambda number: f"{number:f}"),
)


@given(numbers, st.sampled_from(SUFFIXES))
def test_a_quantity_is_what_the_official_client_reads(number: str, suffix: str) -> None:
    assert parse_quantity(number + suffix, source="x") == official.parse_quantity(number + suffix)  # type: ignore[no-untyped-call]


@given(st.integers(-(10**6), 10**6), st.integers(-12, 12), st.sampled_from(["e", "E"]))
def test_an_exponent_is_read_as_in_decimal_notation(number: int, exponent: int, letter: str) -> None:
    assert parse_quantity(f"{number}{letter}{exponent}", source="x") == Decimal(number).scaleb(exponent)


@given(st.integers(0, 10**15))
def test_a_number_is_read_as_its_text(number: int) -> None:
    assert parse_quantity(number, source="x") == number


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8Gi", 8589934592),
        ("1.5Gi", 1610612736),
        ("500m", Decimal("0.5")),
        (".5", Decimal("0.5")),
        ("5.", 5),
        ("+3", 3),
    ],
)
def test_common_spellings_are_read(text: str, value: Decimal) -> None:
    assert parse_quantity(text, source="x") == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        " 1",
        "1 ",
        "1 Gi",
        "1gi",
        "1K",
        "1GB",
        "--1",
        "1e",
        "1e1.5",
        "e5",
        "Gi",
        ".",
        "0x10",
        "1_000",
        "\u0661",
        "nan",
        "1\n",
    ],
)
def test_other_texts_are_no_quantity(text: str) -> None:
    with pytest.raises(FormatError, match=r'^somewhere: expected a quantity such as "8Gi", found '):
        parse_quantity(text, source="somewhere")


@given(st.text(max_size=12))
def test_any_text_is_a_quantity_or_a_format_error(text: str) -> None:
    with suppress(FormatError):
        assert parse_quantity(text, source="x").is_finite()


@pytest.mark.parametrize(
    ("value", "count"), [("4", 4), (5, 5), ("6.0", 6), (7.0, 7), ("1k", 1000), ("2000m", 2), ("0", 0)]
)
def test_a_count_is_a_whole_number(value: str | float, count: int) -> None:
    assert parse_count(value, source="x") == count


@pytest.mark.parametrize(
    "value", ["-1", -2, "1.5", 2.5, "1500m", "", "many", "\u0664", "1e-1", float("inf"), float("nan")]
)
def test_what_is_no_whole_number_is_no_count(value: str | float) -> None:
    with pytest.raises(FormatError, match=r'^x: expected a whole number such as "4", found '):
        parse_count(value, source="x")
