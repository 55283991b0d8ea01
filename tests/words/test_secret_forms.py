"""Secrets of each public kind are found by their form; what says nothing secret stays."""

import random
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.words.secret_forms import HIDDEN, may_hold_secret, without_secrets

LETTERS = string.ascii_letters + string.digits


def drawn(length: int, letters: str = LETTERS) -> str:
    """Characters that are no real secret, and the same in each run."""
    return "".join(random.Random(length).choices(letters, k=length))


PRIVATE_KEY = f"-----BEGIN RSA PRIVATE KEY-----\n{drawn(64)}\n{drawn(64)}\n-----END RSA PRIVATE KEY-----"
KINDS = {
    "user of a URL": ("https://", f"alice:{drawn(12)}", "@host/path"),
    "token of a URL": ("git+https://", drawn(20), "@host.example/x"),
    "GitHub": ("", f"ghp_{drawn(36)}", ""),
    "GitHub, fine-grained": ("", f"github_pat_{drawn(22)}_{drawn(59)}", ""),
    "GitLab": ("", f"glpat-{drawn(20)}", ""),
    "Hugging Face": ("", f"hf_{drawn(34)}", ""),
    "Slack": ("", f"xoxb-{drawn(12, string.digits)}-{drawn(24)}", ""),
    "OpenAI": ("", f"sk-proj-{drawn(48)}", ""),
    "NVIDIA": ("", f"nvapi-{drawn(64)}", ""),
    "Google": ("", f"AIza{drawn(35)}", ""),
    "Amazon": ("", f"AKIA{drawn(16, string.ascii_uppercase + string.digits)}", ""),
    "npm": ("", f"npm_{drawn(36)}", ""),
    "Stripe": ("", f"sk_live_{drawn(24)}", ""),
    "Docker": ("", f"dckr_pat_{drawn(27)}", ""),
    "Vault": ("", f"hvs.{drawn(24)}", ""),
    "JSON Web Token": ("", f"eyJ{drawn(30)}.eyJ{drawn(60)}.{drawn(43)}", ""),
    "private key": ("", PRIVATE_KEY, ""),
    "private key, cut off": ("", PRIVATE_KEY[:80], ""),
    "pass=": ("pass=", "hunter2", ""),
    "pwd:": ("pwd: ", "hunter2", ""),
    "a password in capitals": ("DB_PASSWORD=", "hunter2", ""),
    "a passphrase in quotes": ("PASSPHRASE='", "correct horse battery", "'"),
    "a quote without its end": ("SECRET='", "correct horse battery", ""),
    "a word after token": ("token ", "hunter2", ""),
    "a bearer": ("Authorization: ", f"Bearer {drawn(30)}", ""),
    "an option": ("--api-key=", drawn(20), ""),
    "JSON": ('{"accessKey": "', "hunter2 staple", '"}'),
    "JSON in JSON": ('"{\\"password\\": \\"', "hunter2", '\\"}"'),
    "a variable": ('{"name": "HF_TOKEN", "value": "', "hunter2", '"}'),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_secret_of_each_kind_is_hidden_and_what_is_around_it_stays(kind: str) -> None:
    before, secret, after = KINDS[kind]
    found = without_secrets(f"see {before}{secret}{after} now")
    assert all(word not in found for word in secret.split())
    assert HIDDEN in found
    assert found.startswith(f"see {before.split('{')[0].rstrip(chr(92) + chr(39) + chr(34))}"[:6])
    assert without_secrets(found) == found


@pytest.mark.parametrize(
    "text",
    [
        "GPU-8d5b3c1e-2f60-4a7b-9c3d-0123456789ab,NVIDIA,97871,100:;",
        "https://example.com/a?b=c",
        "0/3 nodes are available: 1 node(s) had untolerated taint {key: value}. preemption: 0/3 nodes",
        "NCCL INFO Channel 00/24 : 0 1 2 3 4 5 6 7",
        "task-force hf_transfer npm_config sk-1",
        '{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"key": "hf"}}}',
        '{"serviceAccountToken": {"path": "token"}, "automountServiceAccountToken": true}',
        "compass north bypass",
        "aW5uZXIgZGF0YQ eyJ",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert without_secrets(text) == text


@given(st.text(alphabet=st.sampled_from("token=pass:\"\\' \n-BEGIN PRIVATEKYs@/ghp_eyJ."), max_size=300))
def test_what_was_hidden_once_stays_the_same(text: str) -> None:
    once = without_secrets(text)
    assert without_secrets(once) == once


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_with_a_secret_is_worth_a_look(kind: str) -> None:
    assert may_hold_secret("".join(KINDS[kind]))
    assert may_hold_secret("".join(KINDS[kind]).upper())
    assert not may_hold_secret("NCCL INFO Channel 00/24 : 0 1 2 3 4 5 6 7")


@given(st.text(alphabet=st.sampled_from(sorted({*"".join("".join(each) for each in KINDS.values())})), max_size=80))
def test_what_is_not_worth_a_look_holds_no_secret(text: str) -> None:
    assert may_hold_secret(text) or without_secrets(text) == text
