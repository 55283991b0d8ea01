"""The rounds of decisions: made again and again while this replica leads, and on trial before it may lead."""

import asyncio
import traceback
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager, suppress
from time import process_time
from typing import NoReturn

from webhook.decisions.node_record import NodeRecord
from webhook.decisions.place.pod import PodRecord
from webhook.decisions.place.round import PlannerReport
from webhook.decisions.place.writes import Write
from webhook.hardware.topology.model import NodeTopology
from webhook.programs.log import Log
from webhook.programs.planner.clock import Clock
from webhook.programs.planner.counts import Counts
from webhook.programs.planner.decisions import Decisions, MakeDecisions
from webhook.programs.planner.leadership import Leadership
from webhook.programs.planner.mirrors import Mirrors
from webhook.programs.planner.workload_reader import WorkloadReader
from webhook.programs.planner.writer import Writer

EVERY_SECONDS = 1.0
"""Time between two rounds if nothing changes: some pods wait for time to pass."""
QUIET_SECONDS = 0.02
"""Time without a change after which a round begins, because changes come in bursts."""
PATIENT_SECONDS = 0.25
"""Longest time from the first change of a burst to the round."""
MOST_OF_A_CORE = 0.5
"""Share of a CPU core for rounds. A pause follows each, so that a busy planner does not slow down its neighbours."""
TRIAL_SECONDS = 15.0
"""Time from a failed trial to the next."""


def rest_after(spent: float) -> float:
    """Return the seconds of rest after a round that took ``spent`` seconds of CPU."""
    return min(EVERY_SECONDS, spent * (1.0 / MOST_OF_A_CORE - 1.0))


class Stirred:
    """The signal that something changed, with its time on the clock of the event loop."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._last = 0.0

    def __call__(self) -> None:
        """Note that something changed just now."""
        self._event.set()
        self._last = asyncio.get_running_loop().time()

    async def settle(self) -> None:
        """Wait for the next change and the end of its burst, or for :data:`EVERY_SECONDS`."""
        loop = asyncio.get_running_loop()
        with suppress(TimeoutError):
            async with asyncio.timeout(EVERY_SECONDS):
                await self._event.wait()
        until = loop.time() + PATIENT_SECONDS
        while self._event.is_set() and (rest := min(until, self._last + QUIET_SECONDS) - loop.time()) > 0:
            await asyncio.sleep(rest)
        self._event.clear()


class Rounds:
    """The loop of the planner. Only the decisions of a leader are written.

    The :class:`Decisions` are made anew each time that this replica becomes the leader, so that their memory does not
    outlive the term of another leader. A replica stands for election only after a successful trial: an exception must
    not leave pods waiting for a leader that fails again and again.

    Args:
        mirrors: The mirrors of the cluster.
        make: Makes the decisions of a term.
        stirred: The signal of each change.
        workloads: Reads the objects that decisions ask for.
        counts: The counts of the planner.
        log: Takes bugs.
        clock: The clocks.
    """

    def __init__(  # noqa: PLR0913 - the parts of the loop
        self,
        mirrors: Mirrors,
        make: MakeDecisions,
        stirred: Stirred,
        *,
        workloads: WorkloadReader,
        counts: Counts,
        log: Log,
        clock: Clock,
    ) -> None:
        self._mirrors = mirrors
        self._make = make
        self._stirred = stirred
        self._workloads = workloads
        self._counts = counts
        self._log = log
        self._clock = clock
        self._decisions: Decisions | None = None
        self.report: PlannerReport | None = None
        """The report of the last round; ``None`` while this replica does not lead."""
        self._unproven = "nothing was decided on trial yet"
        self._not_before = 0.0
        """The time of the next trial, on the clock that never goes back."""

    @property
    def inability(self) -> str:
        """The reason for which this replica cannot plan at the moment; empty when it can."""
        return self._mirrors.blindness or self._unproven

    async def run(self, leadership: Leadership, writer: Writer) -> NoReturn:
        """Make rounds until this is cancelled."""
        while True:
            await self._stirred.settle()
            began = process_time()
            writer.take(self.round(writer.busy, writer.put_off, leads=leadership.leads))
            await asyncio.sleep(rest_after(process_time() - began))

    def round(self, busy: Set[str], put_off: Set[str], *, leads: bool) -> Sequence[Write]:
        """Bring the topologies up to date and decide; return the writes, which are none unless this replica leads."""
        writes: Sequence[Write] = ()
        with self._guarded():
            self._mirrors.refresh()
            blind = bool(self._mirrors.blindness)
            if not blind and self._clock.monotonic() >= self._not_before and (leads or self._unproven):
                writes = self._decide(busy, put_off)
            if blind or not leads:
                self._forget()
                return ()
        return writes

    def pod_changed(self, key: str, before: PodRecord | None, after: PodRecord | None) -> None:
        """Tell the decisions of a pod; an exception must not end the mirror.

        See :class:`webhook.programs.planner.decisions.Follower`.
        """
        with self._guarded():
            if self._decisions is not None:
                self._decisions.pod_changed(key, before, after)

    def node_changed(self, name: str, record: NodeRecord | None, topology: NodeTopology | None) -> None:
        """Tell the decisions of a node; an exception must not end the mirror."""
        with self._guarded():
            if self._decisions is not None:
                self._decisions.node_changed(name, record, topology)

    def _decide(self, busy: Set[str], put_off: Set[str]) -> Sequence[Write]:
        decisions = self._decisions
        if decisions is None:
            decisions = self._decisions = self._make(self._mirrors.namespace)
            self._mirrors.follow(self)
        if decisions is not self._decisions:  # an exception came while they were told of the cluster
            return ()
        began = self._clock.monotonic()
        writes = decisions.decide(began, self._clock.now(), busy, put_off)
        self.report = decisions.report
        self._counts.choice_seconds.add(self._clock.monotonic() - began)
        self._unproven = ""
        is_told = [decisions.workload_read(*known) for known in self._workloads.known(decisions.wishes)]
        if writes or any(is_told):
            self._stirred()
        return writes

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except Exception:
            self._counts.bugs += 1
            self._log.say("error", "bug", traceback=traceback.format_exc())
            self._forget()
            self._unproven = "the last decisions ended in an exception, which is in the log"
            self._not_before = self._clock.monotonic() + TRIAL_SECONDS

    def _forget(self) -> None:
        if self._decisions is not None:
            self._decisions = None
            self.report = None
            self._mirrors.leave(self)
