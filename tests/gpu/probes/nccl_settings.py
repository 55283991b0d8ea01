"""``nccl_settings NAME ...``: what this machine tells NCCL beside the steps.

``/etc/nccl.conf`` is read in any case, and no variable keeps NCCL from it: src/misc/param.cc.

The names are the settings of the environment, which no step gets.
"""

import sys
from pathlib import Path

from tests.gpu.probes.ending import ended, not_tried

FILE = Path("/etc/nccl.conf")


def main() -> None:
    """Tell what stands in the file, and what was left out."""
    found, dropped = read_settings(FILE), sys.argv[1:]
    told = [f"left out of the environment: {', '.join(dropped)}"] if dropped else []
    if found:
        not_tried("; ".join([f"{FILE} sets {', '.join(found)}, so no step shows NCCL's own choice", *told]))
    ended({"file": str(FILE), "sets": [], "leftOut": dropped}, said="; ".join(told))


def read_settings(path: Path) -> list[str]:
    """The ``NAME=VALUE`` lines of a configuration file of NCCL; none if there is no such file.

    A comment begins a line with ``#``.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if "=" in line and not line.startswith("#")]


if __name__ == "__main__":
    main()
