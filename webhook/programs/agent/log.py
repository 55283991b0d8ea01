"""The log of the agent: one JSON line for each action or failure. A round that changes nothing writes no line."""

from collections.abc import Sequence

from webhook.programs.log import Log


class AgentLog(Log):
    """Writes lines about ``node`` to the file descriptor ``descriptor``."""

    def __init__(self, descriptor: int, *, node: str) -> None:
        super().__init__(descriptor, node=node)

    def started(self, *, version: str, interval: float) -> None:
        """Logs that the agent runs and its port is open."""
        self.say("info", "started", version=version, intervalSeconds=interval)

    def discovered(
        self,
        *,
        state: str,
        gpus: int,
        findings: Sequence[str],
        slower: Sequence[str],
        problem: str,
        nccl_problem: str,
    ) -> None:
        """Logs a discovery that differs from the one before."""
        self.say(
            "warning" if findings or slower or problem else "info",
            "discovered",
            state=state,
            gpus=gpus,
            findings=list(findings),
            slower=list(slower),
            problem=problem,
            ncclProblem=nccl_problem,
        )

    def wrote(self, kind: str, name: str, text: str = "") -> None:
        """Logs that an object was written."""
        self.say("info", "wrote", kind=kind, name=name, text=text)

    def failed(self, error: str, *, kind: str, retry_seconds: float | None = None) -> None:
        """Logs a failure and its cause."""
        retry = None if retry_seconds is None else round(retry_seconds, 1)
        self.say("warning", "failed", kind=kind, error=error, retrySeconds=retry)

    def measured(self, *, pairs: int, slower: int) -> None:
        """Logs that bandwidths were measured, with the number of pairs and of those slower than expected."""
        self.say("warning" if slower else "info", "measured", pairs=pairs, slower=slower)

    def not_measured(self, why: str) -> None:
        """Logs why nothing was measured."""
        self.say("info", "not measured", text=why)

    def taints(self, message: str) -> None:
        """Logs why some claims cannot be kept from ill GPUs."""
        self.say("warning", "taints", text=message)

    def recovered(self, failures: int) -> None:
        """Logs that the cluster has the topology again, after so many failures."""
        self.say("info", "recovered", failures=failures)

    def bug(self, traceback: str) -> None:
        """Logs the traceback of a bug."""
        self.say("error", "bug", traceback=traceback)

    def stopping(self, signal_name: str) -> None:
        """Logs that a signal ends the program."""
        self.say("info", "stopping", signal=signal_name)
