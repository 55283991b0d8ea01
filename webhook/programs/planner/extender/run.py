"""The run of the extender beside a planner, on a port of its own with TLS and client certificates."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from prometheus_client.core import Metric

from certs.context import LiveContext
from certs.keeper import FileKeeper
from webhook.decisions.configuration import AdmitPolicy
from webhook.programs.http.server import Limits, Server, bind
from webhook.programs.log import Log
from webhook.programs.planner.extender.answers import Answers
from webhook.programs.planner.extender.application import ExtenderApplication
from webhook.programs.planner.extender.complaints import Complaints
from webhook.programs.planner.extender.counts import Counts, families
from webhook.programs.planner.extender.knowledge import Knowledge
from webhook.programs.planner.mirrors import Mirrors

DRAIN_SECONDS = 3.0
"""Time at the stop of the program in which questions are still answered, each with ``Connection: close``. Go's client
does not repeat a POST that was lost with a closing connection."""
LIMITS = Limits(connections=512)
"""The limits of the port. A scheduler asks one question after the other, and keeps its connection for 90 s."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtenderSettings:
    """The settings from the command line."""

    host: str
    port: int
    tls: Path
    """The directory with ``tls.crt`` and ``tls.key``."""
    client_authority: Path
    """The PEM file of the authority that signed the certificates of schedulers."""


class Extender:
    """An extender, which answers schedulers from the mirrors of a planner.

    Args:
        settings: The settings of the port.
        policy: The configuration.
        mirrors: The mirrors of the cluster.
        log: Takes what happens.

    Raises:
        BundleError: certificates cannot be used.
        GpuTopologyError: the port is taken.
    """

    def __init__(self, settings: ExtenderSettings, policy: AdmitPolicy, mirrors: Mirrors, log: Log) -> None:
        self._log = log
        self._settings = settings
        self.counts = counts = Counts()
        complaints = Complaints(log)
        live = LiveContext(demands_clients=True)
        self._files = FileKeeper(
            live,
            log.say,
            directory=settings.tls,
            client_authority=settings.client_authority,
            authority_setting="--extender-client-ca",
        )
        self._files.look()
        knowledge = Knowledge(mirrors, bug=self._bug, clock=monotonic)
        answers = Answers(knowledge, policy, mirrors.namespace, counts=counts, complaints=complaints)
        self._server = Server(
            ExtenderApplication(answers, counts=counts, complaints=complaints),
            bind(settings.host, settings.port, remedy="Choose others with --host and --extender-port"),
            LIMITS,
            live.listening,
        )
        self._serving: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Begin to serve. Until the mirrors are filled all nodes pass."""
        await self._files.open()
        self._serving = asyncio.create_task(self._server.serve())
        while not self._server.started and not self._serving.done():
            await asyncio.sleep(0.005)
        settings = self._settings
        self._log.say("info", "extender", listening=f"https://{settings.host}:{settings.port}")

    async def close(self) -> None:
        """Let schedulers move to other replicas, and stop."""
        if self._serving is not None:
            self._server.drain()
            await asyncio.wait({self._serving}, timeout=DRAIN_SECONDS)
            self._server.should_exit = True
            await self._serving
        await self._files.close()

    def families(self) -> Iterator[Metric]:
        """Return the metrics. May be called in any thread."""
        return families(self.counts, self._server.closed, certificate_ends=self._files.served.certificate_ends)

    def _bug(self, traceback: str) -> None:
        self._log.say("error", "bug", traceback=traceback)
