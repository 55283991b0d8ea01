"""The writer of decisions to the API server. It finds out the fate of a write where the answer does not tell it.

A pod is *busy* from the decision until its state after the write is known. Meanwhile it is left out of decisions, so
nothing is decided twice. Each patch tests the state that it was decided on, so nothing is done twice either.
"""

import asyncio
import random
import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import asdict
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

from webhook.cluster.api.errors import ApiError, ApiServerAway, Conflict, Denied, Malformed, NotFound
from webhook.cluster.api.object_version import VersionedObject
from webhook.cluster.api.pod_events import PodEvents, PodReference
from webhook.cluster.api.verbs import Api, PatchForm
from webhook.cluster.kinds import POD
from webhook.decisions.place.pod import PodRecord, UnboundPod
from webhook.decisions.place.reasons import PlaceReason
from webhook.decisions.place.telling import refused_write
from webhook.decisions.place.writes import Write
from webhook.objects.pod import NO_CONDITION, PodCondition
from webhook.programs.log import Log
from webhook.programs.planner.clock import Clock
from webhook.programs.planner.counts import Counts
from webhook.programs.planner.effect import has_effect
from webhook.programs.planner.mirrors import Mirrors
from webhook.programs.planner.slots import Slots
from webhook.words import names
from webhook.words.patch import Operation
from webhook.words.timestamp import format_timestamp

_T = TypeVar("_T")

PARALLEL = 8
"""Most requests at the same time."""
REQUEST_SECONDS = 5.0
"""Longest time of a request. What a leader sends at the end of its term arrives before another replica begins:
:data:`webhook.programs.planner.leadership.WRITES_SECONDS`."""
FIRST_DELAY, LONGEST_DELAY = 0.5, 60.0
"""First and longest time from a refused change of a pod to the next try."""
REFUSED_KEPT = 10_000
"""Most pods whose refusals are counted. For a forgotten pod the delays start again."""
FIRST_LOOK, LONGEST_LOOK = 0.1, 5.0
"""First and longest time before a look at a pod whose state is not known."""
UNPROCESSABLE = 422
_RESOURCE = "pods"
_FIXES = {401: "The API server does not know the planner: its token has ended or is another cluster's"}


class Fate(StrEnum):
    """The fate of a write."""

    DONE = "done"
    STALE = "stale"
    """The pod is no longer as it was for the decision, or is gone."""
    REFUSED = "refused"
    """The API server refused the change, and the pod is as it was."""
    ABANDONED = "abandoned"
    """This replica may write no more, or stops. The next leader reads everything anew."""


class _NotLeadingError(Exception):
    """This replica may write no more."""


class _Queued(NamedTuple):
    write: Write
    version: int | None
    """The version of the pod that was decided on."""


