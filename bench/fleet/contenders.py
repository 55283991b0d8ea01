"""The contenders of a comparison, by their names."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from bench.fleet.cluster import Cluster
from bench.fleet.hami import HamiAlone, Policy
from bench.fleet.oracle import Oracle
from bench.fleet.ours import Ours, Settings
from bench.fleet.simulation import Measured
from webhook.words.choices import Slices

Maker = Callable[[Cluster, int], Measured]
"""Makes a contender for a cluster and a seed."""
ORACLE, HAMI = "oracle", "hami "


def contenders(settings: Settings, objectives: tuple[str, ...], *, has_slices: bool = False) -> Mapping[str, Maker]:
    """Returns all contenders: HAMi alone by each policy, the oracle, and the planner by each objective.

    Args:
        settings: The settings of the planner.
        objectives: Values of ``placement.objective``.
        has_slices: Whether some pods ask for slices, so that also those contenders count that differ by slices alone.
    """
    policies = [policy for policy in Policy if has_slices or policy is not Policy.BINPACK_CARDS]
    made: dict[str, Maker] = {f"{HAMI}{policy}": _alone(policy) for policy in policies}
    made[ORACLE] = lambda cluster, _: Oracle(cluster)
    for objective in objectives:
        made[f"ours {objective}"] = _ours(replace(settings, objective=objective))
        if has_slices:
            made[f"ours {objective} slices"] = _ours(replace(settings, objective=objective, slices=Slices.ON))
    return made


def _alone(policy: Policy) -> Maker:
    return lambda cluster, seed: HamiAlone(cluster, policy, seed)


def _ours(settings: Settings) -> Maker:
    return lambda cluster, seed: Ours(cluster, settings, seed)
