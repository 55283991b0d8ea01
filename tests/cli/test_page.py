"""``gpu-topology page`` without a cluster."""

from pathlib import Path

from tests.cli.command import ROOT, gpu_topology

STATE = ROOT / "examples" / "state"


def test_a_state_directory_becomes_one_file_with_everything_in_it() -> None:
    done = gpu_topology("page", "-o", "html", "--state", STATE)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith('<!doctype html>\n<html lang="en"')
    assert "Content-Security-Policy" in done.out
    assert "From files" in done.out
    assert 'id="pods/ml-workloads/train"' in done.out
    assert "<script" not in done.out


def test_a_kubeconfig_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    done = gpu_topology("page", "-A", "--kubeconfig", tmp_path / "no-such")
    assert (done.code, done.out) == (1, "")
    assert "no-such" in done.err
