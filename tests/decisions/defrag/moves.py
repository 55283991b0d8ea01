"""Clusters in which pods of Deployments and StatefulSets run, and the moves that are planned in them."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from tests.decisions.place.cluster import PlacedCluster, named
from webhook.decisions.defrag.budgets import Budgets
from webhook.decisions.defrag.movable import Limits, RunningPod, running_pod
from webhook.decisions.defrag.plan import Defragmenter, DefragPlan
from webhook.hardware.topology.model import NodeTopology
from webhook.objects.pod import Namespace, decode_stored_pod

NOW = datetime(2026, 11, 23, tzinfo=UTC)
OLD = "2026-11-22T12:00:00Z"


@dataclass
class Running:
    """A cluster with pods that run.

    Args:
        nodes: The machines by the names of their nodes.
    """

    nodes: Mapping[str, NodeTopology]
    cluster: PlacedCluster = field(init=False)

    def __post_init__(self) -> None:
        self.cluster = PlacedCluster(*(named(machine, node) for node, machine in self.nodes.items()))

    def run(
        self,
        name: str,
        node: str,
        cards: Sequence[int],
        *,
        owner: str = "ReplicaSet",
        placement: str = "pinned",
        created: str = OLD,
        phase: str = "Running",
        priority: int = 0,
        options: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """A pod that has cards."""
        pod = self.cluster.create(name, len(cards), options=options, labels=labels, gated=False, priority=priority)
        metadata: dict[str, Any] = pod["metadata"]
        metadata["creationTimestamp"] = created
        metadata["labels"] = {**metadata["labels"], **({"gpu.topology/placement": placement} if placement else {})}
        if owner:
            metadata["ownerReferences"] = [
                {
                    "apiVersion": "apps/v1",
                    "kind": owner,
                    "name": f"of-{name}",
                    "uid": f"uid-of-{name}",
                    "controller": True,
                }
            ]
        pod["status"] = {"phase": phase, "startTime": OLD}
        self.cluster.give(name, node, tuple(f"GPU-{node}.{card}" for card in cards))

    def pods(self) -> list[RunningPod]:
        """The pods that run with cards."""
        found = (
            running_pod(decode_stored_pod(msgspec.json.encode(pod)), self.cluster.records[f"team/{name}"])
            for name, pod in self.cluster.pods.items()
        )
        return [pod for pod in found if pod]

    def defragmenter(
        self, *, evictions: int = 5, priority: int = 0, age: int = 10, budgets: Budgets | None = None
    ) -> Defragmenter:
        """What plans moves here; the world keeps what it makes of it."""
        return Defragmenter(
            self.cluster.world,
            self.cluster.policy,
            namespaces=lambda name: Namespace(name, {"gpu.topology/injection": "enabled"}, {}),
            budgets=budgets or Budgets(),
            limits=Limits(evictions=evictions, priority=priority, age=timedelta(minutes=age)),
            now=NOW,
        )

    def plan(
        self, *, evictions: int = 5, priority: int = 0, age: int = 10, budgets: Budgets | None = None
    ) -> DefragPlan:
        """The moves that are planned."""
        defragmenter = self.defragmenter(evictions=evictions, priority=priority, age=age, budgets=budgets)
        return defragmenter.plan(self.pods())


def said(plan: DefragPlan) -> list[str]:
    """The moves as ``name: a:0,1 -> b:2,3``."""
    return [
        f"{move.pod.record.name}: {move.pod.record.node}:{_joined(move.cards)} -> {move.node}:{_joined(move.to_cards)}"
        for move in plan.moves
    ]


def filled(seed: int, machines: Sequence[NodeTopology], *, nodes: int, use: float) -> Running:
    """A cluster in which pods of one and two cards were placed by chance, as HAMi without a planner does."""
    chance = random.Random(seed)
    found = Running({f"n{number:02}": machines[number % len(machines)] for number in range(nodes)})
    for node, machine in found.nodes.items():
        cards = [gpu.index for gpu in machine.gpus]
        chance.shuffle(cards)
        busy = round(len(cards) * use)
        while busy > 0 and cards:
            size = min(chance.choice((1, 1, 2)), busy, len(cards))
            taken, cards = cards[:size], cards[size:]
            busy -= size
            owner = chance.choice(("ReplicaSet", "ReplicaSet", "StatefulSet", "Job"))
            found.run(f"{node}-{taken[0]}", node, sorted(taken), owner=owner)
    return found


def _joined(cards: Sequence[int]) -> str:
    return ",".join(map(str, cards))
