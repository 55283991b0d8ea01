"""The closed vocabulary of reasons."""

import pytest

from webhook.words.outcome import SENTENCES, Reason


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_has_a_sentence(reason: Reason) -> None:
    assert SENTENCES[reason].endswith(".")
    assert SENTENCES[reason][0].isupper()
