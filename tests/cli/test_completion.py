"""Shells complete what the user types."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import gpu_topology

BIN = Path(sys.executable).parent


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(shell: str) -> None:
    done = gpu_topology("completion", shell)
    assert (done.code, done.err) == (0, "")
    assert f"_GPU_TOPOLOGY_COMPLETE=complete_{shell}" in done.out


def test_another_shell_is_wrong_usage() -> None:
    assert gpu_topology("completion", "csh").code == 2


@pytest.mark.skipif(not Path("/bin/bash").exists(), reason="bash is not installed")
def test_the_script_for_bash_completes_a_command() -> None:
    script = (
        "source <(gpu-topology completion bash); COMP_WORDS=(gpu-topology topology pl); COMP_CWORD=2; "
        '_gpu_topology_completion gpu-topology; echo "${COMPREPLY[@]}"'
    )
    environment = {"PATH": f"{BIN}{os.pathsep}/usr/bin:/bin"}
    done = subprocess.run(["/bin/bash", "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "plan\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["exp"], "explain\n:4\n"),
        (["topology", "pl"], "plan\n:4\n"),
        (["explain", "--stat"], "--state\n:4\n"),
        (["explain", "$(touch x); a b"], ":0\n"),
    ],
)
def test_kubectl_gets_candidates_and_a_directive(words: list[str], said: str) -> None:
    command = [str(BIN / "kubectl_complete-gpu_topology"), *words]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == said
