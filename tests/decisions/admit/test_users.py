"""Peers of different users are warned of: NCCL's shared memory has mode 0600."""

from typing import Any

import pytest

from tests.judge import judge
from tests.pods import ALL_ALLOWED, container, pod


def worker(name: str, user: int | None = None, gpus: int | None = 1) -> dict[str, Any]:
    fields: dict[str, Any] = {} if user is None else {"securityContext": {"runAsUser": user}}
    return container(name, gpus, **fields)


def warned(*containers: dict[str, Any], profile: str = "pod-peers", user: int | None = None) -> list[str]:
    fields: dict[str, Any] = {} if user is None else {"securityContext": {"runAsUser": user, "fsGroup": 2000}}
    manifest = pod(*containers, annotations={"gpu.topology/profile": profile}, **fields)
    outcome, _ = judge(manifest, ALL_ALLOWED)
    return [warning for warning in outcome.warnings if warning.startswith("GT56")]


@pytest.mark.parametrize(
    ("of_pod", "first", "second", "code"),
    [
        (None, 1000, 2000, "GT560"),
        (None, 0, 1000, "GT560"),
        (1000, None, 2000, "GT560"),
        (None, 1000, None, "GT561"),
        (None, None, 1000, "GT561"),
        (None, 0, None, "GT561"),
        (None, None, None, ""),
        (1000, None, None, ""),
        (1000, 1000, None, ""),
        (1000, 2000, 2000, ""),
        (None, 0, 0, ""),
    ],
)
def test_containers_of_different_users_are_warned_of(
    of_pod: int | None, first: int | None, second: int | None, code: str
) -> None:
    found = warned(worker("prefill", first), worker("decode", second), user=of_pod)
    assert [warning.partition(":")[0] for warning in found] == ([code] if code else [])


def test_the_warning_names_both_with_their_users() -> None:
    (warning,) = warned(worker("prefill", 1000), worker("decode", 2000), profile="node-peers")
    assert warning.endswith("prefill runs as user 1000, decode as user 2000")


def test_two_users_count_more_than_an_unknown_one() -> None:
    (warning,) = warned(worker("a", 1000), worker("b"), worker("c", 2000))
    assert warning.startswith("GT560")


def test_without_peers_users_do_not_matter() -> None:
    assert warned(worker("a", 1000, 2), worker("b", 2000, 2), profile="exclusive") == []


def test_a_container_without_gpus_may_be_another_user() -> None:
    assert warned(worker("a", 1000, 2), worker("logs", 2000, None)) == []
