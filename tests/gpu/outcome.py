"""What a step is, and how it ends."""

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from webhook.hardware.topology.document import parse_topology
from webhook.hardware.topology.model import NodeTopology
from webhook.words.errors import FormatError

ROOT = Path(__file__).parents[2]
"""Of the checkout."""


class Verdict(enum.StrEnum):
    """What a step shows. A driver's answer of which this project claims nothing is ``SEEN``."""

    HOLDS = "holds"
    FAILS = "fails"
    SEEN = "seen"
    NOT_TRIED = "not tried"


@dataclass(frozen=True)
class Outcome:
    """How a step ended."""

    verdict: Verdict
    why: str
    """What was seen, or why it could not be tried, in a clause."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What was read, for whoever corrects this project by it."""


class NotTriedError(Exception):
    """The error of a step that cannot be tried on this machine; the text says why."""


@dataclass(frozen=True)
class Machine:
    """What a step knows of the machine."""

    folder: Path
    """Of the run."""
    hami_core: str = ""
    """Path of HAMi-core's library."""
    agent_seconds: float = 60.0
    idle_seconds: float = 10.0

    @property
    def topology_path(self) -> Path:
        return self.folder / "topology.json"

    @property
    def file_path(self) -> Path:
        """The topology file for NCCL."""
        return self.folder / "nccl-topo.xml"

    @property
    def topology(self) -> NodeTopology:
        """What this project found here.

        Raises:
            NotTriedError: it found nothing.
        """
        try:
            found = parse_topology(self.topology_path.read_bytes(), source=str(self.topology_path))
        except (OSError, FormatError) as error:
            raise NotTriedError(f"this project could not read the topology: {error}") from None
        if not found.gpus:
            raise NotTriedError(f"this project found no GPU: {found.problem or 'NVML lists none'}")
        return found


@dataclass(frozen=True)
class Step:
    """One thing to try, in a process of its own."""

    name: str
    purpose: str
    seconds: float
    """How long it may take."""
    run: Callable[[Machine], Outcome]
    gpus: int = 1
    """How many GPUs it needs."""


def holds_if(condition: bool, why: str, **facts: Any) -> Outcome:
    return Outcome(Verdict.HOLDS if condition else Verdict.FAILS, why, facts)
