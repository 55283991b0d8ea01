"""The opener of the gates of pods whose planner is gone, so that no pod waits for ever.

Each replica works by itself. The patch tests the state of the pod, so that of two replicas only one opens its gate.
"""

import asyncio
import random
import traceback
from collections import Counter
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from math import isinf
from time import monotonic

import msgspec

from webhook.cluster.api.errors import ApiError, Denied
from webhook.cluster.api.pod_events import PodEvents, PodReference
from webhook.cluster.state.cluster import ClusterState
from webhook.cluster.token_bucket import Rate, TokenBucket
from webhook.decisions.configuration import AdmitPolicy
from webhook.decisions.place.deadline import is_overdue
from webhook.decisions.place.gate import Gate, find_gate, open_gate
from webhook.decisions.place.reasons import PlaceReason
from webhook.objects.binding import PodEvent
from webhook.objects.pod import MalformedPod, Metadata, Namespace, Pod
from webhook.programs.log import Log
from webhook.programs.server.vitals import Vitals
from webhook.programs.server.waiting_pods import WaitingPods
from webhook.words.catalogue.entry import Message
from webhook.words.catalogue.placement import OPENED_WITHOUT_PLACEMENT, OPENED_WITHOUT_PLANNER
from webhook.words.choices import Placement, PlacementMode
from webhook.words.nesting import decode_answer

ROUND_SECONDS = (15.0, 30.0)
"""Shortest and longest time between two rounds."""
OPENINGS = Rate(burst=20, per_second=10)
"""The limit for patches. A scheduler gets a thousand pods within two minutes, with a load that the API server does not
notice."""
WAIT_SECONDS = 0.1
"""Time between two tries to take from the limit."""


class Cause(StrEnum):
    """The reason for which a gate is opened."""

    PLANNER_SILENT = "planner-silent"
    """No planner renewed its Lease for ``placement.releaseSeconds``, or ever."""
    PLACEMENT_OFF = "placement-off"
    """``placement.mode`` is ``off``."""


_EVENT_REASONS = {Cause.PLANNER_SILENT: PlaceReason.RELEASED, Cause.PLACEMENT_OFF: PlaceReason.SWITCHED_OFF}


class GateOpener:
    """The search for overdue pods while no planner is alive: a :class:`webhook.programs.server.run.Background`.

    Args:
        pods: Lists and patches the waiting pods.
        state: The state of the cluster, with the planner's last sign of life.
        policy: The configuration.
        events: Takes an Event about each pod.
        errors: Counts failed requests, by resource and kind.
        log: Takes what happens.
    """

    def __init__(
        self,
        pods: WaitingPods,
        state: ClusterState,
        policy: AdmitPolicy,
        *,
        events: PodEvents,
        errors: Counter[tuple[str, str]],
        log: Log,
    ) -> None:
        self._pods = pods
        self._state = state
        self._policy = policy
        self._events = events
        self._errors = errors
        self._log = log
        self._bucket = TokenBucket(OPENINGS)
        self._problem = ""
        self._task: asyncio.Task[None] | None = None
        self.opened: Counter[str] = Counter()
        """Gates that this replica has opened, by cause."""

    async def open(self) -> None:
        """Begin the search, and return at once."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop the search."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    def add_to(self, vitals: Vitals) -> Vitals:
        """Return ``vitals`` with the values about the planner and about gates."""
        has_planner = None if self._is_off else self._state.has_planner
        return replace(vitals, planner_alive=has_planner, gates_opened=dict(self.opened))

    async def look(self) -> None:
        """Make one round: open the gates that have to be opened now.

        Raises:
            ApiError: the pods cannot be listed, or a pod cannot be patched.
        """
        cause = await self._cause() if self._state.ready else None
        if cause is None:
            return
        async for page in self._pods.pages():
            # Each replica takes another order, so that two of them do not work on the same pods at once.
            for document in random.sample(page.documents, len(page.documents)):
                await self._open_if_overdue(document, page.at, cause)
                await asyncio.sleep(0)  # reviews come first

    @property
    def _is_off(self) -> bool:
        return self._policy.placement.mode is PlacementMode.OFF

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(random.uniform(*ROUND_SECONDS))  # noqa: S311 - spreads the replicas; no secret
            problem = ""
            try:
                await self.look()
            except ApiError as error:
                self._errors["pods", error.kind] += 1
                problem = str(error)
            except Exception:
                self._log.say("error", "bug", traceback=traceback.format_exc())
            if problem != self._problem:
                self._problem = problem
                self._log.say("info", "state", text=problem or "waiting pods: the API server answers again")

    async def _cause(self) -> Cause | None:
        """Return the reason for opening gates now; ``None`` if a planner may still do it."""
        if self._is_off:
            return Cause.PLACEMENT_OFF
        if not self._is_silent():
            return None
        # The mirror may be minutes behind without knowing it, on a connection that a network has forgotten.
        try:
            newest = await self._pods.lease()
        except Denied:
            newest = None  # no planner can be seen, so admission made no pod wait for one
        if newest is not None:
            self._state.planners.put(newest)
        return Cause.PLANNER_SILENT if self._is_silent() else None

    def _is_silent(self) -> bool:
        # A planner that is alive renews its Lease every few seconds, which may be more than releaseSeconds.
        silence, enough = self._state.planner_silence, self._policy.placement.release_seconds
        return not self._state.has_planner and silence >= enough

    async def _open_if_overdue(self, document: msgspec.Raw, at: datetime, cause: Cause) -> None:
        try:
            pod = decode_answer(_POD, document)
            gate = find_gate(pod)
            metadata = pod.metadata or Metadata()
            name = metadata.namespace or ""
            namespace = self._state.namespaces.get(name) or Namespace(name, known=False)
            seconds = self._policy.placement.release_seconds
            if gate is None or not is_overdue(pod, namespace, self._policy.defaults, at=at, seconds=seconds):
                return
        except (MalformedPod, msgspec.DecodeError):
            return  # no pod of an API server is like that
        await self._open(metadata, gate, cause)

    async def _open(self, metadata: Metadata, gate: Gate, cause: Cause) -> None:
        while not self._bucket.take(monotonic()):
            await asyncio.sleep(WAIT_SECONDS)
        namespace, name = metadata.namespace or "", metadata.name or ""
        if not await self._pods.patch(namespace, name, open_gate(gate, Placement.RELEASED)):
            return
        self.opened[cause] += 1
        message = self._message(cause)
        self._log.say("warning", "gate opened", namespace=namespace, pod=name, uid=gate.uid, cause=str(cause))
        self._events.tell(PodEvent(_EVENT_REASONS[cause], message.advice), PodReference(namespace, name, gate.uid))

    def _message(self, cause: Cause) -> Message:
        if cause is Cause.PLACEMENT_OFF:
            return OPENED_WITHOUT_PLACEMENT.say()
        silence = self._state.planner_silence
        return OPENED_WITHOUT_PLANNER.say(since="" if isinf(silence) else f" for {silence:.0f} s")


_POD = msgspec.json.Decoder(Pod)
