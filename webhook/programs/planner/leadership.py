"""The election of one planner by a Lease. The leader renews it only while it can plan.

The webhook holds pods back only while the Lease is renewed. A leader that cannot renew stops writing before another
replica may begin. ``webhook/objects/lease.py`` has the decision.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from webhook.cluster.api.errors import ApiError, Conflict
from webhook.cluster.api.leader_lease import LeaderLease
from webhook.programs.log import Log
from webhook.programs.planner.clock import Clock

LEASE_SECONDS = 15.0
"""Time after a change of the Lease in which no other replica takes it, each by its own clock."""
WRITES_SECONDS = 10.0
"""Time after the last renewal in which the leader writes. A request that it sends at its end has the rest of the Lease
to arrive: :data:`webhook.programs.planner.writer.REQUEST_SECONDS`."""
RENEW_SECONDS = 5.0
LOOK_SECONDS = 2.0
"""Time between two looks of a replica that does not lead, and after a failure."""
REQUEST_SECONDS = 4.0
"""Longest time of a request. After one that ran out, the leader may stop to write until the next try succeeds."""
GIVE_BACK_SECONDS = 3.0

ERRORS_NAME = "leases"


class Leadership:
    """The leadership of this replica.

    Args:
        lease: The Lease by which the replicas lead, of :data:`LEASE_SECONDS`.
        inability: Returns why this replica cannot plan at the moment; empty when it can.
        errors: Counts failed requests, by resource and kind.
        log: Takes each change.
        clock: The clocks.
    """

    def __init__(
        self,
        lease: LeaderLease,
        *,
        inability: Callable[[], str],
        errors: Counter[tuple[str, str]],
        log: Log,
        clock: Clock,
    ) -> None:
        self.identity = lease.identity
        self._lease = lease
        self._inability = inability
        self._errors = errors
        self._log = log
        self._clock = clock
        self._renewed: float | None = None
        """The time at which the last accepted renewal began; ``None`` if this replica does not hold the Lease."""
        self._told = False
        """The leadership that was logged last."""
        self._problem = ""
        """The problem that was logged last."""

    @property
    def leads(self) -> bool:
        """Whether this replica may write at this moment. May be read in any thread."""
        renewed = self._renewed
        return renewed is not None and self._clock.monotonic() - renewed < WRITES_SECONDS

    async def run(self) -> NoReturn:
        """Look, take and renew until this is cancelled."""
        while True:
            seconds = await self.look()
            await asyncio.sleep(seconds * random.uniform(0.8, 1.0))  # noqa: S311 - so that replicas do not ask together; no secret

    async def look(self) -> float:
        """Look once, and take or renew the Lease if possible; return after how many seconds to look again."""
        problem = self._inability()
        taken = False
        if not problem:
            try:
                with suppress(Conflict):  # another replica was quicker, or a person edited the Lease
                    taken = await self._take()
            except ApiError as error:
                self._errors[ERRORS_NAME, error.kind] += 1
                problem = str(error)
        self._tell(problem)
        return RENEW_SECONDS if taken else LOOK_SECONDS

    async def give_back(self) -> None:
        """Give the Lease up, so that another replica may take it at once. No write may be on its way."""
        self._renewed = None
        with suppress(ApiError, TimeoutError):
            async with asyncio.timeout(GIVE_BACK_SECONDS):
                await self._lease.give_back()
        self._tell("")

    async def _take(self) -> bool:
        """Take or renew the Lease if it may be taken; return whether it is ours now."""
        began = self._clock.monotonic()
        taken = await self._lease.take()
        self._renewed = began if taken else None
        return taken

    def _tell(self, problem: str) -> None:
        """Log a new problem, and a change of the leadership."""
        if problem != self._problem:
            self._problem = problem
            self._log.say("warning" if problem else "info", "election", text=problem or "the Lease can be had again")
        if self.leads != self._told:
            self._told = self.leads
            self._log.say("info", "leading" if self._told else "not leading", identity=self.identity)
