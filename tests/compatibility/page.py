"""The generated part of ``docs/compatibility.md``."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from tests.compatibility.cells import Run, Seen, merged, table
from tests.docs.parts import Part

PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"
KNOWN = Path(__file__).with_name("known.json")
PART = Part("tests.compatibility")


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """What is known after all runs so far."""

    cells: tuple[Seen, ...] = ()
    date: str = ""
    """Of the last run."""
    left_out: Mapping[str, int] = {}
    """By it."""


def read_known(path: Path = KNOWN) -> Known:
    """What is known."""
    return msgspec.json.decode(path.read_bytes(), type=Known)


def after(known: Known, run: Run) -> Known:
    """What is known after a run."""
    return Known(cells=merged(known.cells, run), date=run.date, left_out=run.left_out)


def written(known: Known) -> bytes:
    """The file of it."""
    return msgspec.json.format(msgspec.json.encode(known), indent=2) + b"\n"


def page(text: str, known: Known) -> str:
    """The page with what is known."""
    return PART.written(text, [*table(known.cells), "", *_left_out(known)])


def _left_out(known: Known) -> Sequence[str]:
    if not known.date:
        return ["No run was recorded yet."]
    if not known.left_out:
        return [f"The last run, of {known.date}, left nothing out."]
    said = "; ".join(f"{_counted(count)} without `{name}`" for name, count in sorted(known.left_out.items()))
    return [f"The last run, of {known.date}, left out {said}. What only those tests see is older."]


def _counted(count: int) -> str:
    return "1 test" if count == 1 else f"{count} tests"
