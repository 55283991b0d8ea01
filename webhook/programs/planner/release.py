"""The release of all pods that wait for the planner or are limited to its choice, for when no planner will follow."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from webhook.cluster.api.errors import ApiError, ApiServerAway, Conflict, Expired
from webhook.cluster.api.object_version import VersionedObject
from webhook.cluster.api.verbs import Api, PatchForm, versioned
from webhook.cluster.kinds import EVENT, POD, UNBOUND_FIELD
from webhook.decisions.place.pin_patches import release
from webhook.decisions.place.pins import placement_of, written_pin
from webhook.decisions.place.pod import PodRecord, read_pod
from webhook.objects.event import Reporter, event_manifest
from webhook.words import names
from webhook.words.catalogue.releasing import RELEASED_BY_HAND
from webhook.words.choices import Placement
from webhook.words.errors import GpuTopologyError

PASSES = 3
"""Most passes over all pods. New pods come during a pass; a pass that finds nothing is the last."""
ATTEMPTS = 5
"""Most attempts for one pod, because other programs write it too."""
DELAY_SECONDS = 0.2
PARALLEL = 8
UNPROCESSABLE = 422
REASON = "Released"
ACTION = "Release"
LISTED = "list pods without a node"


class Step(StrEnum):
    """The change of a pod by the release."""

    OPENED = "gate opened"
    UNPINNED = "pin removed"


@dataclass(frozen=True, slots=True)
class Released:
    """The result for one pod that waited or was pinned."""

    namespace: str
    name: str
    step: Step
    problem: str = ""
    """The reason of a failure; empty after success."""


class Release:
    """A release of pods. It opens our gate, whatever a pod requires, and removes our pin; other gates and lists stay.

    Args:
        api: The API server; it is written to as the planner.
        instance: The reporting instance of Events.
        now: Returns the time, in UTC.
    """

    def __init__(
        self,
        api: Api,
        *,
        instance: str,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._api = api
        self._reporter = Reporter(names.PLANNER_CONTROLLER, instance, ACTION)
        self._now = now
        self._slots = asyncio.Semaphore(PARALLEL)

    async def all(self, namespace: str = "") -> list[Released]:
        """Release the pods of a namespace, or of all namespaces; return the result for each pod that needed it.

        Raises:
            ApiError: the pods cannot be listed.
        """
        found: dict[str, Released] = {}
        for _ in range(PASSES):
            these = await self._pass(namespace)
            found |= {f"{one.namespace}/{one.name}": one for one in these}
            if not any(not one.problem for one in these):
                break
        return merged(found.values())

    async def _pass(self, namespace: str) -> list[Released]:
        tasks: list[asyncio.Task[Released | None]] = []
        with suppress(Expired):  # the next pass begins anew
            unbound = POD.having(namespace=namespace, fields=UNBOUND_FIELD)
            async with aclosing(self._api.pages(unbound, what=LISTED)) as pages:
                async for page in pages:
                    pods = [versioned(LISTED, item, all_namespaces=True) for item in page.items]
                    tasks += [asyncio.create_task(self._one(pod)) for pod in pods if _is_ours(pod)]
        return [one for one in await asyncio.gather(*tasks) if one is not None]

    async def _one(self, found: VersionedObject) -> Released | None:
        async with self._slots:
            return await self._release(found)

    async def _release(self, found: VersionedObject) -> Released | None:
        """Release one pod, and return the result; ``None`` if there was nothing to do, or the pod is gone."""
        namespace, _, name = found.name.partition("/")
        pod: VersionedObject | None = found
        step, problem = Step.OPENED, ""
        for attempt in range(ATTEMPTS):
            try:
                if attempt:
                    await asyncio.sleep(DELAY_SECONDS * 2**attempt)
                    newest = await self._api.find(POD, name, namespace)
                    pod = newest.versioned(all_namespaces=True) if newest else None
                record = read_pod(pod.document, found.name, None) if pod else None
                if record is None or (needed := _step(record)) is None:
                    return Released(namespace, name, step) if problem and record else None
                step = needed
                await self._api.patch(POD, name, namespace, release(record), PatchForm.OPERATIONS)
            except ApiError as error:
                problem = str(error)
                if not isinstance(error, ApiServerAway | Conflict) and error.status != UNPROCESSABLE:
                    break
            except GpuTopologyError as error:
                problem = str(error)
                break
            else:
                await self._tell(record)
                return Released(namespace, name, step)
        return Released(namespace, name, step, problem)

    async def _tell(self, pod: PodRecord) -> None:
        """Create an Event. If that fails, the pod stays released."""
        regarding = {"apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
        at = self._now()
        note = RELEASED_BY_HAND.say().advice
        manifest = event_manifest(
            regarding, self._reporter, namespace=pod.namespace, reason=REASON, note=note, at=at, seed=at.isoformat()
        )
        with suppress(ApiError):
            await self._api.create(EVENT, manifest)


def merged(*passes: Iterable[Released]) -> list[Released]:
    """Return the last result of each pod, sorted by namespace and name."""
    found = {(one.namespace, one.name): one for these in passes for one in these}
    return [found[key] for key in sorted(found)]


def _is_ours(pod: VersionedObject) -> bool:
    """Return whether the pod may need a release. A pod that cannot be read becomes a problem later."""
    try:
        return _step(read_pod(pod.document, pod.name, None)) is not None
    except GpuTopologyError:
        return names.PLACE_GATE.encode() in bytes(pod.document)


def _step(pod: PodRecord) -> Step | None:
    """Return the change that a pod needs; ``None`` if it needs none."""
    unbound = pod.unbound
    if unbound is None:
        return None
    if unbound.is_gated:
        return Step.OPENED
    is_pinned = written_pin(pod) is not None or placement_of(pod) == Placement.PINNED
    return Step.UNPINNED if is_pinned else None
