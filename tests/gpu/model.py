"""The values of a run: what is run, how it ended, what it shows, and what is kept of it."""

import enum
from collections.abc import Mapping

import msgspec

from webhook.words import names

API_VERSION, KIND = f"{names.PREFIX}v1", "AcceptanceResult"


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One program that is run."""

    name: str
    says: str
    """What it is for, in a clause."""
    argv: tuple[str, ...]
    """The first word ``gpu-topology`` stands for the program that runs this."""
    seconds: float
    """How long it may take."""
    environment: Mapping[str, str] = {}
    """Beside what this program has itself."""
    output: str = ""
    """Where its standard output goes, below the folder of the run; empty: ``<name>.txt``."""
    writes: tuple[str, ...] = ()
    """What else it writes there."""
    expected: tuple[int, ...] = (0,)
    """The exit codes with which it holds."""
    needs_gpu: bool = True
    """Whether it needs a GPU of this machine; pods have those of a cluster."""
    hindrance: str = ""
    """Why it cannot be tried on this machine, in a clause; empty if it can."""


NOT_TRIED_CODE = 2
"""The exit code of our own programs that could not try what they are for; the last line of stderr says why."""


class Ran(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How a step ended."""

    name: str
    argv: tuple[str, ...]
    exit_code: int | None
    """None: it was not started, or took too long."""
    problem: str = ""
    """Why there is no exit code, in a clause."""
    seconds: float
    files: tuple[str, ...]
    """What it was to write; not all of it may be there."""
    timed_out: bool = False
    said: str = ""
    """The last line of its standard error."""

    @property
    def is_done(self) -> bool:
        """Whether it ended by itself with exit code 0."""
        return self.exit_code == 0


class Word(enum.StrEnum):
    """What became of a claim."""

    HOLDS = "holds"
    FAILS = "fails"
    NOT_TRIED = "not tried"


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What was found of one claim."""

    claim: str
    """A word by which it is known."""
    says: str
    """The claim, in a sentence."""
    verdict: Word
    why: str
    """What was seen, or what was missing, in a sentence."""


class StepResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a step."""

    step: str
    says: str
    verdict: Word
    why: str


class Machine(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What was tested; empty where it is not known."""

    cards: str = ""
    """Such as ``8 x NVIDIA H100 80GB HBM3``."""
    driver: str = ""
    cuda: str = ""
    nccl: str = ""
    torch: str = ""
    hami: str = ""
    kubernetes: str = ""


class Result(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The last file of the archive."""

    api_version: str = API_VERSION
    kind: str = KIND
    version: str
    """Of this project."""
    at: str
    """In RFC 3339."""
    machine: Machine
    is_whole: bool = True
    """Whether the run came to its end."""
    verdicts: tuple[Verdict, ...]
    results: tuple[StepResult, ...] = ()
    """Of each step, also of those that were not tried."""
    steps: tuple[Ran, ...]
    sha256: dict[str, str]
    """Of each other file."""
