"""The cluster or state for which moves are planned."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from webhook.cli.snapshots import from_cluster, from_files
from webhook.cluster.api.api_server import SECONDS
from webhook.cluster.api.contexts import Where
from webhook.cluster.api.disruption import list_budgets
from webhook.cluster.api.session import connect
from webhook.cluster.api.verbs import Api
from webhook.cluster.snapshot.model import Snapshot
from webhook.decisions.defrag.budgets import Budgets
from webhook.decisions.defrag.movable import Limits, RunningPod, running_pod
from webhook.decisions.defrag.plan import Defragmenter
from webhook.decisions.place.world import World
from webhook.insight.analyze.free_cards import FilledWorld
from webhook.words import names
from webhook.words.errors import GpuTopologyError


class Seen(NamedTuple):
    """A cluster at one moment."""

    snapshot: Snapshot
    world: World
    pods: Sequence[RunningPod]
    budgets: Budgets

    def defragmenter(self, limits: Limits) -> Defragmenter:
        """Returns what plans moves here. It can be used once."""
        return Defragmenter(
            self.world,
            self.snapshot.policy,
            namespaces=self.snapshot.namespace,
            budgets=self.budgets,
            limits=limits,
            now=self.snapshot.at or datetime.now(UTC),
        )


def see_cluster(where: Where, config: Path | None) -> Seen:
    """Read the present cluster.

    Raises:
        GpuTopologyError: the cluster cannot be read, or a part of it that decides about moves.
    """
    snapshot = from_cluster(where, None, config).snapshot
    for what in ("nodes", "namespaces"):
        if problem := snapshot.problems.get(what):
            raise GpuTopologyError(f"{problem}. Without {what} no move can be planned")
    world, pods = _world(snapshot)
    return Seen(snapshot, world, pods, _budgets(where, {pod.record.namespace for pod in pods}))


def see_state(state: Path, config: Path | None) -> Seen:
    """Read a state directory, which has no PodDisruptionBudgets.

    Raises:
        GpuTopologyError: it cannot be read.
    """
    snapshot = from_files((), state, None, config).snapshot
    return Seen(snapshot, *_world(snapshot), Budgets())


def _world(snapshot: Snapshot) -> tuple[World, list[RunningPod]]:
    filled = FilledWorld(snapshot)
    pods = (running_pod(known.pod, record) for known, record in filled.records)
    return filled.world, [pod for pod in pods if pod]


def _budgets(where: Where, namespaces: set[str]) -> Budgets:
    session = connect(where, user_agent=names.DEFRAG_USER_AGENT, seconds=SECONDS)

    async def read() -> Budgets:
        api = Api(session)
        try:
            found, unknown = await list_budgets(api, namespaces)
        except msgspec.DecodeError:
            raise GpuTopologyError("list poddisruptionbudgets: expected PodDisruptionBudgets, found others") from None
        finally:
            await api.close()
        of: dict[str, list[str]] = {}
        for budget, pods in found:
            for pod in pods:
                of.setdefault(f"{budget.metadata.namespace}/{pod}", []).append(budget.key)
        return Budgets({budget.key: budget.allowed for budget, _ in found}, of, unknown)

    return asyncio.run(read())
