"""Each version of HAMi counts containers in its own way; all of them are read alike."""

import pytest

from tests.decisions.allocation.pods import A, B, C, Container, given, pod, spelled
from webhook.decisions.allocation.reader import read_allocation
from webhook.words import names

VERSIONS = ("2.5", "2.6", "2.7 to 2.8.3", "2.9.0", "2.10.0", "2.10 as intended")

# A pod; what each version writes for it, in the order above; who got what.
TABLE: list[tuple[str, list[Container], tuple[str, ...], tuple[dict[str, list[str]], ...]]] = [
    (
        "app[2]",
        pod(app=(2,)),
        ("A:B:;", "A:B:;", "A:B:;", "A:B:;", "A:B:;", "A:B:;"),
        ({"app-0": [A, B]},) * 6,
    ),
    (
        "app[2,0]",
        pod(app=(2, 0)),
        ("A:B:;,,0,0:;", "A:B:;;", "A:B:;;", "A:B:;;", "A:B:;", "A:B:;;"),
        ({"app-0": [A, B]},) * 6,
    ),
    (
        "app[0,2]",
        pod(app=(0, 2)),
        ("A:B:;", "A:B:;", ";A:B:;", ";A:B:;", "A:B:;", ";A:B:;"),
        ({"app-1": [A, B]},) * 6,
    ),
    (
        "app[0,2,0]",
        pod(app=(0, 2, 0)),
        ("A:B:;;,,0,0:;", ";A:B:;;", ";A:B:;;", ";A:B:;;", "A:B:;", ";A:B:;;"),
        ({"app-1": [A, B]},) * 6,
    ),
    (
        "init[0] + app[2]",
        pod(init=(0,), app=(2,)),
        ("A:B:;", "A:B:;", "A:B:;", ";A:B:;", "A:B:;", ";A:B:;"),
        ({"app-0": [A, B]},) * 6,
    ),
    (
        "init[0,0] + app[2]",
        pod(init=(0, 0), app=(2,)),
        ("A:B:;", "A:B:;", "A:B:;", ";;A:B:;", "A:B:;", ";;A:B:;"),
        ({"app-0": [A, B]},) * 6,
    ),
    (
        "init[1] + app[2]",
        pod(init=(1,), app=(2,)),
        ("A:B:;", "A:B:;", "A:B:;", "A:;B:C:;", "A:;B:C:;", "A:;B:C:;"),
        ({"app-0": [A, B]},) * 3 + ({"init-0": [A], "app-0": [B, C]},) * 3,
    ),
]

CASES = [
    pytest.param(containers, value, expected, id=f"{name} by {version}")
    for name, containers, values, results in TABLE
    for version, value, expected in zip(VERSIONS, values, results, strict=True)
]


@pytest.mark.parametrize(("containers", "value", "expected"), CASES)
def test_every_version_of_hami_gives_the_same_gpus_to_the_same_container(
    containers: list[Container], value: str, expected: dict[str, list[str]]
) -> None:
    annotations = {names.HAMI_DEVICES_ALLOCATED: spelled(value)}
    allocation = read_allocation(annotations, family="hami", holder="pod team-a/train")
    assert given(allocation, containers) == expected
