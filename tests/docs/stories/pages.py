"""The pages, and the console blocks of a page whose commands the examples of this repository can answer."""

import re
import shlex
import subprocess
import sys
from functools import cache

from tests.docs.test_docs import ROOT

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
    """What a line of bash prints, notes and errors first, in the root of the repository."""
    program = f'gpu-topology() {{ {shlex.quote(sys.executable)} -m webhook "$@"; }}\n'
    done = subprocess.run(
        ["/bin/bash", "-c", program + command],
        capture_output=True,
        timeout=120,
        check=False,
        cwd=ROOT,
        env={"COLUMNS": "200", "LC_ALL": "C", "PATH": "/usr/bin:/bin"},
    )
    said = (done.stderr + done.stdout).decode()
    assert "Traceback" not in said, said
    return "\n".join(line.rstrip() for line in said.splitlines()) + "\n"
