"""Which tests are near a change."""

import pytest

from tests.near import House, main, read_house, shortened

IMPORTERS = {
    "webhook.words.names": ("webhook.cli.main", "tests.words.test_names", "tests.pods", "tests.cli.test_inject"),
    "tests.certs.conftest": (),
    "tests.pods": ("tests.cli.test_inject",),
    "tests.judge": ("tests.decisions.admit.conftest",),
}
TEXTS = {
    "webhook/words/names.py": "",
    "webhook/cli/main.py": "",
    "tests/pods.py": "",
    "tests/judge.py": "",
    "tests/words/test_names.py": "",
    "tests/cli/test_inject.py": "",
    "tests/cli/test_usage.py": "",
    "tests/certs/conftest.py": "",
    "tests/certs/test_rounds.py": "",
    "tests/chart/helm.py": 'CHART = ROOT / "chart"',
    "tests/decisions/admit/conftest.py": "",
    "tests/decisions/admit/test_golden_pods.py": 'CASES = ROOT / "cases" / "pods"',
    "tests/workflows/test_workflows.py": 'SCRIPT = ".ci/run"',
}
HOUSE = House(lambda module: IMPORTERS.get(module, ()), TEXTS)


@pytest.mark.parametrize(
    ("changed", "near"),
    [
        ("webhook/words/names.py", {"tests/words/test_names.py", "tests/cli/test_inject.py"}),
        ("webhook/cli/main.py", {"tests/cli/test_inject.py", "tests/cli/test_usage.py"}),
        ("webhook/cli/status/new.py", {"tests/cli/test_inject.py", "tests/cli/test_usage.py"}),
        ("webhook/entry.py", set()),
        ("certs/spec.py", {"tests/certs/test_rounds.py"}),
        ("tests/pods.py", {"tests/cli/test_inject.py"}),
        ("tests/certs/conftest.py", {"tests/certs/test_rounds.py"}),
        ("tests/judge.py", {"tests/decisions/admit/test_golden_pods.py"}),
        ("tests/certs/test_rounds.py", {"tests/certs/test_rounds.py"}),
        ("tests/cases/pods/shm/pod.yaml", {"tests/decisions/admit/test_golden_pods.py"}),
        (".ci/run", {"tests/workflows/test_workflows.py"}),
        ("deploy/chart/values.yaml", set()),
        ("LICENSE", set()),
    ],
)
def test_what_is_near_a_change(changed: str, near: set[str]) -> None:
    assert HOUSE.near(changed) == near


def test_of_long_lists_the_beginning_is_printed() -> None:
    lines = [str(number) for number in range(20)]
    assert shortened(lines) == [*lines[:8], "and 12 more"]
    assert shortened(lines[:9]) == lines[:9]


def test_in_this_checkout_the_tests_of_a_module_are_near_it() -> None:
    found = read_house().near("webhook/words/printable.py")
    assert "tests/words/test_printable.py" in found
    assert all(path.startswith("tests/") for path in found)


def test_a_commit_that_is_not_there_is_told_and_nothing_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--base", "no-such-commit"]) == 2
    assert capsys.readouterr().err.startswith("near: expected a commit, found no-such-commit")
