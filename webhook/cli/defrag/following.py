"""One move in the cluster: the eviction of a pod, and the pod that its controller creates in its place."""

import asyncio
from typing import NamedTuple

import msgspec

from webhook.cluster.api.api_server import SECONDS
from webhook.cluster.api.contexts import Where
from webhook.cluster.api.disruption import evict
from webhook.cluster.api.session import connect
from webhook.cluster.api.verbs import Api
from webhook.cluster.kinds import POD
from webhook.decisions.defrag.movable import RunningPod
from webhook.decisions.defrag.plan import Move
from webhook.decisions.place.pod import PodRecord, record_of
from webhook.objects.pod import MalformedPod, Owner, Pod, decode_stored_pod
from webhook.words import names

_LOOKS_SECONDS = 2.0


class Successor(NamedTuple):
    """The pod in the place of an evicted one."""

    key: str
    node: str
    cards: tuple[str, ...]
    """The UUIDs of its cards."""

    def is_as_planned(self, move: Move) -> bool:
        """Returns whether the pod has the cards that were planned for it."""
        return self.node == move.node and sorted(self.cards) == sorted(move.to_uuids)


def move_pod(where: Where, move: Move, seconds: float) -> Successor | None:
    """Evict a pod, and wait for the pod that takes its place.

    Args:
        where: The cluster.
        move: The move.
        seconds: The longest time until the new pod has its cards.

    Returns:
        The new pod; None if none has cards in time.

    Raises:
        ApiError: a request failed, or the eviction was refused.
    """
    session = connect(where, user_agent=names.DEFRAG_USER_AGENT, seconds=SECONDS)

    async def carry_out() -> Successor | None:
        api, pod = Api(session), move.pod
        try:
            before = {record.uid for record in await _siblings(api, pod)}
            await evict(api, pod.record.namespace, pod.record.name, pod.record.uid)
            return await _successor(api, pod, before, seconds)
        finally:
            await api.close()

    return asyncio.run(carry_out())


async def _successor(api: Api, pod: RunningPod, before: set[str], seconds: float) -> Successor | None:
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while loop.time() < until:
        for record in await _siblings(api, pod):
            if record.uid not in before and record.is_bound and record.held:
                return Successor(record.key, record.node, record.held)
        await asyncio.sleep(_LOOKS_SECONDS)
    return None


async def _siblings(api: Api, pod: RunningPod) -> list[PodRecord]:
    """Return the pods of the controller of a pod."""
    found = []
    async for page in api.pages(POD.having(namespace=pod.record.namespace)):
        for item in page.items:
            record = record_under(bytes(item), pod.pod.controller)
            if record:
                found.append(record)
    return found


def record_under(document: bytes, controller: Owner | None) -> PodRecord | None:
    """Return the record of a pod of a controller; None if it is of another one, or cannot be read."""
    try:
        pod: Pod = decode_stored_pod(document)
        owner = pod.controller
        return record_of(pod) if owner and controller and owner.uid == controller.uid else None
    except (msgspec.DecodeError, MalformedPod):
        return None
