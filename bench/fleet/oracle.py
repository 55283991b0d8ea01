"""A contender that looks at every set of every node for the pod whose turn it is, by plain loops.

It knows what the planner knows: the free cards and the pods that are there, and nothing of the future. The oldest pod
comes first, a pod without enough cards does not stop those behind it, and all pods of a job get cards or none does.
Cards are given at once; a pod binds when its node is not locked. Of equally linked cards slices go to those whose loss
does least damage, then to the fullest.
"""

from collections import defaultdict, deque
from collections.abc import Sequence
from itertools import combinations

from bench.fleet.arrivals import Job
from bench.fleet.cluster import Cluster, Node, Pod
from bench.fleet.links import Cards


class Oracle:
    """The oracle.

    Args:
        cluster: The cluster.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._waiting: list[Sequence[Pod]] = []
        self._to_bind: defaultdict[Node, deque[Pod]] = defaultdict(deque)
        self._is_new = False
        self.cpu = 0.0

    def came(self, pods: Sequence[Pod]) -> None:
        """Queues the pods."""
        self._waiting.append(pods)
        self._is_new = True

    def ended(self, pods: Sequence[Pod]) -> None:
        """Takes the cards back."""
        self._cluster.give_back(pods)
        self._is_new = True

    def unlocked(self, node: Node) -> None:
        """Binds the next pod of the node."""
        if self._to_bind[node]:
            self._cluster.bind(self._to_bind[node].popleft(), self)

    def act(self) -> None:
        """Gives each job its cards, the oldest first."""
        if not self._is_new:
            return
        self._is_new = False
        self._waiting = [pods for pods in self._waiting if not self._place(pods)]

    def _place(self, pods: Sequence[Pod]) -> bool:
        for pod in pods:
            node = self._best(pod.job)
            if node is None:
                self._cluster.give_back(pods)
                return False
            self._cluster.take(pod, node, _choice(node, pod.job)[1])
        for pod in pods:
            if pod.node and pod.node.locked:
                self._to_bind[pod.node].append(pod)
            else:
                self._cluster.bind(pod, self)
        return True

    def _best(self, job: Job) -> Node | None:
        fitting = [node for node in self._cluster.nodes if len(node.with_room(job.memory)) >= job.cards]
        return max(fitting, key=lambda node: _choice(node, job)[0], default=None)


def _choice(node: Node, job: Job) -> tuple[tuple[float, ...], Cards]:
    """Returns the best cards of a node and their rank; of slices: class, weakest pair, least damage, fullest cards."""
    if job.is_whole:
        return node.links.choice(node.free, job.cards)

    def rank(cards: Cards) -> tuple[float, ...]:
        damage = node.links.damage(node.free, tuple(card for card in cards if card in node.free))
        used = sum(sum(node.parts[card]) for card in cards)
        return (*node.links.grade(cards), -damage, used, -len(node.free))

    return max((rank(cards), cards) for cards in combinations(sorted(node.with_room(job.memory)), job.cards))
