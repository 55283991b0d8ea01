"""Cards that HAMi's device plugin registers while a pod waits, with the real HAMi."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from kubernetes.client import CoreV1Api

from tests.control_plane.hami.cluster import BRIDGED
from tests.control_plane.hami.placed import DENY, choice, given, placed_as, train
from tests.control_plane.hami.team import Team
from tests.programs.server.conftest import until

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("registration"), pytest.mark.long]

REPORTED = "Reported"
REGISTER, HANDSHAKE = "hami.io/node-nvidia-register", "hami.io/node-handshake"
Cards = list[dict[str, Any]]


@contextmanager
def without_cards(admin: CoreV1Api, *indices: int) -> Iterator[None]:
    """The plugin registers fewer cards until the end of the block."""
    stored: Any = admin.read_node(BRIDGED)
    every: Cards = json.loads(stored.metadata.annotations[REGISTER])
    _register(admin, [card for card in every if card.get("index", 0) not in indices])
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


def test_a_pod_that_waits_gets_cards_that_are_registered_newly(team: Team) -> None:
    with without_cards(team.admin, 1, 2, 3):
        team.creates(train(options=DENY))
        until(placed_as(team, "train", "NoFreeCards"), "a pod that waits for cards")
    bound = team.bound("train")
    assert given(bound) in ([0, 1], [2, 3])
    assert choice(bound)["attempt"] == 1
