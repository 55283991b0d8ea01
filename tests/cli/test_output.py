"""What ``gpu-topology`` does with its output, and how it words what is wrong."""

import subprocess
from pathlib import Path

import pytest

from tests.cli.command import PROGRAM, ROOT, gpu_topology
from tests.hardware.topology.machines import bent, h20
from webhook.hardware.topology.document import format_topology
from webhook.hardware.topology.model import MigMode, NodeTopology

STATE = ROOT / "examples" / "state"
SHOW = ("topology", "show", "--state", STATE, "--node", "dgx1-v100")
full_device = pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")


def in_shell(redirection: str, *arguments: str | Path, **environment: str) -> tuple[int, str]:
    """Exit code and stderr of the command with a redirection of the shell."""
    command = ["sh", "-c", f'exec "$@" {redirection}', "sh", *PROGRAM, *map(str, arguments)]
    settings = {"COLUMNS": "200", "PATH": "/usr/bin:/bin"} | environment
    done = subprocess.run(command, stderr=subprocess.PIPE, cwd=ROOT, env=settings, timeout=300, check=False)
    return done.returncode, done.stderr.decode()


# a standard output that takes nothing


@full_device
@pytest.mark.parametrize(
    ("arguments", "buffering"),
    [(SHOW, {}), (SHOW, {"PYTHONUNBUFFERED": "1"}), (("--help",), {})],
    ids=["typer", "typer, unbuffered", "rich"],
)
def test_a_full_disk_is_said_in_one_sentence(arguments: tuple[str | Path, ...], buffering: dict[str, str]) -> None:
    assert in_shell("> /dev/full", *arguments, **buffering) == (
        1,
        "gpu-topology: standard output cannot be written: No space left on device\n",
    )


def test_a_closed_standard_output_is_said_in_one_sentence() -> None:
    assert in_shell(">&-", *SHOW) == (1, "gpu-topology: standard output is closed\n")


def test_a_closed_standard_input_is_said_in_one_sentence() -> None:
    assert in_shell("<&-", "explain", "-f", "-") == (1, "gpu-topology: standard input is closed\n")


def test_a_reader_that_has_seen_enough_is_not_told_of() -> None:
    command = [*PROGRAM, *map(str, SHOW)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()  # long before there is something to read
        assert process.stderr.read() == b""


# show


@pytest.mark.parametrize("output", ["text", "svg"])
def test_what_is_wrong_goes_to_stderr_with_a_picture_too(output: str) -> None:
    text = format_topology(bent(h20(), 1, mig_mode=MigMode.ENABLED))
    done = gpu_topology("topology", "show", "-f", "-", "-o", output, stdin=text)
    assert (done.code, done.err) == (0, "GPU1 is in MIG mode: no NVLink, and no part of NCCL's file\n")


@pytest.mark.parametrize("output", ["text", "json", "svg"])
@pytest.mark.parametrize(("problem", "said"), [("No driver.", "No driver."), ("", "it has no GPU")])
def test_a_document_without_gpus_ends_with_its_reason(output: str, problem: str, said: str) -> None:
    text = format_topology(NodeTopology(node="n", source="nvml", problem=problem))
    done = gpu_topology("topology", "show", "-f", "-", "-o", output, stdin=text)
    assert (done.code, done.out, done.err) == (1, "", f"gpu-topology: node n: {said}\n")


# the words of errors
