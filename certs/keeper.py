"""The care of the certificate of a running server: one round after the other, beside its event loop."""

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
"""The difference of clocks above which a line is logged."""


class Stopped(CertsError):
    """The stop of the server in the middle of a round."""


class Keeper:
    """Keeps ``live`` at the content of the Secret and, if this replica leads, the Secret in order.

    While the API server cannot be reached, the server goes on with its present certificate.

    Args:
        server: The API server, which holds the Secret, the Leases and the webhook configuration.
        replica: The identity and the memory of this replica.
        live: The context that takes the certificates.
        log: The log of all changes and failures.
        chance: A random number between 0 and 1, so that replicas spread their requests in time.
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
        """Start the rounds, and return once there is a certificate to listen with."""
        self._task = asyncio.create_task(self._care())
        try:
            await self._ready.wait()
        except asyncio.CancelledError:
            await self.close()
            raise

    async def close(self) -> None:
        """Stop the rounds, and give back the Lease if the API server can be reached."""
        self._stop.set()
        if self._task is not None:
            await self._task
        if self._works:
            with contextlib.suppress(CertsError):
                await converse(self._replica.leave(datetime.now(UTC)), self._perform)
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
            await converse(self._replica.round(), self._perform_unless_stopped)
        except Stopped:
            return True
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
            for change in self._replica.changes:
                self._log.did(change.what, change.why)
        self._log.worked()
        return True

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
        """Log when our clock and the API server's begin to differ. The API server's clock counts."""
        ours = datetime.now(UTC)
        skewed = abs(ours - at) > SKEW
        if skewed and not self._skewed:
            self._log.did(
                "noticed", f"this machine's clock says {ours:%Y-%m-%d %H:%M}, the API server's {at:%Y-%m-%d %H:%M}"
            )
        self._skewed = skewed
