"""The pods that come: when, for how many cards, and how long they run. All follows from a seed."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

LIFE = 900.0
"""Seconds that a job runs, on average."""
LOCK = 2.0, 3.0
"""Seconds from Bind to Allocate, in which HAMi locks the node: HAMi's documents say 2 to 3."""


class Kind(NamedTuple):
    """A kind of job."""

    weight: int
    cards: int
    """Cards of each pod."""
    pods: int = 1
    """Pods that start together."""


@dataclass(frozen=True)
class Mix:
    """The jobs of a cluster."""

    kinds: Sequence[Kind]
    has_long_tail: bool = False
    """Whether few jobs run for very long."""


MIXES: Mapping[str, Mix] = {
    "singles": Mix((Kind(70, 1), Kind(15, 2), Kind(10, 4), Kind(5, 8))),
    "pairs-quads": Mix((Kind(20, 1), Kind(45, 2), Kind(30, 4), Kind(5, 8))),
    "gangs": Mix((Kind(50, 1), Kind(20, 2), Kind(15, 2, 3), Kind(10, 4, 2), Kind(5, 4, 4))),
    "skewed": Mix((Kind(60, 1), Kind(10, 2), Kind(10, 4), Kind(20, 8)), has_long_tail=True),
}


@dataclass(frozen=True)
class Job:
    """Pods that start and end together; most are one pod."""

    number: int
    at: float
    cards: int
    life: float
    locks: tuple[float, ...]
    """For each pod the seconds from Bind to Allocate."""


def arrivals(mix: Mix, *, pods: int, cards: int, largest: int, load: float, seed: int) -> list[Job]:
    """Returns the jobs in the order in which they come.

    Args:
        mix: The mix.
        pods: The number of pods, about: the last job is complete.
        cards: The cards of the cluster.
        largest: The most cards of one node. Pods that ask for more ask for so many instead.
        load: The share of the cards that is in use if no pod waits.
        seed: The seed.
    """
    chance = random.Random(f"fleet {seed}")  # noqa: S311 - no secret
    kinds, weights = mix.kinds, [kind.weight for kind in mix.kinds]
    sizes = [min(kind.cards, largest) * kind.pods for kind in kinds for _ in range(kind.weight)]
    pause = fmean(sizes) * LIFE / (load * cards)
    jobs: list[Job] = []
    now, made = 0.0, 0
    while made < pods:
        now += chance.expovariate(1 / pause)
        kind = chance.choices(kinds, weights)[0]
        life = LIFE * chance.lognormvariate(-1.125, 1.5) if mix.has_long_tail else chance.expovariate(1 / LIFE)
        locks = tuple(chance.uniform(*LOCK) for _ in range(kind.pods))
        jobs.append(Job(len(jobs), now, min(kind.cards, largest), life, locks))
        made += kind.pods
    return jobs
