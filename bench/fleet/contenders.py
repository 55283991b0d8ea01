"""The contenders of a comparison, by their names."""

from collections.abc import Callable, Mapping

from bench.fleet.cluster import Cluster
from bench.fleet.hami import HamiAlone, Policy
from bench.fleet.oracle import Oracle
from bench.fleet.ours import Ours, Settings
from bench.fleet.simulation import Measured

Maker = Callable[[Cluster, int], Measured]
"""Makes a contender for a cluster and a seed."""
ORACLE, HAMI = "oracle", "hami "


def contenders(settings: Settings, objectives: tuple[str, ...]) -> Mapping[str, Maker]:
    """Returns all contenders: HAMi alone by each policy, the oracle, and the planner by each objective.

    Args:
        settings: The settings of the planner.
        objectives: Values of ``placement.objective``.
    """
    made: dict[str, Maker] = {f"{HAMI}{policy}": _alone(policy) for policy in Policy}
    made[ORACLE] = lambda cluster, _: Oracle(cluster)
    return made | {f"ours {objective}": _ours(settings, objective) for objective in objectives}


def _alone(policy: Policy) -> Maker:
    return lambda cluster, seed: HamiAlone(cluster, policy, seed)


def _ours(settings: Settings, objective: str) -> Maker:
    own = Settings(objective=objective, violation=settings.violation, wait=settings.wait)
    return lambda cluster, seed: Ours(cluster, own, seed)
