"""The care of the certificate of a running server, beside its event loop: by the cluster, or by files."""

import asyncio
import contextlib
import random
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from certs import BundleError, CertsError, Conflict
from certs.certificate import TlsBundle, check_bundle, load
from certs.context import LiveContext

if TYPE_CHECKING:
    from certs.rounds import Replica

SKEW = timedelta(minutes=5)
"""The difference of clocks above which a line is logged."""
FILES_SECONDS = 15.0
"""The time between two looks at files. The kubelet brings a changed Secret to its files within about a minute and a
half (kubernetes.io, "Mounted Secrets are updated automatically")."""


class Say(Protocol):
    """A function that writes a line of a log."""

    def __call__(self, level: Literal["info", "warning", "error"], message: str, **fields: str) -> None:
        """Write one line. Empty texts in ``fields`` are allowed and mean nothing."""


@dataclass(slots=True)
class Served:
    """The dates and failures of the served certificate, as plain values for metrics."""

    certificate_ends: float | None = None
    """Unix seconds; None while nothing is served."""
    authority_ends: float | None = None
    """Unix seconds; None while nothing is served, or the authority is not known."""
    failures: int = 0
    """The number of failed looks since the start."""
    leads: bool = False
    """True if this replica renews for all."""

    def take(self, bundle: TlsBundle) -> None:
        """Record the bundle that is served now."""
        self.certificate_ends, self.authority_ends = _end(bundle.certificate), _end(bundle.authority)


class Keeper:
    """Keeps ``live`` at the content of the Secret and, if this replica leads, the Secret in order.

    While the API server cannot be reached, the server goes on with its present certificate.

    Args:
        replica: The care, round after round. Its ``serve`` becomes that of this keeper.
        live: The context that takes the certificates.
        say: Writes the log of all changes and failures.
        chance: A random number between 0 and 1, so that replicas spread their requests in time.
    """

    def __init__(
        self, replica: "Replica", live: LiveContext, say: Say, *, chance: Callable[[], float] = random.random
    ) -> None:
        self._replica = replica
        self._live = live
        self._log = _Log(say)
        self._chance = chance
        self._ready = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._skewed = False
        self._works = True
        self.served = Served()
        replica.serve = self._serve

    async def open(self) -> None:
        """Start the rounds, and return once there is a certificate to listen with."""
        self._task = asyncio.create_task(self._care())
        try:
            await self._ready.wait()
        except asyncio.CancelledError:
            await self.close()
            raise

    async def close(self) -> None:
        """Stop the rounds, wherever they are, and give up the lead if the API server can be reached."""
        await _end_task(self._task)
        if self._works:
            with contextlib.suppress(CertsError):
                await self._replica.cluster.leave()
        await self._replica.cluster.close()

    async def _care(self) -> None:
        failures, waiting_for = 0, ""
        while True:
            self._works = await self._round()
            failures = 0 if self._works else failures + 1
            if self._replica.in_hand is not None:
                self._ready.set()
            elif self._works and self._replica.waiting_for != waiting_for:
                waiting_for = self._replica.waiting_for
                self._log.say("warning", "certificates", waitingFor=waiting_for)
            await asyncio.sleep(self._delay(failures))

    def _delay(self, failures: int) -> float:
        """Return the seconds to the next round: fewer after a change, more after failures, with a random part."""
        pace, eager = self._replica.pace, bool(self._replica.changes) or self._replica.in_hand is None
        self._replica.changes.clear()
        if failures:
            most: float = min(pace.soon * 2.0 ** min(failures, 16), 2 * pace.check)
            return most * (0.5 + self._chance() / 2)
        return (pace.soon if eager else pace.check) * (0.8 + 0.4 * self._chance())

    async def _round(self) -> bool:
        """Run one round, and return whether it succeeded."""
        try:
            await self._replica.round()
        except Conflict:  # another replica was faster, so look again
            self._replica.changes.clear()
            return False
        except CertsError as error:
            self.served.failures += 1
            self._log.failed(str(error))
            return False
        except Exception:  # one unexpected answer must not end the care for good
            self.served.failures += 1
            self._log.bug(traceback.format_exc())
            return False
        finally:
            self.served.leads = self._replica.leads
            if self._replica.at is not None:
                self._compare_clocks(self._replica.at)
            for change in self._replica.changes:
                self._log.did(change.what, change.why)
        self._log.worked()
        return True

    def _serve(self, pair: TlsBundle) -> None:
        self._live.replace(bundle=pair)
        self.served.take(pair)

    def _compare_clocks(self, at: datetime) -> None:
        """Log when our clock and the API server's begin to differ. The API server's clock counts."""
        ours = datetime.now(UTC)
        skewed = abs(ours - at) > SKEW
        if skewed and not self._skewed:
            self._log.did(
                "noticed", f"this machine's clock says {ours:%Y-%m-%d %H:%M}, the API server's {at:%Y-%m-%d %H:%M}"
            )
        self._skewed = skewed


