"""``python -m tests.mutants.faults``: plants each fault of ``faults.toml``, and prints the test that notices it.

A fault is described by what a user would see, so it can be planted anew when the code is written otherwise. Tests run
in the order of their distance (``tests.near``), those that need a control plane left out, until one fails.
"""

import argparse
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.planting import ROOT, Change, nearest, noticing
from tests.near import read_house

FAULTS = Path(__file__).with_name("faults.toml")
MODULES = 60
"""The nearest modules with tests that are run for a fault."""


@dataclass(frozen=True)
class Fault:
    """A fault: in a file, ``find`` is replaced by ``replace``."""

    what: str
    area: str
    file: str
    find: str
    replace: str
    command: str
    """The command of make that is to notice it."""

    def planted(self) -> str:
        """Return the file with the fault.

        Raises:
            LookupError: the text is not in the file, or more than once.
        """
        path = ROOT / self.file
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        if (count := text.count(self.find)) != 1:
            raise LookupError(f"{self.file}: expected once, found {count} times: {self.find!r}. Plant it anew")
        return text.replace(self.find, self.replace)


def read_faults() -> list[Fault]:
    """Return the faults, in the order of the file."""
    return [Fault(**fault) for fault in tomllib.loads(FAULTS.read_text(encoding="utf-8"))["fault"]]


def main(arguments: list[str]) -> int:
    """Plant the faults. Return 1 if one is not noticed, 2 if one cannot be planted."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.faults", description=__doc__.partition("\n")[0])
    parser.add_argument("--area", help="only the faults of this area")
    parser.add_argument("--skip", type=int, default=0, help="the number of faults to leave out")
    parser.add_argument("--processes", type=int, default=1, help="in which faults are tried at a time")
    options = parser.parse_args(arguments)
    house = read_house()
    faults: dict[Change, Fault] = {}
    not_planted = 0
    for fault in [fault for fault in read_faults() if options.area in (None, fault.area)][options.skip :]:
        try:
            tests = nearest(house, fault.file, fault.command, MODULES)
            faults[Change(fault.file, fault.planted(), tuple(tests), fault.command)] = fault
        except LookupError as error:
            not_planted += 1
            print("NOT PLANTED", fault.area, fault.what, error, sep="\t")

    def report(change: Change, test: str) -> None:
        fault = faults[change]
        print(test or f"SURVIVED {fault.command}", fault.area, fault.what, sep="\t", flush=True)

    found = noticing([*faults], options.processes, report)
    survived = found.count("")
    print(f"{len(found) - survived} noticed, {survived} survived, {not_planted} not planted", file=sys.stderr)
    return 2 if not_planted else int(survived > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
