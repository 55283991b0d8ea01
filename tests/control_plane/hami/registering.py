"""What HAMi's device plugin and the kubelet say of the bridged node when its cards or the plugin's settings changed."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from typing import Any

from kubernetes.client import CoreV1Api

from tests.control_plane.hami.cluster import BRIDGED

REPORTED = "Reported"
REGISTER, HANDSHAKE = "hami.io/node-nvidia-register", "hami.io/node-handshake"
Cards = list[dict[str, Any]]


def without_cards(admin: CoreV1Api, *indices: int) -> AbstractContextManager[None]:
    """The plugin registers fewer cards until the end of the block."""
    return registered(admin, lambda cards: [card for card in cards if card.get("index", 0) not in indices])


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
