"""``python -m tests.compatibility.conform DIRECTORY``: judges a checkout of HAMi by our tests.

Exit codes: 0 nothing broke; 1 something broke; 2 wrong use, the build failed, or something could not be judged.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from tests.compatibility.checkout import RELEASES, NotUsableError, build, called, examined, stands_for
from tests.compatibility.conformance import Result, checked, doubtful, exit_code, report, second_try, table
from tests.compatibility.page import after_conformance, read_known, write
from tests.compatibility.rules import HAMI_TESTS, RULES
from tests.go_programs.run_apart import ROOT

NOT_INHERITED = ("CI", "CI_MAY_LACK", "PYTEST_ADDOPTS")
"""What is missing is told in the table, and is no failure of HAMi."""


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code, as the docstring of the module says them."""
    asked = _parser().parse_args(arguments)
    directory = asked.directory.absolute()
    try:
        version = examined(directory)
        release = asked.release or stands_for(version)
        name = asked.name or called(directory, version)
        with tempfile.TemporaryDirectory(prefix="gpu-topology-hami-") as programs:
            print(f"Building the scheduler and the device plugin of HAMi {name} ...", flush=True)
            build(directory, release, Path(programs), os.environ)
            print(f"Running our tests; it stands in the place of HAMi {release} ...", flush=True)
            if not asked.release:
                print(
                    f"VERSION says {version}. For a branch that is nearer to the next release: --in-place-of",
                    flush=True,
                )
            results = _twice(Path(programs), release)
    except NotUsableError as error:
        print(error, file=sys.stderr)
        return 2
    found = checked(results, name=name, release=release, date=datetime.now(UTC).strftime("%Y-%m-%d"))
    print("", *report(found), sep="\n")
    if asked.summary:
        with asked.summary.open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in table([found]))
    if asked.record:
        write(after_conformance(read_known(), found))
    return exit_code(found)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make conformance", description="Judges a checkout of HAMi by our tests.")
    parser.add_argument("directory", type=Path, help="the checkout")
    parser.add_argument("--name", default="", help="what the table calls it; default: its version and commit")
    parser.add_argument(
        "--in-place-of",
        dest="release",
        choices=RELEASES,
        help="the release that our programs take it for; default: by its file VERSION",
    )
    parser.add_argument("--record", action="store_true", help="write the table into docs/compatibility.md too")
    parser.add_argument("--summary", type=Path, metavar="FILE", help="append the table of this run to the file")
    return parser


def _twice(programs: Path, release: str) -> Sequence[Result]:
    """The results; what seems broken is run once more, so that a busy machine is not taken for HAMi."""
    files = sorted({judge.tests.partition("::")[0] for rule in RULES for judge in rule.judges})
    first = _run(programs, release, [f"{HAMI_TESTS}{file}" for file in files])
    doubted = doubtful(first)
    if not doubted:
        return first
    print(f"Tests of what we need failed ({len(doubted)}); they run once more ...", flush=True)
    return second_try(first, _run(programs, release, doubted))


def _run(programs: Path, release: str, tests: Sequence[str]) -> Sequence[Result]:
    file = programs / "results.json"
    file.unlink(missing_ok=True)
    options = ["-m", "cluster", "-v", "--tb=short", f"--conformance={file}", f"--release={release}"]
    inherited = {name: value for name, value in os.environ.items() if name not in NOT_INHERITED}
    subprocess.run(
        [sys.executable, "-m", "pytest", *options, *tests],
        cwd=ROOT,
        env={**inherited, "HAMI_ASSETS": str(programs)},
        check=False,
    )
    if not file.exists():
        raise NotUsableError("the tests did not run: look at the lines above")
    return msgspec.json.decode(file.read_bytes(), type=tuple[Result, ...])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
