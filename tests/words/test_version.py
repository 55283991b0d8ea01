"""Versions of what surrounds us."""

import pytest

from webhook.words.errors import FormatError
from webhook.words.version import Version


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2.10.0", "2.10.0"),
        ("v2.10.0", "2.10.0"),
        ("1.33", "1.33.0"),
        ("v1.31.4+k3s1", "1.31.4"),
        ("v1.29.6-gke.1254000", "1.29.6"),
        ("1.30-eks-a", "1.30.0"),
        ("1.30.20261122120000", "1.30.0"),
    ],
)
def test_the_numbers_are_read_and_suffixes_do_not_count(text: str, shown: str) -> None:
    assert str(Version.parse(text, source="x")) == shown


@pytest.mark.parametrize(
    "text", ["", "2", "v", "latest", "two.ten", ".1.2", " 2.9", "v-2.9", "2." + "9" * 5000, "9" * 10 + ".1", "٢.٩"]
)
def test_other_texts_are_no_version(text: str) -> None:
    with pytest.raises(FormatError, match=r'^cluster: expected a version such as "2.10.0", found '):
        Version.parse(text, source="cluster")


def test_a_number_without_end_is_none() -> None:
    with pytest.raises(FormatError, match=r"\(5002 characters\)$"):
        Version.parse("2." + "9" * 5000, source="cluster")


def test_versions_are_compared_as_numbers() -> None:
    assert Version.parse("2.9", source="x") < Version.parse("2.10", source="x")
    assert Version.parse("2.10.0", source="x") == Version.parse("v2.10", source="x")
    assert Version.parse("2.10.1", source="x") > Version.parse("2.10.0", source="x")
