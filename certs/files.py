"""Certificates in files that another program renews: a Secret that cert-manager fills and the kubelet mounts."""

import asyncio
import contextlib
from datetime import UTC, datetime
from pathlib import Path

from certs.bundle import TlsBundle, check_bundle, read_bundle
from certs.context import LiveContext
from certs.errors import BundleError
from certs.log import CertificateLog
from certs.served import Served

SECONDS = 15.0
"""Between two looks. The kubelet itself brings a changed Secret to its files within about a minute and a half
(kubernetes.io, "Mounted Secrets are updated automatically")."""


class FileKeeper:
    """Keeps ``live`` at what the files hold. Contents are compared: a mounted Secret is swapped as a whole, by a link.

    What cannot be used is passed over and logged; what was served before stays.

    Args:
        live: Takes the certificates.
        log: Hears what is done.
        directory: With ``tls.crt`` and ``tls.key``; None: another program looks after them.
        client_authority: Whose certificates clients must show, PEM; None: they need none.
        authority_setting: What names that file, for errors.
        seconds: Between two looks.
    """

    def __init__(
        self,
        live: LiveContext,
        log: CertificateLog,
        *,
        directory: Path | None = None,
        client_authority: Path | None = None,
        authority_setting: str = "server.clientAuthority",
        seconds: float = SECONDS,
    ) -> None:
        self._live = live
        self._log = log
        self._directory = directory
        self._client_authority = client_authority
        self._authority_setting = authority_setting
        self._seconds = seconds
        self._bundle: TlsBundle | None = None
        self._clients: bytes | None = None
        self._task: asyncio.Task[None] | None = None
        self.served = Served()

    def look(self) -> None:
        """Use what changed in the files.

        Raises:
            BundleError: it cannot be used, or not be read.
        """
        if self._client_authority is not None:
            clients = _read(self._client_authority, self._authority_setting)
            if clients != self._clients:
                self._live.replace(client_authority=clients)
                self._tell("demanding", "certificates of clients", again=self._clients is not None)
                self._clients = clients
        if self._directory is not None:
            bundle = read_bundle(self._directory)
            if bundle != self._bundle:
                check_bundle(bundle, now=datetime.now(UTC))
                self._live.replace(bundle=bundle)
                self.served.take(bundle)
                self._tell("serving", f"new files in {self._directory}", again=self._bundle is not None)
                self._bundle = bundle

    async def open(self) -> None:
        """Begin; the first look was taken by whoever made this."""
        self._task = asyncio.create_task(self._care())

    async def close(self) -> None:
        """End."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _care(self) -> None:
        while True:
            await asyncio.sleep(self._seconds)
            try:
                await asyncio.to_thread(self.look)
                self._log.worked()
            except BundleError as error:
                self.served.failures += 1
                self._log.failed(str(error))

    def _tell(self, what: str, why: str, *, again: bool) -> None:
        if again:  # the first time is the start of the program
            self._log.did(what, why)


def _read(path: Path, setting: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BundleError(f"{setting}: {path}: expected the authority of clients, PEM: {error.strerror}") from None
