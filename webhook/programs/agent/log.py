"""One JSON line for each thing that the agent did or that went wrong; a round that changes nothing writes none."""

from collections.abc import Sequence

from webhook.programs.log import Log


class AgentLog(Log):
    """Writes lines about ``node`` to the file descriptor ``descriptor``."""

    def __init__(self, descriptor: int, *, node: str) -> None:
        super().__init__(descriptor, node=node)

    def started(self, *, version: str, interval: float) -> None:
        """The agent runs, and its port is open."""
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
        """A discovery differs from the one before."""
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
        """An object was written."""
        self.say("info", "wrote", kind=kind, name=name, text=text)

    def failed(self, error: str, *, kind: str, retry_seconds: float | None = None) -> None:
        """Something did not work, and why."""
        retry = None if retry_seconds is None else round(retry_seconds, 1)
        self.say("warning", "failed", kind=kind, error=error, retrySeconds=retry)

    def measured(self, *, pairs: int, slower: int) -> None:
        """The bandwidth between GPUs is measured, of so many pairs in so many directions."""
        self.say("warning" if slower else "info", "measured", pairs=pairs, slower=slower)

    def not_measured(self, why: str) -> None:
        """There was nothing to measure."""
        self.say("info", "not measured", text=why)

    def taints(self, message: str) -> None:
        """Claims cannot be kept from GPUs as they should."""
        self.say("warning", "taints", text=message)

    def recovered(self, failures: int) -> None:
        """The cluster has the topology again."""
        self.say("info", "recovered", failures=failures)

    def bug(self, traceback: str) -> None:
        """Something happened that should not be possible."""
        self.say("error", "bug", traceback=traceback)

    def stopping(self, signal_name: str) -> None:
        """A signal ends the program."""
        self.say("info", "stopping", signal=signal_name)
