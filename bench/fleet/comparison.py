"""The comparison: all contenders with the same jobs on the same machines, for each seed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bench.fleet.arrivals import MIXES, arrivals
from bench.fleet.cluster import cluster_of
from bench.fleet.contenders import Maker
from bench.fleet.figures import Figures, figures_of
from bench.fleet.links import Links
from bench.fleet.machines import nodes_of
from bench.fleet.simulation import Run, run


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much is simulated."""

    pods: int
    nodes: int
    seeds: int
    load: float


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The figures of all contenders for one cluster and mix."""

    fleet: str
    mix: str
    figures: Mapping[str, Figures]


def compare(fleet: str, mix: str, makers: Mapping[str, Maker], scale: Scale) -> Comparison:
    """Returns the comparison of contenders for one cluster and mix."""
    runs = {name: list(runs_of(fleet, mix, maker, scale)) for name, maker in makers.items()}
    return Comparison(fleet=fleet, mix=mix, figures={name: figures_of(each) for name, each in runs.items()})


def runs_of(fleet: str, mix: str, maker: Maker, scale: Scale) -> Iterator[Run]:
    """Yields the run of each seed."""
    topologies, known = nodes_of(fleet, scale.nodes), dict[object, Links]()
    sizes = [len(topology.gpus) for topology in topologies]
    for seed in range(1, scale.seeds + 1):
        jobs = arrivals(MIXES[mix], pods=scale.pods, cards=sum(sizes), largest=max(sizes), load=scale.load, seed=seed)
        cluster = cluster_of(topologies, known)
        yield run(cluster, jobs, maker(cluster, seed))
