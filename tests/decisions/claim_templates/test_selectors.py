"""Selectors as CEL: what is no letter of ASCII, or could end a string, is escaped."""

import pytest

from webhook.decisions.claim_templates.selectors import ByProduct, ByUuid, literal


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("NVIDIA H20", "'NVIDIA H20'"),
        ("it's", r"'it\'s'"),
        ("a\\", r"'a\\'"),
        ('"', "'\"'"),
        ("a\nb\x00", r"'a\U0000000ab\U00000000'"),
        ("\u00e9\U0001f600", r"'\U000000e9\U0001f600'"),
    ],
)
def test_a_text_is_one_string_of_cel(text: str, written: str) -> None:
    assert literal(text) == written


def test_each_attribute_is_asked_for_before_it_is_used() -> None:
    for selector in (ByProduct("H", ("0000:01:00.0",), ("GPU-1",)), ByUuid(("GPU-1",))):
        for line in selector.expression.split(" &&\n"):
            guard, use = line.split(" && ")
            key, _, domain = guard.partition(" in ")
            assert f"{domain}.{key.strip(chr(39))}" in use