class FileKeeper:
    """Keeps ``live`` at the content of files that another program renews, such as a Secret of cert-manager.

    Contents are compared, because a mounted Secret is swapped as a whole, by a link. Content that cannot be used is
    logged, and the old content stays in use.

    Args:
        live: The context that takes the certificates.
        say: Writes the log of all changes and failures.
        directory: The folder with ``tls.crt`` and ``tls.key``; None if another program replaces the certificate.
        client_authority: The PEM file of the authority of clients; None if clients need no certificate.
        authority_setting: The setting that names ``client_authority``, for errors.
        seconds: The time between two looks.
    """

    def __init__(
        self,
        live: LiveContext,
        say: Say,
        *,
        directory: Path | None = None,
        client_authority: Path | None = None,
        authority_setting: str = "server.clientAuthority",
        seconds: float = FILES_SECONDS,
    ) -> None:
        self._live = live
        self._log = _Log(say)
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
            clients = _read_authority(self._client_authority, self._authority_setting)
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
        await _end_task(self._task)

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


def read_bundle(directory: Path) -> TlsBundle:
    """Read ``tls.crt``, ``tls.key`` and, if it exists, ``ca.crt``.

    Raises:
        BundleError: ``tls.crt`` or ``tls.key`` cannot be read.
    """
    try:
        certificate, key = ((directory / name).read_bytes() for name in ("tls.crt", "tls.key"))
    except OSError as error:
        raise BundleError(
            f"{directory}: expected tls.crt and tls.key: {error.strerror}: {error.filename}. "
            "Mount the webhook's TLS Secret there, or try --self-signed"
        ) from None
    authority = directory / "ca.crt"
    return TlsBundle(certificate, key, authority.read_bytes() if authority.exists() else b"")


class _Log:
    """The log, never with key material. It tells a failure once, until the care works again or fails otherwise."""

    def __init__(self, say: Say) -> None:
        self.say = say
        self._failure = ""

    def did(self, what: str, why: str = "") -> None:
        """Log that something was written, or is served from now on."""
        self.say("info", "certificates", did=what, why=why)

    def worked(self) -> None:
        """Log the recovery, if there was a failure."""
        if self._failure:
            self._failure = ""
            self.did("recovered")

    def failed(self, error: str) -> None:
        """Log a failure with its reason."""
        if error != self._failure:
            self._failure = error
            self.say("error", "certificates", failed=error)

    def bug(self, traceback: str) -> None:
        """Log an unexpected exception."""
        if traceback != self._failure:
            self._failure = traceback
            self.say("error", "bug", traceback=traceback)


async def _end_task(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def _read_authority(path: Path, setting: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BundleError(f"{setting}: {path}: expected the authority of clients, PEM: {error.strerror}") from None


def _end(pem: bytes) -> float | None:
    """Return the end of the certificate that ends first; None if there is none."""
    return min((each.not_valid_after_utc.timestamp() for each in load(pem)), default=None)
