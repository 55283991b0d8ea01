"""Which tests are near a change, and in which order."""

import pytest

from tests.near import House, main, read_house

IMPORTS = {
    "webhook/cli/main.py": {"webhook/words/names.py"},
    "tests/words/test_names.py": {"webhook/words/names.py"},
    "tests/pods.py": {"webhook/words/names.py"},
    "tests/cli/test_inject.py": {"tests/pods.py", "webhook/cli/main.py"},
    "tests/cli/test_bind.py": {"tests/pods.py", "webhook/cli/main.py", "tests/judge.py"},
    "tests/programs/test_log.py": {"webhook/words/names.py"},
    "tests/decisions/admit/conftest.py": {"tests/judge.py"},
    "tests/workflows/test_workflows.py": {"tests/chart/helm.py"},
}
TEXTS = {
    **dict.fromkeys(IMPORTS, ""),
    "webhook/words/names.py": "",
    "tests/judge.py": "",
    "tests/cli/test_usage.py": "",
    "tests/certs/conftest.py": "",
    "tests/certs/test_rounds.py": "",
    "tests/chart/helm.py": 'CHART = ROOT / "chart"',
    "tests/decisions/admit/test_golden_pods.py": 'CASES = ROOT / "cases" / "pods"',
    "tests/workflows/test_workflows.py": 'SCRIPT = ".ci/run"',
}
HOUSE = House(IMPORTS, TEXTS)
INJECT, BIND, USAGE = "tests/cli/test_inject.py", "tests/cli/test_bind.py", "tests/cli/test_usage.py"
NAMES, LOG = "tests/words/test_names.py", "tests/programs/test_log.py"
GOLDEN, ROUNDS, WORKFLOWS = (
    "tests/decisions/admit/test_golden_pods.py",
    "tests/certs/test_rounds.py",
    "tests/workflows/test_workflows.py",
)


@pytest.mark.parametrize(
    ("changed", "ranked"),
    [
        ("webhook/words/names.py", {NAMES: 1, LOG: 1, INJECT: 2, BIND: 2}),
        ("webhook/programs/log.py", {LOG: 2}),
        ("webhook/cli/main.py", {INJECT: 1, BIND: 1, USAGE: 2}),
        ("webhook/cli/status/new.py", {USAGE: 2, INJECT: 2, BIND: 2}),
        ("webhook/entry.py", {}),
        ("certs/objects.py", {ROUNDS: 2}),
        ("tests/pods.py", {INJECT: 1, BIND: 1}),
        ("tests/certs/conftest.py", {ROUNDS: 1}),
        ("tests/judge.py", {BIND: 1, GOLDEN: 2}),
        ("tests/certs/test_rounds.py", {ROUNDS: 0}),
        ("tests/cases/pods/shm/pod.yaml", {GOLDEN: 4}),
        (".ci/run", {WORKFLOWS: 1}),
        ("deploy/chart/values.yaml", {WORKFLOWS: 4}),
        ("LICENSE", {}),
    ],
)
def test_what_is_near_a_change_and_how_far(changed: str, ranked: dict[str, int]) -> None:
    assert list(HOUSE.ranked([changed]).items()) == list(ranked.items())


def test_of_several_changes_the_nearest_counts() -> None:
    assert HOUSE.ranked(["webhook/words/names.py", "tests/pods.py", "certs/objects.py"]) == {
        NAMES: 1,
        LOG: 1,
        INJECT: 1,
        BIND: 1,
        ROUNDS: 2,
    }


def test_in_this_checkout_the_tests_of_a_module_are_nearest_to_it() -> None:
    assert next(iter(read_house().ranked(["webhook/words/printable.py"]))) == "tests/words/test_printable.py"


def test_a_commit_that_is_not_there_is_told_and_nothing_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--base", "no-such-commit"]) == 2
    assert capsys.readouterr().err.startswith("near: expected a commit, found no-such-commit")
