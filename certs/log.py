"""What is told about certificates: each thing that was done or that went wrong. Never key material."""

from typing import Literal, Protocol


class Say(Protocol):
    """Writes a line of a log."""

    def __call__(self, level: Literal["info", "warning", "error"], message: str, **fields: str) -> None:
        """``fields`` may be empty texts, which say nothing."""


class CertificateLog:
    """Tells ``say``; what goes wrong once, until it works again or fails otherwise."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._failure = ""

    def did(self, what: str, why: str = "") -> None:
        """Something was written, or served from now on."""
        self._say("info", "certificates", did=what, why=why)

    def failed(self, error: str) -> None:
        """Something did not work, and why."""
        if error != self._failure:
            self._failure = error
            self._say("error", "certificates", failed=error)

    def worked(self) -> None:
        """All is well again."""
        if self._failure:
            self._failure = ""
            self._say("info", "certificates", did="recovered")

    def waiting(self, what: str) -> None:
        """The server cannot listen yet."""
        self._say("warning", "certificates", waitingFor=what)

    def bug(self, traceback: str) -> None:
        """Something happened that should not be possible."""
        if traceback != self._failure:
            self._failure = traceback
            self._say("error", "bug", traceback=traceback)
