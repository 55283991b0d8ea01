"""``python -m tests.go_programs [NAME...]``: builds the programs of the tests ahead of time, one after the other.

Those on demand are built only where they are named.
"""

import os
import sys

from tests.go_programs.build import Missing, find_or_build
from tests.go_programs.catalogue import ALL, ON_DEMAND


def main(names: list[str]) -> int:
    """Prints the path of each executable, or why it is missing. Returns the exit code."""
    known = [program.name for program in (*ALL, *ON_DEMAND)]
    if unknown := [name for name in names if name not in known]:
        print(f"unknown: {', '.join(unknown)}; expected some of {', '.join(known)}", file=sys.stderr)
        return 2
    code = 0
    for program in (*ALL, *ON_DEMAND):
        if program.name not in names and (names or program.on_demand):
            continue
        found = find_or_build(program, os.environ)
        if isinstance(found, Missing):
            print(found.reason, file=sys.stderr)
            code = 1
        else:
            print(found)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
