"""The credentials for the API server: the Authorization header, renewed beside the requests."""

import asyncio
from collections.abc import Callable
from time import monotonic

from webhook.cluster.api.access import Access

STALE_TIMES = 6.0
"""The factor of ``renew_seconds`` above which a value is renewed before use. Hours may pass between two reviews."""


class Credentials:
    """The value of the Authorization header, which ``access`` gives.

    Requests use the old value during a renewal, because a token is replaced long before it ends
    (kubernetes pkg/kubelet/token/token_manager.go, requiresRefresh).

    Args:
        access: The source of the value.
        clock: A clock in seconds that never goes back.
    """

    def __init__(self, access: Access, *, clock: Callable[[], float] = monotonic) -> None:
        self._access = access
        self._clock = clock
        self._renewal: asyncio.Task[None] | None = None
        self._value = ""
        self._due = self._stale = clock()
        self.problem = ""
        """The reason why the last renewal failed; empty if it succeeded."""

    async def authorization(self) -> str:
        """Return the value; empty if a client certificate replaces it."""
        now = self._clock()
        if now >= self._due and self._renewal is None:
            self._renewal = asyncio.create_task(self._renew())
        if now >= self._stale and self._renewal is not None:
            await asyncio.wait((self._renewal,))  # does not cancel the renewal when this task is cancelled
        return self._value

    async def close(self) -> None:
        """Stop all renewals."""
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.wait((self._renewal,))

    async def _renew(self) -> None:
        seconds = self._access.renew_seconds
        try:
            self._value, self.problem = sendable(await self._access.authorization()), ""
            self._stale = self._clock() + STALE_TIMES * seconds
        # The client's code for OIDC and exec plugins reads foreign input, and fails with KeyError, AttributeError and
        # more. The old value may still be valid. The next renewal comes at its usual time.
        except Exception as error:
            self.problem = problem_of(error)
        finally:
            self._due = self._clock() + seconds
            self._renewal = None


def sendable(value: str) -> str:
    """Return the value, if a header can hold it.

    Raises:
        ValueError: a header cannot hold the value.
    """
    if not value.isascii() or not value.isprintable():
        raise ValueError("expected a token of one line, found one with other characters")
    return value


def problem_of(error: Exception) -> str:
    """Describe the error in one line, never empty, with the error's type where the text needs it."""
    text, kind = " ".join(str(error).split()), type(error).__name__
    # The official client's ConfigException is found by its name, so that others need not load the client.
    if isinstance(error, (OSError, ValueError)) or kind == "ConfigException":
        return text or kind
    return f"{kind}: {text}" if text else kind
