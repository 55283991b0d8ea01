"""An access that a test decides about: where the API server is, and a token in a file."""

import asyncio
import ssl
from pathlib import Path

from webhook.cluster.api.trust import TlsFiles, Trust


class ToldAccess:
    """:class:`webhook.cluster.api.access.Access`.

    Attributes:
        may_read: While it is not set, whoever asks for the token waits.
        error: What happens instead of a token.
        reads: How often the token was asked for.
    """

    renew_seconds = 10.0
    tls_server_name: str | None = None
    proxy: str | None = None

    def __init__(self, url: str, *, token: Path | None = None, authority: Path | None = None) -> None:
        self.url = url
        self.token = token
        self.may_read = asyncio.Event()
        self.may_read.set()
        self.error: Exception | None = None
        self.reads = 0
        self._trust = Trust(TlsFiles(authority=str(authority) if authority else None, server=url))

    def tls(self) -> ssl.SSLContext:
        return self._trust.context()

    async def authorization(self) -> str:
        await self.may_read.wait()
        self.reads += 1
        if self.error:
            raise self.error
        return f"Bearer {self.token.read_text().strip()}" if self.token else ""
