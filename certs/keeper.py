"""Looks after the certificate of a running server, round after round, beside its event loop."""

import asyncio
import contextlib
import random
import traceback
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from certs.api import ApiServer
from certs.context import LiveContext
from certs.errors import CertsError, Conflict
from certs.log import CertificateLog
from certs.requests import Answer, Request, Serve, converse
from certs.rounds import Replica
from certs.served import Served

SKEW = timedelta(minutes=5)
"""Clocks that differ by more are spoken of."""


class Stopped(CertsError):
    """The server stops in the middle of a round."""


class Keeper:
    """Keeps ``live`` at what the Secret holds and, if this replica leads, the Secret in order.

    While the API server is away the server goes on with what it has.

    Args:
        server: Where Secret, Leases and webhook configuration are.
        replica: Who we are, and what is to be kept.
        live: Takes the certificates.
        log: Hears what is done.
        chance: Between 0 and 1, so that replicas do not all ask at once.
    """

    def __init__(
        self,
        server: ApiServer,
        replica: Replica,
        live: LiveContext,
        log: CertificateLog,
        *,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._server = server
        self._replica = replica
        self._live = live
        self._log = log
        self._chance = chance
        self._stop = asyncio.Event()
        self._ready = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._skewed = False
        self._works = False
        self.served = Served()

    async def open(self) -> None:
        """Begin; returns once there is a certificate to listen with."""
        self._task = asyncio.create_task(self._care())
        try:
            await self._ready.wait()
        except asyncio.CancelledError:
            await self.close()
            raise

    async def close(self) -> None:
        """End; the others hear of it if the API server is there."""
        self._stop.set()
        if self._task is not None:
            await self._task
        if self._works:
            await self._leave()
        await self._server.close()

    async def _care(self) -> None:
        failures, waiting_for = 0, ""
        while not self._stop.is_set():
            self._works = await self._round()
            failures = 0 if self._works else failures + 1
            if self._replica.in_hand is not None:
                self._ready.set()
            elif self._works and self._replica.waiting_for != waiting_for:
                waiting_for = self._replica.waiting_for
                self._log.waiting(waiting_for)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), self._delay(failures))

    def _delay(self, failures: int) -> float:
        """Seconds until the next round: earlier after a change, later after failures, never the same twice."""
        pace, eager = self._replica.pace, bool(self._replica.changes) or self._replica.in_hand is None
        self._replica.changes.clear()
        if failures:
            most: float = min(pace.soon * 2.0 ** min(failures, 16), 2 * pace.check)
            return most * (0.5 + self._chance() / 2)
        return (pace.soon if eager else pace.check) * (0.8 + 0.4 * self._chance())

    async def _round(self) -> bool:
        """Whether it went through."""
        try:
            await converse(self._replica.round(), self._perform_unless_stopped)
        except Stopped:
            return True
        except Conflict:  # another replica was quicker; look again
            self._replica.changes.clear()
            return False
        except CertsError as error:
            self.served.failures += 1
            self._log.failed(str(error))
            return False
        except Exception:  # one odd answer must not end the care for all the years to come
            self.served.failures += 1
            self._log.bug(traceback.format_exc())
            return False
        finally:
            self.served.leads = self._replica.leads
            for change in self._replica.changes:
                self._log.did(change.what, change.why)
        self._log.worked()
        return True

    async def _leave(self) -> None:
        with contextlib.suppress(CertsError):
            await converse(self._replica.leave(datetime.now(UTC)), self._perform)

    async def _perform_unless_stopped(self, request: Request) -> Answer:
        if self._stop.is_set():
            raise Stopped
        return await self._perform(request)

    async def _perform(self, request: Request) -> Answer:
        if isinstance(request, Serve):
            self._live.replace(bundle=request.pair)
            self.served.take(request.pair)
            return Answer(None, datetime.now(UTC))
        answer = await self._server.send(request)
        self._compare_clocks(answer.at)
        return answer

    def _compare_clocks(self, at: datetime) -> None:
        """Say it when our clock and that of the API server part; that of the API server counts."""
        ours = datetime.now(UTC)
        skewed = abs(ours - at) > SKEW
        if skewed and not self._skewed:
            self._log.did(
                "noticed", f"this machine's clock says {ours:%Y-%m-%d %H:%M}, the API server's {at:%Y-%m-%d %H:%M}"
            )
        self._skewed = skewed
