"""The table of ``docs/acceptance/results.md``: every run of which that folder has the ``RESULT.json``."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from tests.docs.parts import Part, row
from tests.gpu.judge import CLAIMS
from tests.gpu.model import API_VERSION, KIND, Result, Word
from webhook.words.printable import fitted

DOCS = Path(__file__).parents[2] / "docs"
RESULTS = DOCS / "acceptance"
PAGE = RESULTS / "results.md"
PART = Part("tests.gpu.page")
MACHINES = ("V100", "A100 with bridges", "A100 with NVSwitches", "H100", "H20", "H200", "B200", "GB200", "L40S")
"""The kinds of machines on which the project should be tried; a result names the one that it is of by its file."""
_MARKUP = re.compile(r"([\\|*_<>\[\]`&])")
_WORDS = {Word.HOLDS: "holds", Word.FAILS: "**fails**", Word.NOT_TRIED: "not tried"}


def page(text: str, results: Mapping[str, Result]) -> str:
    """The page with the table of these results.

    Args:
        text: The page as it is.
        results: By the names of their files without the ending: ``h20-2026-11-23``.
    """
    return PART.written(text, _table(results))


def read_results(folder: Path) -> dict[str, Result]:
    """Those of a folder.

    Raises:
        ValueError: a file is no result, or its name begins with no kind of machine.
    """
    found = {}
    for path in sorted(folder.glob("*.json")):
        result = msgspec.json.decode(path.read_bytes(), type=Result)
        if (result.api_version, result.kind) != (API_VERSION, KIND) or not machine_of(path.stem):
            raise ValueError(f"{path}: expected {KIND} of {API_VERSION} of a machine such as {slug(MACHINES[0])}")
        found[path.stem] = result
    return found


def slug(machine: str) -> str:
    """How the name of a file begins."""
    return machine.lower().replace(" ", "-")


def machine_of(stem: str) -> str:
    """The kind of machine by the name of a file; empty if it names none."""
    fits = [machine for machine in MACHINES if stem == slug(machine) or stem.startswith(f"{slug(machine)}-20")]
    return fits[0] if fits else ""


def _table(results: Mapping[str, Result]) -> Iterator[str]:
    claims = [claim for claim, _, _ in CLAIMS]
    yield row(["machine", "cards", "driver", "CUDA", "NCCL", "HAMi", "date", *claims])
    yield row(["---"] * (7 + len(claims)))
    for machine in MACHINES:
        found = [_cells(result, claims) for stem, result in results.items() if machine_of(stem) == machine]
        yield from (row([machine, *cells]) for cells in found or [[""] * (6 + len(claims))])


def _cells(result: Result, claims: Sequence[str]) -> list[str]:
    words = {each.claim: _WORDS[each.verdict] for each in result.verdicts}
    tested = result.machine
    about = [tested.cards, tested.driver, tested.cuda, tested.nccl, tested.hami, result.at.partition("T")[0]]
    return [*map(_plain, about), *(words.get(claim, "") for claim in claims)]


def _plain(text: str) -> str:
    """A text of a result, which a stranger may have sent, in which Markdown finds no markup."""
    return _MARKUP.sub(r"\\\1", fitted(text))


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), read_results(RESULTS)), encoding="utf-8")
