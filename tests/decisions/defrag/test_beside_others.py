"""The plan beside an evictor by chance, and beside the best sequence of moves in small clusters."""

import random
from datetime import timedelta
from itertools import permutations
from typing import Any

import msgspec
import pytest

from tests.decisions.defrag.moves import NOW, Running, filled
from tests.hardware.topology.machines import a100_pcie_bridged, dgx1_v100, hgx_h100
from webhook.decisions.defrag.budgets import Budgets
from webhook.decisions.defrag.movable import Limits, RunningPod, stays
from webhook.decisions.place.card_request import CardsAsked
from webhook.decisions.place.round import NotPlaceable, Scene
from webhook.hardware.topology.selection.request import Request
from webhook.objects.pod import Namespace

MACHINES = {
    "bridged": [a100_pcie_bridged()],
    "dgx-1": [dgx1_v100()],
    "hgx": [hgx_h100()],
    "mixed": [a100_pcie_bridged(), dgx1_v100(), hgx_h100()],
}
EVICTIONS, NODES, SEEDS = 10, 50, range(3)


def worth(cluster: Running) -> float:
    """What all free cards are worth."""
    world = cluster.cluster.world
    return sum(stock.build.worth(stock.free) for name in world.nodes if (stock := world.free_of(name)))


class Evictor:
    """Evicts pods of a cluster, and lets the planner's own choice place each anew."""

    def __init__(self, cluster: Running) -> None:
        self.cluster, self._world = cluster, cluster.cluster.world
        namespace = Namespace("team", {"gpu.topology/injection": "enabled"}, {})
        self._scene = Scene(self._world, cluster.cluster.policy, lambda _: namespace)

    def movable(self) -> list[tuple[RunningPod, CardsAsked]]:
        """The pods that may be moved."""
        limits = Limits(evictions=1, priority=0, age=timedelta(minutes=10))
        found = []
        for pod in self.cluster.pods():
            try:
                asked = self._scene.asked(pod.again)
            except NotPlaceable:
                continue
            if stays(pod, asked, limits, NOW) is None:
                found.append((pod, asked.cards))
        return found

    def _bandwidth(self, pod: RunningPod) -> float:
        node = self._world.nodes[pod.record.node]
        index_of = {uuid: index for index, uuid in node.uuids.items()}
        cards = frozenset(index_of[uuid] for uuid in pod.record.held)
        return node.build.choice(cards, Request(count=len(cards))).chosen.bandwidth if node.build else 0.0

    def evict(self, pod: RunningPod, cards: CardsAsked) -> None:
        """Moves one pod, unless its new cards would be slower."""
        if pod.is_created_first:
            chosen = self._scene.chooser.best(pod.again, cards)
        else:
            with self._world.without(pod.record):
                chosen = self._scene.chooser.best(pod.again, cards)
        if chosen and chosen.choice.chosen.bandwidth >= self._bandwidth(pod):
            place = {"node": chosen.node.name, "held": chosen.uuids, "held_on": chosen.node.name}
            self._world.pod_changed(pod.record.key, pod.record, msgspec.structs.replace(pod.record, **place))


def kinds(*names: str) -> list[Any]:
    """One kind of machine, and in make test-all the others."""
    return [pytest.param(name, marks=() if name == "bridged" else pytest.mark.long) for name in names]


@pytest.mark.slow
@pytest.mark.parametrize("kind", kinds(*MACHINES))
def test_each_eviction_gives_more_back_than_one_by_chance(kind: str) -> None:
    machines, planned, by_chance = MACHINES[kind], 0.0, 0.0
    for seed in SEEDS:
        cluster = filled(seed, machines, nodes=NODES, use=0.6)
        plan = cluster.plan(evictions=EVICTIONS)
        planned += sum(move.gain for move in plan.moves) / max(len(plan.moves), 1)

        cluster = filled(seed, machines, nodes=NODES, use=0.6)
        before, evictor = worth(cluster), Evictor(cluster)
        pods = evictor.movable()
        for pod, cards in random.Random(seed).sample(pods, EVICTIONS):
            evictor.evict(pod, cards)
        by_chance += (worth(cluster) - before) / EVICTIONS
    assert planned > by_chance > 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", kinds("bridged", "dgx-1", "hgx"))
def test_two_moves_come_near_to_the_best_two(kind: str) -> None:
    machines, planned, best = MACHINES[kind], 0.0, 0.0
    for seed in range(6):
        gains = [0.0]
        count = len(Evictor(filled(seed, machines, nodes=3, use=0.5)).movable())
        for order in permutations(range(count), min(count, 2)):
            cluster = filled(seed, machines, nodes=3, use=0.5)
            before, evictor = worth(cluster), Evictor(cluster)
            pods = evictor.movable()
            for number in order:
                evictor.evict(*pods[number])
                gains.append(worth(cluster) - before)
        plan = filled(seed, machines, nodes=3, use=0.5).plan(evictions=2)
        gain = sum(move.gain for move in plan.moves)
        assert gain <= max(gains) + 0.01
        planned, best = planned + gain, best + max(gains)
    assert planned >= 0.8 * best


@pytest.mark.slow
def test_no_plan_breaks_a_budget_in_a_cluster_of_fifty_nodes() -> None:
    cluster = filled(1, MACHINES["mixed"], nodes=NODES, use=0.6)
    names = [pod.record.key for pod in cluster.pods()]
    of = {name: [f"team/budget-{number % 7}"] for number, name in enumerate(names)}
    allowed = {f"team/budget-{number}": number % 3 for number in range(7)}
    plan = cluster.plan(evictions=50, budgets=Budgets(allowed, of))
    for budget, most in allowed.items():
        assert sum(of[move.pod.record.key] == [budget] for move in plan.moves) <= most
    assert len(plan.moves) == sum(allowed.values())
