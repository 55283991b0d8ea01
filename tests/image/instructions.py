"""The instructions of the Dockerfile."""

import shlex
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Instruction(NamedTuple):
    """One of them, with continued lines joined."""

    name: str
    text: str

    @property
    def words(self) -> list[str]:
        """What follows the name, as a shell would split it, without options."""
        return [word for word in shlex.split(self.text) if not word.startswith("--")]


def read_instructions() -> list[Instruction]:
    """Those of all stages, in order."""
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    joined = "\n".join(line for line in lines if not line.lstrip().startswith("#")).replace("\\\n", " ")
    split = [line.split(maxsplit=1) for line in joined.splitlines() if line.strip()]
    return [Instruction(name, text) for name, text in split]
