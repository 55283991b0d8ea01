"""Fuzz a target: ``python -m tests.fuzz TARGET [--seconds N | --runs N] [--seed N] [--folder DIRECTORY]``."""

import argparse
import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path

from tests.control_plane import leash
from tests.fuzz.catalogue import LONGEST, NAMES, REGRESSIONS, find_target, regressions

SLOWEST = 60
"""Seconds that one input may take."""
MEMORY_MIB = 2048
_NO_ATHERIS = "atheris is not installed: there is no wheel of it for this Python and machine, or no package index"


def fuzz(name: str, folder: Path, *, seconds: int, runs: int, seed: int) -> int:
    """Fuzz one target; the exit code: 0 if nothing was found, 1 if something was, 2 if the fuzzer did not work."""
    options = [
        f"-max_len={LONGEST}",
        f"-timeout={SLOWEST}",
        f"-report_slow_units={SLOWEST}",
        f"-rss_limit_mb={MEMORY_MIB}",
        f"-seed={seed}",
        *([f"-max_total_time={seconds}"] if seconds else []),
        *([f"-runs={runs}"] if runs else []),
    ]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("COVERAGE_")}
    environment["PYTHONHASHSEED"] = "0"  # so that the same seed bends the same inputs
    began = time.time()
    worker = [sys.executable, "-m", "tests.fuzz.worker", name, str(folder), *options]
    code = subprocess.call([sys.executable, leash.__file__, str(os.getpid()), *worker], env=environment)
    finds = [path for path in (folder / "finds").glob("*") if path.stat().st_mtime >= began]
    if finds:
        print(
            f"{name}: inputs that break a law are in {folder / 'finds'}, each with its traceback. "
            f"Keep one as {REGRESSIONS / name}/WHAT-IT-BROKE once it is mended"
        )
        return 1
    return 2 if code else 0


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("target", choices=NAMES, nargs="?")
    parser.add_argument("--list", action="store_true", help="print the targets")
    parser.add_argument("--seconds", type=int, default=0, help="how long; without --runs a minute")
    parser.add_argument("--runs", type=int, default=0, help="how many inputs")
    parser.add_argument("--seed", type=int, default=0, help="where chance begins; 0: anywhere")
    parser.add_argument("--folder", type=Path, help="corpus and finds; .fuzz/TARGET")
    parser.add_argument("--replay", type=Path, nargs="*", help="try these inputs, or the regressions, and nothing else")
    given = parser.parse_args()
    if given.list:
        print(*NAMES)
        return 0
    if given.target is None:
        parser.error(f"expected a target: {', '.join(NAMES)}")
    if given.replay is not None:
        for path in given.replay or regressions(given.target):
            print(path, flush=True)
            find_target(given.target).check(path.read_bytes())
        return 0
    if importlib.util.find_spec("atheris") is None:
        print(_NO_ATHERIS, file=sys.stderr)
        return 2
    seconds = given.seconds or (0 if given.runs else 60)
    folder = given.folder or Path(".fuzz") / given.target
    return fuzz(given.target, folder, seconds=seconds, runs=given.runs, seed=given.seed)


if __name__ == "__main__":
    sys.exit(main())
