"""Fuzz a target: ``python -m tests.fuzz TARGET [--seconds N | --runs N] [--seed N] [--folder DIRECTORY]``."""

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.control_plane import leash
from tests.fuzz.catalogue import LONGEST, NAMES, REGRESSIONS, regressions

SLOWEST = 60
"""Seconds that one input may take."""
MEMORY_MIB = 2048
_PROGRESS = re.compile(r"#(\d+)\s+\w+ +cov: (\d+) ft: \d+ corp: (\d+)/")
_NO_ATHERIS = "atheris is not installed: there is no wheel of it for this Python and machine, or no package index"
REPORT_SECONDS = 10.0


@dataclass
class Progress:
    """How far a run has come."""

    started: float
    runs: int = 0
    coverage: int = 0
    corpus: int = 0
    finds: int = 0
    said: float = field(default_factory=time.monotonic)

    def read(self, line: str) -> None:
        """Take what a line of the worker tells."""
        if line.startswith("FIND "):
            self.finds += 1
            print(line.rstrip(), flush=True)
        elif line.startswith("STATUS "):
            self.runs = max(self.runs, int(line.split()[1]))
        elif found := _PROGRESS.match(line):
            self.runs, self.coverage, self.corpus = (
                max(self.runs, int(found[1])),
                int(found[2]),
                int(found[3]),
            )

    def __str__(self) -> str:
        seconds = max(time.monotonic() - self.started, 0.001)
        return (
            f"{seconds:.0f} s, {self.runs} executions ({self.runs / seconds:.0f}/s), coverage {self.coverage}, "
            f"corpus {self.corpus}, finds {self.finds}"
        )


def fuzz(name: str, folder: Path, *, seconds: int, runs: int, seed: int) -> int:
    """Fuzz one target; the exit code: 0 if nothing was found, 1 if something was, 2 if the fuzzer did not work."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "finds").mkdir(exist_ok=True)
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
    progress = Progress(time.monotonic())
    tail: list[str] = []
    worker_command = [sys.executable, "-m", "tests.fuzz.worker", name, str(folder), *options]
    command = [sys.executable, leash.__file__, str(os.getpid()), *worker_command]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=environment
    ) as worker:
        assert worker.stdout is not None
        for line in worker.stdout:
            tail = [*tail[-30:], line]
            progress.read(line)
            if time.monotonic() - progress.said > REPORT_SECONDS:
                progress.said = time.monotonic()
                print(f"{name}: {progress}", flush=True)
    print(f"{name}: {progress}", flush=True)
    if worker.returncode:
        print("".join(tail), end="", flush=True)
    if progress.finds or worker.returncode:
        print(
            f"{name}: inputs that break a law are in {folder / 'finds'}, each with its traceback. "
            f"Keep one as {REGRESSIONS / name}/WHAT-IT-BROKE once it is mended",
            flush=True,
        )
    return 2 if worker.returncode and not progress.finds else int(bool(progress.finds))


def replay(name: str, paths: list[Path]) -> int:
    """Try inputs again, each with its traceback if it still breaks a law."""
    from tests.fuzz.catalogue import find_target  # noqa: PLC0415 - loads the target

    target = find_target(name)
    for path in paths or regressions(name):
        print(path, flush=True)
        target.check(path.read_bytes())
    return 0


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
        return replay(given.target, given.replay)
    if importlib.util.find_spec("atheris") is None:
        print(_NO_ATHERIS, file=sys.stderr)
        return 2
    seconds = given.seconds or (0 if given.runs else 60)
    folder = given.folder or Path(".fuzz") / given.target
    return fuzz(given.target, folder, seconds=seconds, runs=given.runs, seed=given.seed)


if __name__ == "__main__":
    sys.exit(main())
