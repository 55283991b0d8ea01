"""Secrets of each public kind are found by their form; what says nothing secret stays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.words.secret_kinds import BY_SHAPE, CONTEXTS, EVERY_KIND, HARMLESS, HEX, KINDS, drawn, words
from webhook.words.secret_forms import HIDDEN, may_hold_secret, says_secret, without_secrets


@pytest.mark.parametrize("context", CONTEXTS)
def test_a_secret_of_each_kind_is_hidden_and_what_is_before_it_stays(subtests: pytest.Subtests, context: str) -> None:
    around = CONTEXTS[context]
    for kind, (before, secret, after) in EVERY_KIND.items():
        with subtests.test(kind):
            text = around.format(f"{before}{secret}{after}")
            found = without_secrets(text)
            assert words(secret)
            assert not [word for word in words(secret) if word in found]
            assert HIDDEN in found
            assert found.startswith(around.partition("{}")[0].partition("://")[0].replace("{{", "{")[:20])
            assert without_secrets(found) == found
            assert may_hold_secret(text)


def test_only_what_has_no_sign_of_its_own_takes_a_guess(subtests: pytest.Subtests) -> None:
    for kind, (before, secret, after) in EVERY_KIND.items():
        with subtests.test(kind):
            found = without_secrets(f"{before}{secret}{after}", guess=False)
            assert any(word in found for word in words(secret)) == (
                kind in BY_SHAPE and kind != "base64 of credentials"
            )


def test_what_is_no_secret_stays(subtests: pytest.Subtests) -> None:
    for text in HARMLESS:
        with subtests.test(text):
            assert without_secrets(text) == text


def test_a_digest_stays_after_its_name_alone() -> None:
    digest = drawn(64, HEX)
    assert without_secrets(f"image@sha256:{digest}") == f"image@sha256:{digest}"
    assert without_secrets(f"image@sha256:{digest}0") == f"image@sha256:{HIDDEN}"
    assert without_secrets(digest) == HIDDEN


@pytest.mark.parametrize("name", ["TOKEN", "db-password", "example.com/api-key", "WANDB_API_KEY", "x_auth", "İtoken"])
def test_a_name_says_that_its_value_is_a_secret(name: str) -> None:
    assert says_secret(name)


@pytest.mark.parametrize("name", ["topologyKey", "author", "compass", "key", "leaderworkerset.sigs.k8s.io/group-key"])
def test_another_name_says_nothing(name: str) -> None:
    assert not says_secret(name)


@given(st.text(alphabet=st.sampled_from("token=pass:\"\\' \n-BEGIN PRIVATEKYs@/ghp_eyJ.|>,k"), max_size=300))
def test_what_was_hidden_once_stays_the_same(text: str) -> None:
    once = without_secrets(text)
    assert without_secrets(once) == once


def test_a_text_without_a_secret_is_not_worth_a_look() -> None:
    assert not may_hold_secret("NCCL INFO Channel 00/24 : 0 1 2 3 4 5 6 7")
    assert not may_hold_secret("GPU-8d5b3c1e-2f60-4a7b-9c3d-0123456789ab train-7d9f8b6c5d-x2k4q")


@given(st.text(alphabet=st.sampled_from(sorted({*"".join("".join(each) for each in KINDS.values())})), max_size=80))
def test_what_is_not_worth_a_look_holds_no_secret(text: str) -> None:
    assert may_hold_secret(text) or without_secrets(text) == text


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    [
        *(
            "token",
            "token ",
            "token=a,",
            "token_",
            "name: token value: ",
            "--token ",
            "api_key",
            'token=\\\\"',
            "\\",
            "cookie:=",
        ),
        *(
            "://a:",
            ":a",
            "-u a",
            "-----BEGIN PRIVATE KEY",
            "A1",
            "A1b2" * 5 + " ",
            "sk-",
            "eyJ",
            "a.",
            "\n token: a",
            "'",
        ),
    ],
)
def test_a_long_text_of_beginnings_is_searched_once(piece: str) -> None:
    """Where a rule looked again from each of its places, this took minutes."""
    text = piece * (200_000 // len(piece))
    found = without_secrets(text)
    assert without_secrets(found) == found
