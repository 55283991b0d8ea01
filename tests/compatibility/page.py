"""The generated part of ``docs/compatibility.md``."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from tests.compatibility import conformance
from tests.compatibility.cells import Run, Seen, merged, table
from tests.compatibility.conformance import Checked
from tests.docs.parts import Part

PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"
KNOWN = Path(__file__).with_name("known.json")
PART = Part("tests.compatibility")
CONFORMANCE = Part("tests.compatibility", "conformance")


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """What is known after all runs so far."""

    cells: tuple[Seen, ...] = ()
    date: str = ""
    """Of the last run."""
    left_out: Mapping[str, int] = {}
    """By it."""
    conformance: tuple[Checked, ...] = ()
    """The checkouts and releases of HAMi that were judged."""


def read_known(path: Path = KNOWN) -> Known:
    """What is known."""
    return msgspec.json.decode(path.read_bytes(), type=Known)


def after(known: Known, run: Run) -> Known:
    """What is known after a run."""
    return replace(known, cells=merged(known.cells, run), date=run.date, left_out=run.left_out)


def after_conformance(known: Known, checked: Checked) -> Known:
    """What is known after a HAMi was judged."""
    return replace(known, conformance=conformance.merged(known.conformance, checked))


def written(known: Known) -> bytes:
    """The file of it."""
    return msgspec.json.format(msgspec.json.encode(known), indent=2) + b"\n"


def write(known: Known) -> None:
    """What is known, and the page."""
    KNOWN.write_bytes(written(known))
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), known), encoding="utf-8")


def page(text: str, known: Known) -> str:
    """The page with what is known."""
    text = PART.written(text, [*table(known.cells), "", *_left_out(known)])
    return CONFORMANCE.written(text, conformance.table(known.conformance))


def _left_out(known: Known) -> Sequence[str]:
    if not known.date:
        return ["No run was recorded yet."]
    if not known.left_out:
        return [f"The last run, of {known.date}, left nothing out."]
    said = "; ".join(f"{_counted(count)} without `{name}`" for name, count in sorted(known.left_out.items()))
    return [f"The last run, of {known.date}, left out {said}. What only those tests see is older."]


def _counted(count: int) -> str:
    return "1 test" if count == 1 else f"{count} tests"
