"""Who we are to the API server: the Authorization header, renewed beside the requests."""

import asyncio
from collections.abc import Callable
from time import monotonic

from webhook.kube.access import Access

RENEW_SECONDS = 10.0
"""So often a token file is read; the official client does it once a minute (kubernetes/config/incluster_config.py)."""
STALE_SECONDS = 60.0
"""A header that is older is renewed before it is used; between two reviews hours may pass."""


class Credentials:
    """The header as ``access`` gives it.

    To renew it reads the token file, and for a kubeconfig with an exec plugin may run a program, so that happens in a
    thread. Requests go on with the old header meanwhile: a token is replaced long before it ends
    (kubernetes pkg/kubelet/token/token_manager.go, requiresRefresh; kubernetes/config/kube_config.py, _is_expired).

    Args:
        access: Says who we are.
        clock: Seconds that never go back.
    """

    def __init__(self, access: Access, *, clock: Callable[[], float] = monotonic) -> None:
        self._access = access
        self._clock = clock
        self._renewal: asyncio.Task[None] | None = None
        self._header = ""
        self._due = self._stale = 0.0
        self._take(self._read())
        self.problem = ""
        """Why the header could not be renewed; empty when it was."""

    def header(self) -> str | None:
        """The header as a line; empty where a client certificate does, ``None`` if it is too old (:meth:`renewed`)."""
        now = self._clock()
        if now >= self._due and self._renewal is None:
            self._renewal = asyncio.create_task(self._renew())
        return self._header if now < self._stale else None

    async def renewed(self) -> str:
        """The header once it is renewed; the old one if it cannot be."""
        if self._renewal is not None:
            await asyncio.wait((self._renewal,))  # that neither cancels it nor is cancelled with it
        return self._header

    async def close(self) -> None:
        """Renew nothing any more."""
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.wait((self._renewal,))

    async def _renew(self) -> None:
        try:
            self._take(await asyncio.to_thread(self._read))
            self.problem = ""
        # Whatever it is: the hook runs the client's code for OIDC and exec plugins on what others sent, and that fails
        # with KeyError, AttributeError and more. The old header may still do; the next renewal waits for its time.
        except Exception as error:
            self._due = self._clock() + RENEW_SECONDS
            self.problem = problem_of(error)
        finally:
            self._renewal = None

    def _read(self) -> str:
        """The value of the header; it is renewed first if it must be."""
        value = (self._access.get_api_key_with_prefix("BearerToken") or "").strip()
        if not value.isascii() or not value.isprintable():
            raise ValueError("expected a token of one line, found one with other characters")
        return value

    def _take(self, value: str) -> None:
        now = self._clock()
        self._header = f"Authorization: {value}\r\n" if value else ""
        self._due, self._stale = now + RENEW_SECONDS, now + STALE_SECONDS


def problem_of(error: Exception) -> str:
    """In one line, never empty; with the kind of an error that says little without it."""
    text, kind = " ".join(str(error).split()), type(error).__name__
    # The official client's ConfigException, by its name: whoever has no kubeconfig does not load the client.
    if isinstance(error, (OSError, ValueError)) or kind == "ConfigException":
        return text or kind
    return f"{kind}: {text}" if text else kind
