"""Who we are to the API server: the Authorization header, renewed beside the requests."""

import asyncio
from collections.abc import Callable
from time import monotonic

from webhook.cluster.api.access import Access

STALE_TIMES = 6.0
"""Times ``renew_seconds``: an older value is renewed before it is used. Between two reviews hours may pass."""


class Credentials:
    """The value of the header as ``access`` gives it.

    Requests go on with the old value while it is renewed: a token is replaced long before it ends
    (kubernetes pkg/kubelet/token/token_manager.go, requiresRefresh).

    Args:
        access: Says who we are.
        clock: Seconds that never go back.
    """

    def __init__(self, access: Access, *, clock: Callable[[], float] = monotonic) -> None:
        self._access = access
        self._clock = clock
        self._renewal: asyncio.Task[None] | None = None
        self._value = ""
        self._due = self._stale = clock()
        self.problem = ""
        """Why the value could not be renewed; empty when it was."""

    async def authorization(self) -> str:
        """The value; empty where a client certificate does."""
        now = self._clock()
        if now >= self._due and self._renewal is None:
            self._renewal = asyncio.create_task(self._renew())
        if now >= self._stale and self._renewal is not None:
            await asyncio.wait((self._renewal,))  # that neither cancels it nor is cancelled with it
        return self._value

    async def close(self) -> None:
        """Renew nothing any more."""
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.wait((self._renewal,))

    async def _renew(self) -> None:
        seconds = self._access.renew_seconds
        try:
            self._value, self.problem = sendable(await self._access.authorization()), ""
            self._stale = self._clock() + STALE_TIMES * seconds
        # The client's code for OIDC and exec plugins runs on what others sent, and fails with KeyError, AttributeError
        # and more. The old value may still do; the next renewal waits for its time.
        except Exception as error:
            self.problem = problem_of(error)
        finally:
            self._due = self._clock() + seconds
            self._renewal = None


def sendable(value: str) -> str:
    """The value, if a header can hold it.

    Raises:
        ValueError: it cannot.
    """
    if not value.isascii() or not value.isprintable():
        raise ValueError("expected a token of one line, found one with other characters")
    return value


def problem_of(error: Exception) -> str:
    """In one line, never empty; with the kind of an error that says little without it."""
    text, kind = " ".join(str(error).split()), type(error).__name__
    # The official client's ConfigException, by its name: whoever has no kubeconfig does not load the client.
    if isinstance(error, (OSError, ValueError)) or kind == "ConfigException":
        return text or kind
    return f"{kind}: {text}" if text else kind
