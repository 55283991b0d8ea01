"""What ``pytest --conformance`` runs and writes, by a run of its own."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = """
import pytest

pytestmark = pytest.mark.cluster

@pytest.fixture(params=["2.9.0", "2.10.0"])
def release(request):
    return request.param

@pytest.fixture
def broken():
    raise AssertionError("the scheduler ended")

def test_a_pod_passes(release): pass
def test_a_pod_fails(release): assert release == "another"
def test_a_pod_has_no_cluster(release, broken): pass
def test_a_pod_is_left_out(release, leave_out): leave_out("root", "not here")

@pytest.mark.parametrize("release", ["2.10.0+overwriteEnv"], indirect=True)
def test_a_pod_with_a_setting(release): pass

def test_of_no_release(): pass
"""
UPGRADE = """
import pytest

pytestmark = pytest.mark.cluster

@pytest.mark.parametrize("release", ["2.10.0"])
def test_hami_counts_the_gpus_of_running_pods_as_the_table_says(release, subtests):
    for pod in ("one", "two"):
        with subtests.test(keeps=pod):
            assert pod == "one"
"""


def test_the_judges_of_one_release_run_and_tell_what_they_found(tmp_path: Path) -> None:
    directory = tmp_path / "tests" / "control_plane" / "hami"
    directory.mkdir(parents=True)
    (directory / "test_exclusive.py").write_text(TESTS)
    (directory / "test_upgrade.py").write_text(UPGRADE)
    (directory / "test_leaders.py").write_text(TESTS)
    plugins = ["-p", "tests.compatibility.results", "-p", "tests.go_programs.left_out"]
    options = ["-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), "--release=2.10.0"]
    subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, *options, f"--conformance={tmp_path / 'found.json'}", str(tmp_path)],
        check=False,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
    )
    found = {
        (each["test"].rpartition("::")[2], each["about"]): each
        for each in json.loads((tmp_path / "found.json").read_text())
    }
    upgrade = "test_hami_counts_the_gpus_of_running_pods_as_the_table_says[2.10.0]"
    assert {key: each["outcome"] for key, each in found.items()} == {
        ("test_a_pod_passes[2.10.0]", ""): "passed",
        ("test_a_pod_fails[2.10.0]", ""): "failed",
        ("test_a_pod_has_no_cluster[2.10.0]", ""): "failed",
        ("test_a_pod_is_left_out[2.10.0]", ""): "skipped",
        ("test_a_pod_with_a_setting[2.10.0+overwriteEnv]", ""): "passed",
        (upgrade, "one"): "passed",
        (upgrade, "two"): "failed",
    }
    assert found[upgrade, "two"]["part"] == "keeps"
    assert found["test_a_pod_has_no_cluster[2.10.0]", ""]["said"] == "AssertionError: the scheduler ended"
