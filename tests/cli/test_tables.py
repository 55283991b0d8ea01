"""How wide tables are, what their form is called, and how a namespace that is not there ends."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.certs.test_files import pair
from tests.cli.command import Done, gpu_topology
from tests.cli.stand_in_cluster import Cluster
from tests.cli.terminal import on_terminal

STATE = ("--state", "examples/state")
UNBROKEN = (
    '-> Set gpu.topology/require-nvlink: "true" on the pod, with which the planner chooses GPUs that are joined. '
    "Other GPUs of node dgx1-v100 are: "
    "gpu-topology topology show --state examples/state --node dgx1-v100"
)
WITHOUT_COLOURS = {"NO_COLOR": "1"}


@pytest.fixture
def tls(tmp_path: Path) -> Path:
    """The files of a webhook, valid now."""
    bundle = pair(datetime.now(UTC))
    for name, content in (("tls.crt", bundle.certificate), ("tls.key", bundle.key), ("ca.crt", bundle.authority)):
        (tmp_path / name).write_bytes(content)
    return tmp_path


def piped(*arguments: str | Path, **environment: str) -> Done:
    return gpu_topology(*arguments, env={"COLUMNS": "", **environment})


def test_a_pipe_breaks_no_line_unless_columns_says_how_wide_it_is() -> None:
    assert any(line.endswith(UNBROKEN) for line in piped("analyze", *STATE).out.splitlines())
    narrow = piped("analyze", *STATE, COLUMNS="80").out
    assert UNBROKEN not in narrow
    assert max(map(len, narrow.splitlines()[:-2])) <= 80


def test_a_terminal_breaks_lines_at_its_width_unless_wide_is_asked_for() -> None:
    _, narrow = on_terminal("analyze", *STATE, width=80, **WITHOUT_COLOURS)
    assert UNBROKEN not in narrow
    _, wide = on_terminal("analyze", *STATE, "--wide", width=80, **WITHOUT_COLOURS)
    assert any(line.endswith(UNBROKEN) for line in wide.splitlines())


def test_certificates_are_readable_at_80_columns(tls: Path) -> None:
    _, said = on_terminal("certs", "show", "--tls", tls, width=80, **WITHOUT_COLOURS)
    lines = [line.split() for line in said.splitlines()]
    assert lines[0] == ["WHERE", "FROM", "TO", "DAYS", "SHA-256"]
    assert [line[0] for line in lines[1:3]] == ["tls.crt", "ca.crt"]
    for place, *dates, days, digest in lines[1:3]:
        assert [len(part) for part in dates] == [10, 10], place
        assert days.isdecimal()
        assert len(digest) == 16
    assert "tls.crt: CN=gpu-topology-webhook, issued by" in said
    assert "names: localhost\n" in said
    assert max(map(len, said.splitlines())) <= 80


@pytest.mark.parametrize("command", [("analyze", *STATE), ("certs", "show", "--tls")], ids=lambda each: each[0])
def test_text_is_the_default_and_another_form_is_refused(command: tuple[str, ...], tls: Path) -> None:
    complete = (*command, str(tls)) if command[-1] == "--tls" else command
    assert piped(*complete) == piped(*complete, "-o", "text")
    wrong = gpu_topology(*complete, "-o", "table")
    assert (wrong.code, wrong.out) == (2, "")
    assert "'table' is not one of 'text', 'json'" in wrong.err


def test_released_pods_can_be_read_by_programs(cluster: Cluster) -> None:
    cluster.objects["/api/v1/pods"] = {"items": []}
    done = gpu_topology("place", "release", "--all", "-o", "json", "--kubeconfig", cluster.kubeconfig)
    assert (done.code, json.loads(done.out)) == (0, {"pods": []})


@pytest.mark.parametrize(
    "command",
    [("analyze", "-n", "gone"), ("status", "-n", "gone"), ("explain", "gone/train"), ("bind", "gone/train")],
    ids=lambda command: command[0],
)
def test_a_namespace_that_is_not_there_ends_with_2(cluster: Cluster, command: tuple[str, ...]) -> None:
    cluster.objects["/api/v1/pods"] = {"items": []}
    done = gpu_topology(*command, "--kubeconfig", cluster.kubeconfig)
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[-1] == "gpu-topology: there is no namespace gone in this cluster"


def test_a_namespace_that_is_not_in_files_ends_with_2_as_well() -> None:
    done = gpu_topology("analyze", *STATE, "-n", "gone")
    assert (done.code, done.err) == (2, "gpu-topology: there is no namespace gone in these files\n")
