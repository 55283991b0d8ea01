"""``gpu-topology completion``: scripts for shells, and answers for kubectl's own completion."""

import contextlib
import enum
import io
import os
import shlex
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

PROGRAM = "gpu-topology"
_VARIABLE = "_GPU_TOPOLOGY_COMPLETE"
"""The variable that switches the command line to completion, as Click documents it: "Shell Completion"."""
_NO_FILES, _DEFAULT = 4, 0
"""ShellCompDirectiveNoFileComp, ShellCompDirectiveDefault: github.com/spf13/cobra, completions.go."""


class Shell(enum.StrEnum):
    """Shells with completion."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(context: typer.Context, shell: Annotated[Shell, typer.Argument(help="bash, zsh or fish.")]) -> None:
    """Print the completion script of a shell: source <(gpu-topology completion bash).

    kubectl completes 'kubectl gpu-topology' by itself, with the program kubectl_complete-gpu_topology.
    """
    os.environ[_VARIABLE] = f"source_{shell}"
    context.find_root().command.main(prog_name=PROGRAM)


def complete_for_kubectl(app: typer.Typer, words: Sequence[str]) -> None:
    """Print the candidates for the last word, in the form that kubectl expects of a plugin.

    The form is a candidate in each line, then a colon and a directive: k8s.io/kubectl, pkg/cmd/plugin.

    Args:
        app: The command line.
        words: The words after ``kubectl gpu-topology``; the last may be empty or incomplete.
    """
    found = _candidates(app, words or [""])
    sys.stdout.write("".join(f"{each}\n" for each in found))
    sys.stdout.write(f":{_NO_FILES if found else _DEFAULT}\n")


def _candidates(app: typer.Typer, words: Sequence[str]) -> list[str]:
    line = " ".join(shlex.quote(word) if word else "" for word in (PROGRAM, *words))
    os.environ |= {_VARIABLE: "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words))}
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
        app(prog_name=PROGRAM)
    return said.getvalue().split("\n")[:-1] if said.getvalue().strip() else []
