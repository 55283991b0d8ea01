"""Cluster tests that cannot run are left out and counted; in CI they fail the run."""

from pathlib import Path

import pytest

from tests.go_programs.run_apart import run_apart

pytestmark = [pytest.mark.cluster, pytest.mark.long]


@pytest.mark.parametrize(
    ("ci", "code", "result"), [({}, 0, "2 skipped"), ({"CI": "true"}, 1, "2 errors")], ids=["here", "CI"]
)
def test_tests_that_are_left_out_are_counted_and_fail_in_ci(
    tmp_path: Path, ci: dict[str, str], code: int, result: str
) -> None:
    two_tests = ("tests/control_plane/test_claim_pods.py", "-m", "cluster", "-k", "may_not_stand and not 422")
    done = run_apart(tmp_path, *two_tests, KUBEBUILDER_ASSETS=str(tmp_path), **ci)
    assert done.returncode == code
    assert "TESTS LEFT OUT: 2 tests without etcd, because KUBEBUILDER_ASSETS=" in done.stdout
    assert result in done.stdout
