"""The value of ``gpu.topology/injected``."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.words.choices import Profile
from webhook.words.errors import FormatError
from webhook.words.mark import Mark


@given(st.from_regex(r"[0-9]+\.[0-9]+\.[0-9]+([a-z0-9.+-]*)", fullmatch=True), st.sampled_from(list(Profile)))
def test_a_mark_is_read_as_it_was_written(version: str, profile: Profile) -> None:
    mark = Mark(version, profile)
    assert Mark.parse(mark.format()) == mark


def test_a_mark_is_written_as_documented() -> None:
    assert Mark("0.1.0", Profile.POD_PEERS).format() == "0.1.0 pod-peers"


@pytest.mark.parametrize(
    "text", ["", "0.1.0", "exclusive", " exclusive", "0.1.0 ", "0.1.0 best", "0.1.0  exclusive", "a b c"]
)
def test_another_text_is_no_mark(text: str) -> None:
    wanted = '^annotation gpu.topology/injected: expected a version and a profile such as "0.1.0 exclusive", found '
    with pytest.raises(FormatError, match=wanted):
        Mark.parse(text)
