"""``gpu-topology page`` without a cluster."""

from pathlib import Path

import pytest

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


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--state", str(STATE)), "files do not change: give -o html"),
        (("-A", "-n", "team-a"), "give either a namespace or all of them"),
        (("-o", "html", "--state", str(STATE), "--context", "x"), "give either files or a cluster"),
        (("--port", "70000"), "--port"),
    ],
)
def test_what_cannot_be_done_is_wrong_usage(arguments: tuple[str, ...], said: str) -> None:
    done = gpu_topology("page", *arguments)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_a_kubeconfig_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    done = gpu_topology("page", "-A", "--kubeconfig", tmp_path / "no-such")
    assert (done.code, done.out) == (1, "")
    assert "no-such" in done.err