class Writer:
    """The writer: writes of one pod are made one after the other, writes of different pods beside each other.

    Namespaces take turns: the pod of one does not wait for the thousands that another has just been told of.

    Args:
        api: The API server; it is written to as the planner.
        mirrors: The mirrors, with each pod as the API server returned it last.
        events: Takes Events for the owners of pods.
        may_write: Returns whether this replica leads. It is called before each request.
        settled: Called when the state of a busy pod is known.
        counts: Takes the writes that were made.
        log: Takes the writes and refusals as lines.
        clock: The clocks.
    """

    def __init__(  # noqa: PLR0913 - it stands between all parts of the program
        self,
        api: Api,
        mirrors: Mirrors,
        events: PodEvents,
        *,
        may_write: Callable[[], bool],
        settled: Callable[[], None],
        counts: Counts,
        log: Log,
        clock: Clock,
    ) -> None:
        self._api = api
        self._mirrors = mirrors
        self._events = events
        self._may_write = may_write
        self._settled = settled
        self._counts = counts
        self._log = log
        self._clock = clock
        self._slots = Slots(PARALLEL)
        self._queues: dict[str, deque[_Queued]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._refusals: dict[str, int] = {}
        """Number of refusals in a row by UID of the pod; the entry of the last refusal comes last."""
        self._put_off: set[str] = set()
        self._closing = asyncio.Event()

    @property
    def busy(self) -> Set[str]:
        """Pods whose last write has no known fate yet, or whose next try is put off."""
        return self._queues.keys()

    @property
    def put_off(self) -> Set[str]:
        """Busy pods whose last write the API server refused, until their next try."""
        return self._put_off

    def take(self, writes: Iterable[Write]) -> None:
        """Begin to make ``writes``, in their order for each pod, and return at once."""
        if self._closing.is_set():
            return
        for write in writes:
            key = write.key
            if not write.patch and not write.condition and key not in self._queues:
                self._finish(write)
                continue
            queue = self._queues.setdefault(key, deque())
            queue.append(_Queued(write, self._mirrors.pods.version(key)))
            if key not in self._tasks:
                self._tasks[key] = asyncio.create_task(self._work(key, queue))

    async def close(self, seconds: float) -> None:
        """Take and begin no more writes. Those on their way get ``seconds``, and are abandoned then."""
        self._closing.set()
        for queue in self._queues.values():
            queue.clear()
        tasks = tuple(self._tasks.values())
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def _work(self, key: str, queue: deque[_Queued]) -> None:
        try:
            while queue:
                queued = queue.popleft()
                fate = await self._make(queued)
                self._counts.writes[fate] += 1
                if fate is not Fate.DONE:
                    queue.clear()  # these were decided on the success of this write
                await self._rest(key, queued.write.uid, fate)
        except Exception:
            self._counts.bugs += 1
            self._log.say("error", "bug", traceback=traceback.format_exc())
        finally:
            del self._queues[key], self._tasks[key]
            self._put_off.discard(key)
            self._settled()

    async def _rest(self, key: str, uid: str, fate: Fate) -> None:
        """Put off the next try of a pod after a refusal. The pod stays busy until then."""
        times = self._refusals.pop(uid, 0) + 1
        if fate is not Fate.REFUSED:
            return
        self._refusals[uid] = times
        if len(self._refusals) > REFUSED_KEPT:
            del self._refusals[next(iter(self._refusals))]
        self._put_off.add(key)
        self._settled()
        await self._pause(_delay(times, FIRST_DELAY, LONGEST_DELAY))

    async def _make(self, queued: _Queued) -> Fate:
        write = queued.write
        before = self._mirrors.pods.get(write.key)
        fate = await self._patch(queued) if write.patch else await self._set_condition(write)
        if fate is not Fate.DONE:
            return fate
        if write.patch:
            self._count_gate(before, self._mirrors.pods.get(write.key))
            if write.condition:
                await self._set_condition(write)  # the patch is made, whatever the fate of the condition
        self._finish(write)
        return Fate.DONE

    def _finish(self, write: Write) -> None:
        """Report a write that was made: by its Event, in the log and in the counts."""
        if write.event:
            self._events.tell(write.event, PodReference(write.namespace, write.name, write.uid))
        if write.log:
            pod = {"namespace": write.namespace, "name": write.name, "uid": write.uid, "result": write.result}
            self._log.say("info", "placement", traceback="", **{**write.log, **pod})
        self._counts.done(write)

    async def _patch(self, queued: _Queued) -> Fate:
        write = queued.write
        try:
            found = await self._change(write, write.patch, PatchForm.OPERATIONS)
        except _NotLeadingError:
            return Fate.ABANDONED
        except ApiError as error:
            return await (self._refused(write, error) if _says_no(error) else self._find_out(queued, error))
        self._mirrors.take_pod(found)
        return Fate.DONE

    async def _find_out(self, queued: _Queued, error: ApiError) -> Fate:
        """Return the fate of a change that failed, or whose answer was lost, from a new read of the pod."""
        write, last, looks = queued.write, error, 0
        while True:
            if looks or isinstance(last, ApiServerAway):
                await self._pause(max(_delay(looks + 1, FIRST_LOOK, LONGEST_LOOK), _asked(last)))
                if looks and self._closing.is_set():
                    return Fate.ABANDONED
            looks += 1
            try:
                found = await self._request(write.namespace, lambda: self._api.find(POD, write.name, write.namespace))
            except _NotLeadingError:
                return Fate.ABANDONED
            except ApiError as failure:
                last = failure
            else:
                return await self._judge(queued, found.versioned(all_namespaces=True) if found else None, error)

    async def _judge(self, queued: _Queued, found: VersionedObject | None, error: ApiError) -> Fate:
        """Return the fate of a change, from the pod as it is now."""
        write = queued.write
        if found is None:
            self._mirrors.pods.absent(write.key)
            return Fate.STALE
        self._mirrors.take_pod(found)
        may_be_made = isinstance(error, ApiServerAway | Malformed)  # no answer denies it
        if may_be_made and has_effect(found.document, write.patch):
            return Fate.DONE
        return Fate.STALE if queued.version != found.version else await self._refused(write, error)

    async def _set_condition(self, write: Write) -> Fate:
        """Write the condition, if there is one. The decisions see whether the pod has it, and write it again if not."""
        condition = write.condition
        if condition is None:
            return Fate.DONE
        wish = {"type": names.PLACED_CONDITION, **asdict(condition)}
        if self._condition(write.key).status != condition.status:
            wish["lastTransitionTime"] = format_timestamp(self._clock.now())
        version = self._mirrors.pods.version(write.key)
        try:
            patch = {"metadata": {"uid": write.uid}, "status": {"conditions": [wish]}}
            found = await self._change(write, patch, PatchForm.STRATEGIC, part="status")
        except _NotLeadingError:
            return Fate.ABANDONED
        except (NotFound, Conflict) as error:
            return await self._find_out(_Queued(write, version), error)
        except ApiError as error:
            return await self._refused(write, error)
        self._mirrors.take_pod(found)
        return Fate.DONE

    async def _change(
        self, write: Write, patch: Sequence[Operation] | Mapping[str, Any], form: PatchForm, *, part: str = ""
    ) -> VersionedObject:
        """Patch a pod, and return the pod after the patch.

        Raises:
            _NotLeadingError: this replica may write no more.
            ApiError: the request failed.
        """
        return (
            await self._request(
                write.namespace,
                lambda: self._api.patch(POD, write.name, write.namespace, patch, form, part=part),
            )
        ).versioned(all_namespaces=True)

    def _condition(self, key: str) -> PodCondition:
        """Return our condition on a pod; one without a status if there is none."""
        unbound = _unbound(self._mirrors.pods.get(key))
        return unbound.placed if unbound else NO_CONDITION

    def _count_gate(self, before: PodRecord | None, after: PodRecord | None) -> None:
        was, now = _unbound(before), _unbound(after)
        if was and was.is_gated and not (now and now.is_gated):
            self._counts.opened(was.created, self._clock.now())

    async def _request(self, namespace: str, make: Callable[[], Awaitable[_T]]) -> _T:
        """Make a request as soon as fewer than :data:`PARALLEL` others are on their way and its namespace has its turn.

        Raises:
            _NotLeadingError: this replica may write no more.
            ApiError: the request failed.
        """
        async with self._slots.slot(namespace):
            if not self._may_write():
                raise _NotLeadingError
            try:
                return await make()
            except ApiError as error:
                self._counts.api_errors[_RESOURCE, error.kind] += 1
                raise

    async def _pause(self, seconds: float) -> None:
        """Wait for ``seconds``, or until the writer is closed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closing.wait()

    async def _refused(self, write: Write, error: ApiError) -> Fate:
        """Log that a change was refused, and have the pod say so unless it does already."""
        self._log.say(
            "warning",
            "refused",
            namespace=write.namespace,
            name=write.name,
            uid=write.uid,
            error=f"{error}. {fix}" if (fix := _fix(error)) else str(error),
        )
        is_no = not isinstance(error, ApiServerAway | Malformed)
        if is_no and write.patch and self._condition(write.key).reason != PlaceReason.CHANGE_REFUSED:
            told = refused_write(write, str(error))
            if await self._set_condition(told) is Fate.DONE:
                self._finish(told)
        return Fate.REFUSED


def _says_no(error: ApiError) -> bool:
    """Return whether the answer proves that nothing was changed and that the pod is not the cause."""
    if isinstance(error, ApiServerAway | Malformed | NotFound | Conflict):
        return False
    return error.status != UNPROCESSABLE


def _fix(error: ApiError) -> str:
    if isinstance(error, Denied):
        return "The planner needs its role, and the policy that limits it must be the one of this version"
    if error.status == UNPROCESSABLE:
        return "The API server does not allow this change: does a policy or another webhook forbid it?"
    return _FIXES.get(error.status, "")


def _unbound(record: PodRecord | None) -> UnboundPod | None:
    return record.unbound if record else None


def _asked(error: ApiError) -> float:
    """Return the seconds for which the API server asked for a pause, up to :data:`LONGEST_DELAY`."""
    return min(error.retry_after, LONGEST_DELAY) if isinstance(error, ApiServerAway) else 0.0


def _delay(times: int, first: float, longest: float) -> float:
    return min(longest, first * 2.0 ** min(times - 1, 20)) * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
