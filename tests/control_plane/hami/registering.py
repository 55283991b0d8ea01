"""What HAMi's device plugin and the kubelet say of the bridged node when its cards or the plugin's settings changed."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from typing import Any

from kubernetes.client import CoreV1Api

from tests.control_plane.hami.cluster import BRIDGED
from tests.programs.server.conftest import until

REPORTED = "Reported"
REGISTER, HANDSHAKE = "hami.io/node-nvidia-register", "hami.io/node-handshake"
Cards = list[dict[str, Any]]


def without_cards(admin: CoreV1Api, *indices: int) -> AbstractContextManager[None]:
    """The plugin registers fewer cards until the end of the block."""
    return registered(admin, lambda cards: [card for card in cards if card.get("index", 0) not in indices])


@contextmanager
def each_card_with(admin: CoreV1Api, **fields: int) -> Iterator[None]:
    """The plugin registers these fields of every card until the end of the block; then HAMi knows the usual ones again.

    A test that follows would otherwise meet a HAMi that counts with cards which are no longer registered.
    """
    try:
        with registered(admin, lambda cards: [{**card, **fields} for card in cards]):
            yield
    finally:
        _have_hami_read(admin)


def _have_hami_read(admin: CoreV1Api) -> None:
    """HAMi's scheduler reads the registers every 15 seconds, and at once when a node comes.

    See pkg/scheduler/scheduler.go, RegisterFromNodeAnnotations. It changes the handshake of a node that it reads.
    """
    node: Any = {"metadata": {"name": "comes-and-goes"}}
    admin.create_node(node)
    try:
        until(lambda: not _handshake(admin).startswith(REPORTED), "a HAMi that has read the register")
    finally:
        admin.delete_node("comes-and-goes")


def _handshake(admin: CoreV1Api) -> str:
    stored: Any = admin.read_node(BRIDGED)
    said: str = stored.metadata.annotations[HANDSHAKE]
    return said


@contextmanager
def registered(admin: CoreV1Api, change: Callable[[Cards], Cards]) -> Iterator[None]:
    """The plugin registers other cards until the end of the block."""
    stored: Any = admin.read_node(BRIDGED)
    every: Cards = json.loads(stored.metadata.annotations[REGISTER])
    _register(admin, change(every))
    try:
        yield
    finally:
        _register(admin, every)


def _register(admin: CoreV1Api, cards: Cards) -> None:
    """As in plugin/register.go; the kubelet counts what the plugin offers."""
    reported = f"{REPORTED}_{datetime.now(UTC):%Y-%m-%d %H:%M:%S}"
    said: Any = {"metadata": {"annotations": {REGISTER: json.dumps(cards), HANDSHAKE: reported}}}
    admin.patch_node(BRIDGED, said)
    amounts = {"nvidia.com/gpu": str(sum(card["count"] for card in cards))}
    body: Any = {"status": {"capacity": amounts, "allocatable": amounts}}
    admin.patch_node_status(BRIDGED, body)
