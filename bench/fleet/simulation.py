"""One run: the same jobs come to a cluster of one contender, until all have ended or nothing happens any more."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from bench.fleet.arrivals import Job
from bench.fleet.cluster import Cluster, Contender, Pod

SAMPLES = 100
"""The number of looks at the free cards, about."""
STUCK = 1500.0
"""Seconds without a running job, after the last job came, after which a run ends: pods wait for each other for ever.
A node is kept for a pod in every second period of ten minutes, so something would have happened."""


class Measured(Contender, Protocol):
    """A contender that knows its CPU seconds."""

    cpu: float


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The free cards at a moment."""

    at: float
    free: int
    pairs: int
    """Linked pairs that could be given at once."""
    quads: int


@dataclass(frozen=True, kw_only=True)
class Run:
    """What happened."""

    pods: Sequence[Pod]
    samples: Sequence[Sample]
    seconds: float
    """The simulated time."""
    cpu: float


def run(cluster: Cluster, jobs: Sequence[Job], contender: Measured) -> Run:
    """Simulates until all jobs have ended, or nothing can happen any more.

    Args:
        cluster: An idle cluster.
        jobs: The jobs.
        contender: The contender, for this cluster.
    """
    pods: list[Pod] = []
    samples: list[Sample] = []
    between = max(1, len(jobs) // SAMPLES)

    def comes(job: Job) -> Callable[[], None]:
        def happens() -> None:
            made = [Pod(job, member) for member in range(len(job.locks))]
            pods.extend(made)
            contender.came(made)
            if job.number % between == 0:
                samples.append(sample(cluster))

        return happens

    for job in jobs:
        cluster.at(job.at, comes(job))
    for now in cluster.moments():
        contender.act()
        if now > max(jobs[-1].at, cluster.busy_until) + STUCK:
            break
    return Run(pods=pods, samples=samples, seconds=cluster.now, cpu=contender.cpu)


def sample(cluster: Cluster) -> Sample:
    """Looks at the free cards."""
    nodes = cluster.nodes
    return Sample(
        at=cluster.now,
        free=sum(len(node.free) for node in nodes),
        pairs=sum(node.links.fragments(node.free, 2) for node in nodes),
        quads=sum(node.links.fragments(node.free, 4) for node in nodes),
    )
