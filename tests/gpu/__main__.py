"""``make gpu``: tries on a machine with GPUs what this project claims; prints a table and writes one archive.

Exit codes: 0 what was tried holds, 1 something fails, 2 nothing that could hold was tried.
"""

import argparse
import dataclasses
import json
import signal
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from tests.gpu.outcome import ROOT, Machine, NotTriedError, Outcome, Verdict
from tests.gpu.run import Run
from tests.gpu.steps import STEPS
from webhook.programs.verify.library import CallFailed, explained
from webhook.words.printable import fitted

_CORE = ROOT / "gpu-kit" / "libvgpu.so"


def main(arguments: Sequence[str]) -> int:
    """Run the steps, or one of them, and return the exit code."""
    parser = argparse.ArgumentParser(prog="make gpu", description=__doc__)
    parser.add_argument("--output", type=Path, metavar="FILE", help="the archive; else gpu-<time>.tar.gz here")
    parser.add_argument("--minutes", type=float, default=12.0, help="after which no step begins or goes on (12)")
    parser.add_argument("--hami-core", default=str(_CORE) if _CORE.is_file() else "", metavar="FILE", help="libvgpu.so")
    parser.add_argument("--agent-seconds", type=float, default=60.0, help="how long the agent runs (60)")
    parser.add_argument("--idle-seconds", type=float, default=10.0, help="how long idle counters are watched (10)")
    parser.add_argument("--step", choices=[step.name for step in STEPS], help="run this step in this process")
    parser.add_argument("--folder", type=Path, help="where --step finds and leaves its files")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="gpu-run-", ignore_cleanup_errors=True) as temporary:
        folder = options.folder or Path(temporary)
        machine = Machine(folder, options.hami_core, options.agent_seconds, options.idle_seconds)
        if options.step:
            return _run_one(options.step, machine)
        archive = options.output or Path(f"gpu-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.tar.gz")
        if archive.exists():
            parser.error(f"{archive} exists; name another file with --output")
        return _run_all(Run(machine, archive.absolute(), options.minutes))


def _run_one(name: str, machine: Machine) -> int:
    step = next(step for step in STEPS if step.name == name)
    try:
        outcome = step.run(machine)
    except NotTriedError as reason:
        outcome = Outcome(Verdict.NOT_TRIED, str(reason))
    except CallFailed as error:
        said = f" ({error.said})" if error.said else ""
        outcome = Outcome(Verdict.FAILS, explained(error.function, error.code) + said)
    document = dataclasses.asdict(dataclasses.replace(outcome, why=fitted(outcome.why)))
    (machine.folder / f"{name}.json").write_text(json.dumps(document, indent=2, default=str), encoding="utf-8")
    return 0


def _run_all(run: Run) -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for number, row in enumerate(run.steps(), 1):
            _print(f"{number} of {len(STEPS)}, {row.step}: {row.outcome.verdict}, {row.seconds:.1f} s")
    except KeyboardInterrupt:
        _print("ended before all steps were run")
    except OSError as error:
        _print(f"{run.archive} cannot be written: {error.strerror}")
        return 1
    print(run.table(), end="")
    _print(f"{run.archive} is written. Look into it before you give it to others.")
    return run.exit_code()


def _print(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
