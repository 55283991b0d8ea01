"""``python -m tests.mutants``: plants a seeded sample of mutants that mutmut makes, and prints which no test notices.

Each area has an equal share of the sample. The nearest modules with tests run (``tests.near``), those that need a
control plane left out, until a test fails. Some mutants cannot be noticed, because they mean the same.
"""

import argparse
import difflib
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mutmut.mutation.file_mutation import create_mutations, deep_replace

from tests.mutants.planting import ROOT, Change, nearest, noticing
from tests.near import read_house

AREAS = {
    "admit": ("webhook/decisions/admit",),
    "resolve": ("webhook/decisions/resolve",),
    "choice of GPUs": ("webhook/hardware/topology/selection", "webhook/hardware/topology/sets.py"),
    "planner": ("webhook/decisions/place",),
}
MODULES = 18
"""The nearest modules with tests that are run for a mutant."""


@dataclass(frozen=True)
class Mutant:
    """A file with one change."""

    area: str
    file: str
    own: str
    """The file without the change."""
    text: str

    @property
    def diff(self) -> str:
        """The change, as lines of a diff."""
        lines = difflib.unified_diff(self.own.splitlines(), self.text.splitlines(), n=0, lineterm="")
        return "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))

    @property
    def place(self) -> str:
        """The file and the line of the change."""
        pairs = zip(self.own.splitlines(), self.text.splitlines(), strict=False)
        line = next((number for number, (own, new) in enumerate(pairs, start=1) if own != new), 0)
        return f"{self.file}:{line}"


def sample(area: str, count: int, seed: int) -> Iterator[Mutant]:
    """Yield mutants of an area, drawn by chance.

    Raises:
        FileNotFoundError: the area has another place now.
    """
    files = [path for name in AREAS[area] for path in sorted((ROOT / name).rglob("*.py")) or [ROOT / name]]
    made = []
    for path in files:
        own = path.read_text(encoding="utf-8")
        module, mutations, *_ = create_mutations(str(path), own)
        made += [(str(path.relative_to(ROOT)), own, module, mutation) for mutation in mutations]
    for file, own, module, mutation in random.Random(f"{seed} {area}").sample(made, min(count, len(made))):
        changed: Any = deep_replace(module, mutation.original_node, mutation.mutated_node)
        yield Mutant(area, file, own, changed.code)


def table(mutants: Sequence[Mutant], found: Sequence[str]) -> Iterator[str]:
    """Yield the lines of a table: the share of mutants that tests notice, by area."""
    made = Counter(mutant.area for mutant in mutants)
    noticed = Counter(mutant.area for mutant, test in zip(mutants, found, strict=True) if test)
    yield "area\tmutants\tnoticed\tshare"
    for area in [*made, "all"]:
        total, known = (len(mutants), noticed.total()) if area == "all" else (made[area], noticed[area])
        yield f"{area}\t{total}\t{known}\t{known / total:.0%}"


def main(arguments: list[str]) -> int:
    """Plant the mutants, and print what became of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.partition("\n")[0])
    parser.add_argument("--mutants", type=int, default=240, help="the size of the sample")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--processes", type=int, default=1, help="in which mutants are tried at a time")
    options = parser.parse_args(arguments)
    house, each = read_house(), -(-options.mutants // len(AREAS))
    drawn = [[*sample(area, each, options.seed)] for area in AREAS]
    mutants = [mutant for of_areas in zip(*drawn, strict=True) for mutant in of_areas]
    tests = {file: nearest(house, file, "test", MODULES) for file in {mutant.file for mutant in mutants}}
    changes = {Change(each.file, each.text, tuple(tests[each.file])): each for each in mutants}

    def report(change: Change, test: str) -> None:
        print(changes[change].area, changes[change].place, test or "SURVIVED", sep="\t", flush=True)

    found = noticing([*changes], options.processes, report)
    print(*table([*changes.values()], found), sep="\n")
    for mutant, test in zip(changes.values(), found, strict=True):
        if not test:
            print(f"\n{mutant.place}\n{mutant.diff}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
