"""What sets of cards of one machine are worth, by plain loops: the judge of all contenders, and the oracle's eyes."""

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from math import inf

from bench.selection import matrix
from tests.control_plane.hami.nodes import node_manifest
from webhook.hardware.topology.connections import Connections, PathType
from webhook.hardware.topology.model import NodeTopology

Cards = tuple[int, ...]
SIZES, BOARD = (2, 4), 8
"""The sizes of linked sets whose loss counts as damage, and that of a whole board."""


class Links:
    """The pairs of a machine, as tables.

    Args:
        topology: The machine. Its name and the UUIDs of its cards do not matter.
    """

    def __init__(self, topology: NodeTopology) -> None:
        connections, cards = Connections(topology), range(len(topology.gpus))
        self.count = len(cards)
        self._bandwidth: Sequence[Sequence[float]] = matrix(topology)
        self._linked = frozenset(
            pair for pair in combinations(cards, 2) if connections.direct(*pair).type is PathType.NVL
        )
        self.numa: Sequence[int] = [gpu.numa_node or 0 for gpu in topology.gpus]
        self.pair_scores = _pair_scores(topology)
        """The scores of pairs that HAMi's device plugin writes for its policy ``topology-aware``."""
        self._damages: dict[tuple[frozenset[int], Cards], int] = {}
        self._best: dict[tuple[frozenset[int], int], tuple[float, float]] = {}
        self._choices: dict[tuple[frozenset[int], int], tuple[tuple[float, ...], Cards]] = {}
        self._fragments: dict[tuple[frozenset[int], int], int] = {}

    def is_linked(self, cards: Cards) -> bool:
        """Returns whether NVLink joins every two of these cards."""
        return all(pair in self._linked for pair in combinations(sorted(cards), 2))

    def weakest(self, cards: Cards) -> float:
        """Returns the GB/s of the weakest pair."""
        return min((self._bandwidth[one][other] for one, other in combinations(cards, 2)), default=inf)

    def grade(self, cards: Cards) -> tuple[float, float]:
        """Returns whether a set is linked, and its weakest pair; a single card is as good as any other."""
        return float(self.is_linked(cards)), self.weakest(cards)

    def best_grade(self, free: frozenset[int], count: int) -> tuple[float, float]:
        """Returns the grade of the best set of free cards; zeros if there are too few."""
        key = free, count
        if key not in self._best:
            every = combinations(sorted(free), count)
            self._best[key] = max((self.grade(cards) for cards in every), default=(0.0, 0.0))
        return self._best[key]

    def damage(self, free: frozenset[int], cards: Cards) -> int:
        """Returns in how many more cards of linked pairs, linked quads and whole boards free cards were before."""
        key = free, cards
        if key not in self._damages:
            left = free - set(cards)
            lost = sum(size * (self.fragments(free, size) - self.fragments(left, size)) for size in SIZES)
            self._damages[key] = lost + BOARD * (len(free) // BOARD - len(left) // BOARD)
        return self._damages[key]

    def choice(self, free: frozenset[int], count: int) -> tuple[tuple[float, ...], Cards]:
        """Returns the best set of free cards and its rank: class, weakest pair, least damage, fewest cards left."""
        key = free, count
        if key not in self._choices:
            left = float(count - len(free))
            every = combinations(sorted(free), count)
            ranked = (((*self.grade(cards), -self.damage(free, cards), left), cards) for cards in every)
            self._choices[key] = max(ranked)
        return self._choices[key]

    def fragments(self, free: frozenset[int], size: int) -> int:
        """Returns how many linked sets of a size can be made of free cards at once."""
        key = free, size
        if key not in self._fragments:
            most, enough = 0, len(free) // size
            for cards in combinations(sorted(free), size):
                if most >= enough:
                    break
                if self.is_linked(cards):
                    most = max(most, 1 + self.fragments(free - set(cards), size))
            self._fragments[key] = most
        return self._fragments[key]


def _pair_scores(topology: NodeTopology) -> Mapping[tuple[int, int], int]:
    annotation = node_manifest(topology, scores=True)["metadata"]["annotations"]["hami.io/node-nvidia-score"]
    indices = {gpu.uuid: gpu.index for gpu in topology.gpus}
    return {
        (indices[row["uuid"]], indices[other]): score
        for row in json.loads(annotation)
        for other, score in row["score"].items()
    }


def total_score(links: Links, cards: Iterable[int]) -> int:
    """Returns HAMi's score of a set: the sum over its pairs."""
    return sum(links.pair_scores[pair] for pair in combinations(cards, 2))
