"""The PodGroups that say how many pods belong to a group: read one by one when a decision asks, and kept for a while.

A round never waits for a reading. It is told what is known, and a later round what was read meanwhile. Users choose
which objects are asked for, because their pods name them. So the numbers of requests and of kept objects are limited.
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, NoReturn

import msgspec

from webhook.cluster.api.errors import ApiError, ApiRefused, NotFound, NotServed
from webhook.cluster.api.verbs import Api
from webhook.cluster.kinds import (
    COSCHEDULING_GROUPS,
    POD_GROUPS,
    VOLCANO_GROUPS,
    WORKLOADS,
    Kind,
)
from webhook.cluster.token_bucket import Buckets, Rate
from webhook.objects.workload import MISSING, Workload, WorkloadKind, WorkloadRef, read_workload
from webhook.programs.planner.clock import Clock

REQUEST_SECONDS = 5.0
FRESH_SECONDS = 30.0
"""Seconds after which an object is read again, if a decision still asks for it."""
MISSING_SECONDS = 2.0
"""The same for a PodGroup that was not there."""
KEPT = 1024
"""The most objects in memory, as many as one round asks for."""
QUEUED = 256
READERS = 4
EACH, TOTAL = Rate(20, 5.0), Rate(100, 20.0)
"""The rates of one namespace and of all. What is beyond is not read now; a later round asks again."""
_KINDS: dict[WorkloadKind, tuple[Kind, ...]] = {
    WorkloadKind.POD_GROUP: POD_GROUPS,
    WorkloadKind.WORKLOAD: WORKLOADS,
    WorkloadKind.COSCHEDULING: COSCHEDULING_GROUPS,
    WorkloadKind.VOLCANO: VOLCANO_GROUPS,
}
"""The forms in which the API server may have each kind, of which the first that it serves counts."""


class _Read(NamedTuple):
    workload: Workload | None
    at: float


class WorkloadReader:
    """The readings of one planner.

    Args:
        api: The API server.
        read: Called after each reading that says something new.
        errors: Counts failed requests, by resource and kind of :class:`webhook.cluster.api.errors.ApiError`.
        clock: The clocks.
    """

    def __init__(self, api: Api, *, read: Callable[[], None], errors: Counter[tuple[str, str]], clock: Clock) -> None:
        self._api = api
        self._read = read
        self._errors = errors
        self._clock = clock
        self._kept: OrderedDict[WorkloadRef, _Read] = OrderedDict()
        self._queue: asyncio.Queue[WorkloadRef] = asyncio.Queue(QUEUED)
        self._queued: set[WorkloadRef] = set()
        self._rates = Buckets(each=EACH, total=TOTAL)

    def known(self, wishes: Iterable[WorkloadRef]) -> Iterator[tuple[WorkloadRef, Workload | None]]:
        """Yield what is known of these objects, and have the others and the old ones read."""
        now = self._clock.monotonic()
        for ref in wishes:
            found = self._kept.get(ref)
            if found is None or now - found.at >= (MISSING_SECONDS if found.workload is MISSING else FRESH_SECONDS):
                self._order(ref, now)
            if found is not None:
                self._kept.move_to_end(ref)
                yield ref, found.workload

    async def run(self) -> NoReturn:
        """Read what was asked for until this is cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(READERS):
                group.create_task(self._work())
        raise AssertionError("a reader ended")

    def _order(self, ref: WorkloadRef, now: float) -> None:
        if ref not in self._queued and not self._queue.full() and self._rates.take(ref.namespace, now):
            self._queued.add(ref)
            self._queue.put_nowait(ref)

    async def _work(self) -> NoReturn:
        while True:
            ref = await self._queue.get()
            try:
                await self._get(ref)
            finally:
                self._queued.discard(ref)

    async def _get(self, ref: WorkloadRef) -> None:
        """Read one object. If the API server is away, nothing becomes known."""
        for kind in _KINDS[ref.kind]:
            try:
                reply = await self._api.get(kind, ref.name, ref.namespace)
                found = read_workload(ref, reply.document)
            except NotServed:
                continue
            except NotFound:
                self._keep(ref, MISSING)
            except ApiError as error:
                self._errors[kind.resource, error.kind] += 1
                if isinstance(error, ApiRefused):
                    self._keep(ref, None)
            except msgspec.DecodeError:
                self._keep(ref, None)
            else:
                self._keep(ref, found)
            return
        self._keep(ref, None)

    def _keep(self, ref: WorkloadRef, workload: Workload | None) -> None:
        before = self._kept.pop(ref, None)
        self._kept[ref] = _Read(workload, self._clock.monotonic())
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        if before is None or before.workload != workload:
            self._read()
