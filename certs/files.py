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
"""The time between two looks. The kubelet brings a changed Secret to its files within about a minute and a half
(kubernetes.io, "Mounted Secrets are updated automatically")."""


class FileKeeper:
    """Keeps ``live`` at the content of the files.

    Contents are compared, because a mounted Secret is swapped as a whole, by a link. Content that cannot be used is
    logged, and the old content stays in use.

    Args:
        live: The context that takes the certificates.
        log: The log of all changes and failures.
        directory: The folder with ``tls.crt`` and ``tls.key``; None if another program replaces the certificate.
        client_authority: The PEM file of the authority of clients; None if clients need no certificate.
        authority_setting: The setting that names ``client_authority``, for errors.
        seconds: The time between two looks.
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
        """Use the changed content of the files.

        Raises:
            BundleError: the content cannot be read or used.
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
        """Start to watch the files. The caller has already called :meth:`look` once."""
        self._task = asyncio.create_task(self._care())

    async def close(self) -> None:
        """Stop watching."""
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
        if again:  # the first time is the start of the program, which is not logged
            self._log.did(what, why)


def _read(path: Path, setting: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BundleError(f"{setting}: {path}: expected the authority of clients, PEM: {error.strerror}") from None
