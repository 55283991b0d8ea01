"""``ipc WAY CARD CARD``: two processes exchange memory of their cards, in namespaces that they share or not.

The cards are NVML indices: of the process that offers memory, and of the one that takes it.

It decides whether peers need the namespaces of the host. The report has CUDA's own error for each kind of handle, with
equal and with different PID values. In namespaces of their own a handle of CUDA IPC has to work with different values:
``gpu.topology/isolation: isolated`` rests on that.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.gpu.probes.ending import ended, not_tried

WAYS = {
    "plain": (),
    "pids": ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"),
    "isolated": ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--ipc", "--net"),
}
_STEP_SECONDS, _SECONDS = 10.0, 150.0


def main() -> None:
    """Start both, and print the report of the peer."""
    wrapped, offering, taking = WAYS[sys.argv[1]], sys.argv[2], sys.argv[3]
    if wrapped and (refused := _refused(wrapped)):
        not_tried(f"no such namespaces here: {refused}")
    with tempfile.TemporaryDirectory() as folder:
        address = str(Path(folder) / "verify.sock")
        with (
            _started(wrapped, offering, "--listen", address) as listener,
            _started(wrapped, taking, "--peer", address) as peer,
        ):
            try:
                out, problem = peer.communicate(timeout=_SECONDS)
            except subprocess.TimeoutExpired:
                ended({}, f"the two were not done after {_SECONDS:g} seconds")
            finally:
                peer.kill()
                listener.kill()
    _judge(out, problem, own_pids=bool(wrapped))


def _started(wrapped: tuple[str, ...], card: str, *arguments: str) -> "subprocess.Popen[str]":
    command = [*wrapped, sys.executable, "-m", "webhook", "verify", *arguments, "--gpus", card, "--force"]
    command += ["--step-seconds", f"{_STEP_SECONDS:g}", "-o", "json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _refused(wrapped: tuple[str, ...]) -> str:
    try:
        done = subprocess.run([*wrapped, "true"], capture_output=True, text=True, check=False, timeout=20)
    except OSError as error:
        return str(error)
    return done.stderr.strip() if done.returncode else ""


def _judge(out: str, problem: str, *, own_pids: bool) -> None:
    try:
        report: Any = json.loads(out)
    except ValueError:
        not_tried(problem.strip().splitlines()[-1] if problem.strip() else "the peer said nothing")
    said = ", ".join(map(_outcome, report["outcomes"]))
    if own_pids and not any(_decides(each) and each["verdict"] != "not-tried" for each in report["outcomes"]):
        print(json.dumps(report, indent=2), flush=True)
        not_tried(f"no handle of CUDA IPC was tried with different PIDs: {said}")
    ended(report, refuted(report["outcomes"], own_pids=own_pids), said)


def refuted(outcomes: Sequence[Any], *, own_pids: bool) -> str:
    """Why the outcomes refute what this project claims; empty if they do not.

    Args:
        outcomes: What ``verify`` reports of each trial.
        own_pids: Whether each process had a PID namespace of its own.
    """
    works = [each for each in outcomes if each["verdict"] == "works"]
    if own_pids and not any(map(_decides, works)):
        return "no handle of CUDA IPC works with different PIDs, so isolated peers reach nothing by it"
    return "" if works else "no kind of handle carries memory from one process to the other"


def _decides(outcome: Any) -> bool:
    return outcome["kind"] == "cuda-ipc" and not outcome["pidsEqual"]


def _outcome(found: Any) -> str:
    """Such as ``cuda-ipc/equal refused cuIpcOpenMemHandle_v2 201``: CUDA's own error."""
    pids = "equal" if found["pidsEqual"] else "different"
    error = [found["function"], str(found["code"])] if found["function"] else []
    return " ".join([f"{found['kind']}/{pids}", found["verdict"], *error])


if __name__ == "__main__":
    main()
