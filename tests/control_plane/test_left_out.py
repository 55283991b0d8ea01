"""Cluster tests that cannot run are left out, and the run says so or, in CI, fails."""

import subprocess
from pathlib import Path

import pytest

from tests.go_programs.run_apart import run_apart

pytestmark = pytest.mark.cluster

TWO_TESTS = "a_config_map_can_be_created_and_read or the_api_server_knows_its_release"


def run_two_tests(directory: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A run of its own, with a ``KUBEBUILDER_ASSETS`` that holds nothing."""
    selected = ("-m", "cluster", "-k", TWO_TESTS, "tests/control_plane/test_control_plane.py")
    return run_apart(directory, *selected, KUBEBUILDER_ASSETS=str(directory), **environment)


def test_tests_that_are_left_out_are_counted_at_the_end_with_the_reason(tmp_path: Path) -> None:
    done = run_two_tests(tmp_path)
    assert done.returncode == 0
    assert f"TESTS LEFT OUT: 2 tests without etcd, because KUBEBUILDER_ASSETS={tmp_path}: expected an" in done.stdout
    assert "2 skipped" in done.stdout


@pytest.mark.long
def test_ci_fails_when_tests_are_left_out(tmp_path: Path) -> None:
    done = run_two_tests(tmp_path, CI="true")
    assert done.returncode == 1
    assert "TESTS LEFT OUT: 2 tests without etcd, because" in done.stdout
    assert "2 errors" in done.stdout


@pytest.mark.long
def test_ci_goes_on_without_what_it_is_told_that_it_may_lack(tmp_path: Path) -> None:
    done = run_two_tests(tmp_path, CI="true", CI_MAY_LACK="promtool,etcd")
    assert done.returncode == 0
    assert "TESTS LEFT OUT: 2 tests without etcd, because" in done.stdout
    assert "2 skipped" in done.stdout
