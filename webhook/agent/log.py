"""One JSON line for each thing that the agent did or that went wrong; a round that changes nothing writes none."""

import contextlib
import json
import os
from collections.abc import Sequence


class AgentLog:
    """Writes lines about ``node`` to the file descriptor ``descriptor``, each with one write."""

    def __init__(self, descriptor: int, *, node: str) -> None:
        self._descriptor = descriptor
        self._node = node

    def started(self, *, version: str, interval: float) -> None:
        """The agent runs, and its port is open."""
        self._write(message="started", version=version, intervalSeconds=interval)

    def discovered(self, *, state: str, gpus: int, findings: Sequence[str], problem: str, nccl_problem: str) -> None:
        """A discovery differs from the one before."""
        self._write(
            message="discovered",
            state=state,
            gpus=gpus,
            findings=list(findings),
            problem=problem,
            ncclProblem=nccl_problem,
        )

    def wrote(self, kind: str, name: str, text: str = "") -> None:
        """An object was written."""
        self._write(message="wrote", kind=kind, name=name, text=text)

    def failed(self, error: str, *, kind: str, retry_seconds: float | None = None) -> None:
        """Something did not work, and why."""
        retry = None if retry_seconds is None else round(retry_seconds, 1)
        self._write(message="failed", kind=kind, error=error, retrySeconds=retry)

    def recovered(self, failures: int) -> None:
        """The cluster has the topology again."""
        self._write(message="recovered", failures=failures)

    def bug(self, traceback: str) -> None:
        """Something happened that should not be possible."""
        self._write(message="bug", error=traceback)

    def stopping(self, signal_name: str) -> None:
        """A signal ends the program."""
        self._write(message="stopping", signal=signal_name)

    def _write(self, **members: object) -> None:
        line = {"message": members.pop("message"), "node": self._node}
        line.update((key, value) for key, value in members.items() if value not in (None, "", []))
        with contextlib.suppress(OSError):  # the node is watched even when nobody reads the log
            os.write(self._descriptor, json.dumps(line).encode() + b"\n")
