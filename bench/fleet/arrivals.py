"""The pods that come: when, for how many cards or slices, and how long they run. All follows from a seed."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from webhook.decisions.allocation.model import WHOLE

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
    memory: int = WHOLE
    """Memory of each card in per cent; less than 100: each pod has slices."""


@dataclass(frozen=True)
class Mix:
    """The jobs of a cluster."""

    kinds: Sequence[Kind]
    has_long_tail: bool = False
    """Whether few jobs run for very long."""

    @property
    def has_slices(self) -> bool:
        """Whether some pods ask for slices."""
        return any(kind.memory < WHOLE for kind in self.kinds)


MIXES: Mapping[str, Mix] = {
    "singles": Mix((Kind(70, 1), Kind(15, 2), Kind(10, 4), Kind(5, 8))),
    "pairs-quads": Mix((Kind(20, 1), Kind(45, 2), Kind(30, 4), Kind(5, 8))),
    "gangs": Mix((Kind(50, 1), Kind(20, 2), Kind(15, 2, 3), Kind(10, 4, 2), Kind(5, 4, 4))),
    "skewed": Mix((Kind(60, 1), Kind(10, 2), Kind(10, 4), Kind(20, 8)), has_long_tail=True),
    "slices": Mix(
        (
            *(Kind(10, 1), Kind(10, 2), Kind(7, 4), Kind(3, 8)),
            *(Kind(25, 1, memory=10), Kind(20, 1, memory=25), Kind(10, 1, memory=45)),
            *(Kind(9, 2, memory=25), Kind(6, 2, memory=45)),
        )
    ),
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
    memory: int = WHOLE
    """Memory of each card in per cent; less than 100: each pod has slices."""

    @property
    def is_whole(self) -> bool:
        """Whether its cards are whole ones."""
        return self.memory == WHOLE


def arrivals(mix: Mix, *, pods: int, cards: int, largest: int, load: float, seed: int) -> list[Job]:
    """Returns the jobs in the order in which they come.

    Args:
        mix: The mix.
        pods: The number of pods, about: the last job is complete.
        cards: The cards of the cluster.
        largest: The most cards of one node. Pods that ask for more ask for so many instead.
        load: The share of the cards, by their memory, that is in use if no pod waits.
        seed: The seed.
    """
    chance = random.Random(f"fleet {seed}")  # noqa: S311 - no secret
    kinds, weights = mix.kinds, [kind.weight for kind in mix.kinds]
    sizes = [min(kind.cards, largest) * kind.pods * kind.memory / WHOLE for kind in kinds for _ in range(kind.weight)]
    pause = fmean(sizes) * LIFE / (load * cards)
    jobs: list[Job] = []
    now, made = 0.0, 0
    while made < pods:
        now += chance.expovariate(1 / pause)
        kind = chance.choices(kinds, weights)[0]
        life = LIFE * chance.lognormvariate(-1.125, 1.5) if mix.has_long_tail else chance.expovariate(1 / LIFE)
        locks = tuple(chance.uniform(*LOCK) for _ in range(kind.pods))
        jobs.append(Job(len(jobs), now, min(kind.cards, largest), life, locks, kind.memory))
        made += kind.pods
    return jobs
