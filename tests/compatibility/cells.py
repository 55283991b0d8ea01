"""Cells of the matrix: what a run has seen of each, and what is known after it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tests.docs.parts import row

MARK = "gpu.topology/injected"
REMAP = "gpu-topology-remap"


class Cell(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """One combination."""

    hami: str
    """Its version; ``-`` where resource claims give the cards."""
    kubernetes: str
    strategy: str
    """How the devices get into a container: HAMi's ``deviceListStrategy``, or ``claims``."""
    profile: str
    carrier: str


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What one run has seen of a cell."""

    cell: Cell
    date: str
    """Of the run, ``2026-11-23``."""
    judges: tuple[str, ...]
    """The programs that we did not write and that had a part in it, with their versions."""
    passed: int
    """Tests in which a pod of this cell got its cards, and that passed."""
    failed: int


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """All that a run has seen."""

    date: str
    cells: tuple[Seen, ...]
    left_out: Mapping[str, int]
    """Tests by what they lacked."""


def cell_of(pod: Mapping[str, Any], *, hami: str, kubernetes: str, strategy: str) -> Cell | None:
    """The cell of a pod as the API server has it; None if we did not prepare it.

    Args:
        pod: The pod.
        hami: Version of HAMi, ``-`` for none.
        kubernetes: Version of the API server.
        strategy: How the devices get into its containers.
    """
    mark = pod["metadata"].get("annotations", {}).get(MARK)
    if mark is None:
        return None
    found = [each for each in pod["spec"].get("initContainers", ()) if each["name"] == REMAP]
    carrier = ("sidecar" if found[0].get("restartPolicy") == "Always" else "init") if found else "binding"
    profile = mark.partition(" ")[2]
    return Cell(hami=hami, kubernetes=kubernetes, strategy=strategy, profile=profile, carrier=carrier)


def merged(known: Iterable[Seen], run: Run) -> tuple[Seen, ...]:
    """What is known after a run: a cell that it has not seen stays as it was."""
    cells = {seen.cell: seen for seen in (*known, *run.cells)}
    return tuple(cells[cell] for cell in sorted(cells, key=_order))


def _order(cell: Cell) -> tuple[object, ...]:
    numbers = [
        tuple(int(part) for part in version.split(".") if part.isdigit()) for version in (cell.hami, cell.kubernetes)
    ]
    return (*numbers, cell)


def table(known: Sequence[Seen]) -> list[str]:
    """The lines of a table in Markdown."""
    head = ("HAMi", "Kubernetes", "strategy", "profile", "carrier", "tests", "date", "judges")
    return [row(cells) for cells in (head, ("---",) * len(head), *map(_cells, known))]


def _cells(seen: Seen) -> tuple[str, ...]:
    cell = seen.cell
    tests = f"{seen.passed} passed" + (f", **{seen.failed} failed**" if seen.failed else "")
    named = (cell.hami, cell.kubernetes, *(f"`{word}`" for word in (cell.strategy, cell.profile, cell.carrier)))
    return (*named, tests, seen.date, ", ".join(seen.judges))
