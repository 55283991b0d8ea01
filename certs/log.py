"""The log of certificates: each change and each failure, and never key material."""

from typing import Literal, Protocol


class Say(Protocol):
    """A function that writes a line of a log."""

    def __call__(self, level: Literal["info", "warning", "error"], message: str, **fields: str) -> None:
        """Write one line. Empty texts in ``fields`` are allowed and mean nothing."""


class CertificateLog:
    """Writes to ``say``; a failure once, until the care works again or fails otherwise."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._failure = ""

    def did(self, what: str, why: str = "") -> None:
        """Log that something was written, or is served from now on."""
        self._say("info", "certificates", did=what, why=why)

    def failed(self, error: str) -> None:
        """Log a failure with its reason."""
        if error != self._failure:
            self._failure = error
            self._say("error", "certificates", failed=error)

    def worked(self) -> None:
        """Log the recovery, if there was a failure."""
        if self._failure:
            self._failure = ""
            self._say("info", "certificates", did="recovered")

    def waiting(self, what: str) -> None:
        """Log that the server cannot listen yet."""
        self._say("warning", "certificates", waitingFor=what)

    def bug(self, traceback: str) -> None:
        """Log an unexpected exception."""
        if traceback != self._failure:
            self._failure = traceback
            self._say("error", "bug", traceback=traceback)
