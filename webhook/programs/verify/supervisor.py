"""The supervisor of the process that measures: it sends one step at a time, and ends a process that takes too long."""

import socket
import subprocess
import sys
from types import TracebackType
from typing import NoReturn, Self

import msgspec

from webhook.hardware.measurement.messages import ASK, MAX_BYTES, TOLD

_ENDS_WITHIN_SECONDS = 5.0
_MOST_ENDED = 3
"""The number of ended processes after which the supervisor gives up, because each may leave a card that hangs."""


class StepLost(Exception):
    """The error of a step without an answer. Its text is one of the reasons of a report."""


_ANSWERS: msgspec.json.Decoder[TOLD] = msgspec.json.Decoder(TOLD)
TIMED_OUT, ENDED, GIVEN_UP = "step-timed-out", "process-ended", "given-up"


class Supervisor:
    """The process that measures. It is started with the first step, and again after a lost step."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._lost = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def ask(self, request: ASK, seconds: float) -> TOLD:
        """Runs a step and returns its answer.

        Args:
            request: The step.
            seconds: The time limit of the step.

        Raises:
            StepLost: the step took longer, the process died, or too many steps were lost before.
        """
        if self._lost >= _MOST_ENDED:
            raise StepLost(GIVEN_UP)
        channel = self._channel or self._start()
        channel.settimeout(seconds)
        try:
            channel.sendall(msgspec.json.encode(request))
            said = channel.recv(MAX_BYTES)
        except TimeoutError:
            self._lose(TIMED_OUT)
        except OSError:
            self._lose(ENDED)
        if not said:
            self._lose(ENDED)
        return _ANSWERS.decode(said)

    @property
    def pid(self) -> int:
        """The PID of the process, which is started for it."""
        if self._process is None:
            self._start()
        return self._process.pid if self._process else 0

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        descriptor = theirs.fileno()
        command = [sys.executable, "-m", "webhook.programs.verify.worker", str(descriptor)]
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - ourselves
                command, stdin=subprocess.DEVNULL, stdout=2, pass_fds=(descriptor,)
            )
        self._channel = ours
        return ours

    def _lose(self, reason: str) -> NoReturn:
        self._lost += 1
        if not self._end():
            self._lost = _MOST_ENDED
        raise StepLost(reason)

    def _end(self) -> bool:
        """Kills the process; returns whether it ended. A process that waits in the kernel for a driver does not end."""
        if self._channel:
            self._channel.close()
        process, self._channel, self._process = self._process, None, None
        if not process:
            return True
        process.kill()
        try:
            process.wait(_ENDS_WITHIN_SECONDS)
        except subprocess.TimeoutExpired:
            return False
        return True
