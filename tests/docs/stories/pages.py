"""The pages, and the console blocks of a page whose commands the examples of this repository can answer."""

import re
import shlex
import subprocess
from functools import cache

from tests.cli.command import ROOT, Done, gpu_topology

STORIES = ROOT / "docs" / "stories"
ENGLISH = tuple(sorted(path for path in STORIES.glob("*.md") if not path.name.endswith(".zh.md")))
_CONSOLE = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)
_RUNNABLE = re.compile(r"^\$ (?!kubectl )(.*examples/.*)$", re.MULTILINE)


def commands(page: str) -> list[str]:
    """The commands of a page that can be run here, in their order."""
    return [command for block in _CONSOLE.findall(page) for command in _RUNNABLE.findall(block)]


def written(page: str) -> str:
    """The page with what these commands print now; other blocks stay."""
    return _CONSOLE.sub(lambda block: _answered(block[0]), page)


def _answered(block: str) -> str:
    found = _RUNNABLE.findall(block)
    return "".join(f"$ {command}\n{printed(command)}" for command in found) if found else block


@cache
def printed(command: str) -> str:
    """What a pipe prints, notes and errors first, in the root of the repository."""
    out, err = "", ""
    for step in _steps(command):
        done = _run(step, stdin=out)
        out, err = done.out, err + done.err
    return "\n".join(line.rstrip() for line in (err + out).splitlines()) + "\n"


def _steps(command: str) -> list[str]:
    """The parts of a command between its pipes."""
    words = shlex.shlex(command, posix=False, punctuation_chars="|")
    words.whitespace_split = True
    words.commenters = ""
    steps: list[list[str]] = [[]]
    for word in words:
        if word == "|":
            steps.append([])
        else:
            steps[-1].append(word)
    return [" ".join(step) for step in steps]


def _run(step: str, stdin: str) -> Done:
    if step.startswith("gpu-topology "):
        return gpu_topology(*shlex.split(step)[1:], stdin=stdin)
    done = subprocess.run(
        ["/bin/bash", "-c", step],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"},
    )
    return Done(done.returncode, done.stdout, done.stderr)
