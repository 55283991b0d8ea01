"""``python -m tests.mutants.faults``: plants each fault of ``faults.toml``, and prints the test that notices it.

A fault is described by what a user would see, so it can be planted anew when the code is written otherwise. Tests run in
the order of their distance (``tests.near``), those that need a control plane left out, until one fails.
"""

import argparse
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.planting import QUICK, ROOT, Copy
from tests.near import CONTROL_PLANE, House, read_house

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


def nearest(house: House, file: str, command: str, limit: int = MODULES) -> list[str]:
    """Return the modules with tests of a command that are nearest to a file."""
    ranked = [path for path in house.ranked([file]) if not path.startswith(CONTROL_PLANE)]
    return [path for path in ranked if command != "quick" or path.startswith(QUICK)][:limit]


def main(arguments: Iterable[str]) -> int:
    """Plant the faults. Return 1 if one is not noticed, 2 if one cannot be planted."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.faults", description=__doc__.partition("\n")[0])
    parser.add_argument("--area", help="only the faults of this area")
    parser.add_argument("--table", type=Path, help="a file to which each result is added, separated by tabs")
    options = parser.parse_args(list(arguments))
    faults = [fault for fault in read_faults() if options.area in (None, fault.area)]
    ends: Counter[str] = Counter()
    house = read_house()
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(Path(folder, "copy"))
        for fault in faults:
            try:
                test = copy.noticing(
                    fault.file, fault.planted(), nearest(house, fault.file, fault.command), fault.command
                )
                end = "noticed" if test else "SURVIVED"
            except LookupError as error:
                end, test = "NOT PLANTED", str(error)
            ends[end] += 1
            row = (end, fault.command, fault.area, fault.what, test)
            print(*row, sep="  ", flush=True)
            if options.table:
                with options.table.open("a", encoding="utf-8") as table:
                    print(*row, sep="\t", file=table)
    print(", ".join(f"{count} {end}" for end, count in ends.most_common()))
    return 2 if ends["NOT PLANTED"] else int(ends["SURVIVED"] > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
