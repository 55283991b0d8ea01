"""``python -m tests.nvml MACHINE DIRECTORY``: a stand-in for a node's driver, for programs that are run by hand.

Makes ``libnvidia-ml.so.1``, the files of the machine below ``root``, and ``environment`` with the variable that the
library reads.
"""

import sys
from pathlib import Path

from tests.nvml import machines
from tests.nvml.library import DESCRIPTION, compile_stub


def main() -> int:
    try:
        make_driver(sys.argv[1], Path(sys.argv[2]).absolute())
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def make_driver(name: str, directory: Path) -> None:
    """Makes the library, the files of the machine and the environment.

    Args:
        name: Name of a function of ``tests.nvml.machines``.
        directory: An absolute path. The directory is made if it is missing.

    Raises:
        FileNotFoundError: there is no C compiler.
    """
    machine: machines.Machine = getattr(machines, name)()
    compile_stub(directory)
    description = machines.write_machine(machine, directory / "root")
    (directory / "environment").write_text(f"{DESCRIPTION}={description}\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
