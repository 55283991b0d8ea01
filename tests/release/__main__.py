"""``python -m tests.release DIRECTORY [STEP ...]``: the steps of a release, or those named, into a new directory."""

import shutil
import sys
from pathlib import Path

from tests.release.steps import ROOT, STEPS


def main(directory: Path, names: list[str]) -> None:
    """Run the steps in their order; any that cannot run ends the program."""
    if unknown := [name for name in names if name not in STEPS]:
        sys.exit(f"expected some of {', '.join(STEPS)}, found {', '.join(unknown)}")
    for name in STEPS:
        shutil.rmtree(directory / name, ignore_errors=True)
    directory.mkdir(parents=True, exist_ok=True)
    for name, step in STEPS.items():
        if not names or name in names:
            step(ROOT, directory)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(f"expected a directory, and perhaps some of {', '.join(STEPS)}")
    main(Path(sys.argv[1]), sys.argv[2:])
