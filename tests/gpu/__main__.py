"""``make gpu``: the trial of this project's claims on a machine with GPUs, without a network if need be.

Exit codes: 0 what could be tried holds, 1 something fails, 2 nothing could be tried.
"""

import argparse
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from tests.gpu.kit import KIT, found_in_kit
from tests.gpu.pods import Cluster
from tests.gpu.trial import FAILED, Trial, Wanted, table


def main(arguments: Sequence[str]) -> int:
    """Try the machine, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu", description=__doc__)
    parser.add_argument("--output", type=Path, metavar="FILE", help="the archive; else gpu-<time>.tar.gz here")
    parser.add_argument("--python", default="", metavar="PROGRAM", help="the Python that has PyTorch")
    parser.add_argument("--hami-core", default="", metavar="FILE", help="HAMi-core's library, libvgpu.so")
    parser.add_argument("--idle-seconds", type=float, default=60.0, help="how long idle counters are watched")
    parser.add_argument("--minutes", type=float, default=45.0, help="after which no step is begun or goes on")
    parser.add_argument(
        "--step-seconds", type=float, metavar="SECONDS", help="how long any step may take; else each has its own limit"
    )
    parser.add_argument("--namespace", default="", help="of a cluster, one that has opted in: pods are tried there")
    parser.add_argument("--image", default="", help="of the webhook, for these pods")
    parser.add_argument("--kubeconfig", type=Path, help="of the cluster; else as kubectl finds it")
    parser.add_argument("--dry-run", action="store_true", help="only look at the machine, and print what would be run")
    given = parser.parse_args(arguments)
    if bool(given.namespace) != bool(given.image):
        parser.error("give --namespace and --image, or neither")
    output = given.output or Path(f"gpu-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.tar.gz")
    if output.exists():
        parser.error(f"{output} is there already; give another file with --output")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="gpu-topology-trial-", ignore_cleanup_errors=True) as folder:
        try:
            return _tried(Trial(_wanted(given, output.absolute()), Path(folder), _tell), dry_run=given.dry_run)
        except OSError as error:
            _tell(f"{output} cannot be written: {error.strerror}")
            return FAILED


def _wanted(given: argparse.Namespace, output: Path) -> Wanted:
    options = ("--kubeconfig", str(given.kubeconfig.absolute())) if given.kubeconfig else ()
    cluster = Cluster(namespace=given.namespace, image=given.image, options=options) if given.namespace else None
    kit = found_in_kit(KIT)
    return Wanted(
        output=output,
        python=given.python,
        libraries=":".join(filter(None, (kit.nccl, os.environ.get("LD_LIBRARY_PATH", "")))) if kit.nccl else "",
        hami_core=given.hami_core or kit.hami_core,
        idle_seconds=given.idle_seconds,
        cluster=cluster,
        minutes=given.minutes,
        step_seconds=given.step_seconds,
        host=socket.gethostname(),
    )


def _tried(trial: Trial, *, dry_run: bool) -> int:
    trial.look()
    if dry_run:
        for step in trial.planned():
            print(f"{step.name:<24}at most {step.seconds:g} s  {step.hindrance or step.says}")
        trial.wanted.output.unlink()
        return 0
    trial.run()
    print(table(trial.results(), trial.verdicts()), end="")
    _tell(f"{trial.wanted.output} is written. Look into it before you give it to others.")
    return trial.exit_code()


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
