"""``python -m tests.chart``: writes what is generated for the chart, and ``deploy/install.yaml`` from it."""

import os
import sys
import tempfile
from pathlib import Path

from tests.chart.generated import GENERATED
from tests.chart.helm import INSTALL, Helm
from tests.go_programs.build import Missing, find_or_build
from tests.go_programs.catalogue import HELM


def main() -> int:
    """Returns the exit code."""
    for path, text in GENERATED.items():
        path.write_text(text(), encoding="utf-8")
    program = find_or_build(HELM, os.environ)
    if isinstance(program, Missing):
        print(f"{INSTALL} stays as it is: {program.reason}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as home:
        INSTALL.write_text(Helm(program, Path(home)).install_manifest(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
