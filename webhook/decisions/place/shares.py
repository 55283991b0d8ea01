"""Whose request a round looks into: the most urgent pods first, and each namespace within its share.

To look for cards takes time with the number of nodes, and pods of one namespace can ask in as many ways as it likes. So
a round has a budget of work, and a namespace with more requests than its share allows goes on behind all others, and
then in the next round.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence

from webhook.decisions.place.memory import Memory
from webhook.decisions.place.pod import PodRecord

BUDGET = 200_000
"""The work of one round, in visits of a node: about a quarter of a second with CPython 3.11."""
MOST_OF_A_NAMESPACE = 500
"""The most pods of one namespace that a round reads anew, and the most that it tells why they wait. Each takes up to
0.1 ms of CPU."""


class Shares:
    """The turns of one round.

    Args:
        memory: The memory, with the pods and namespaces that the last round had no time for.
        work: Returns the work of the round so far.
    """

    def __init__(self, memory: Memory, work: Callable[[], int]) -> None:
        self._memory = memory
        self._work = work
        self.has_time = True
        """Whether the pod whose turn it is may cost work."""

    def in_turn(self, pods: Sequence[PodRecord]) -> Iterator[PodRecord]:
        """Yields each pod once, and sets ``has_time`` before.

        Args:
            pods: The pods, the most urgent first.
        """
        queue = self._arranged(pods)
        share = BUDGET / max(1, len({pod.namespace for pod in pods}))
        spent, late, served = Counter[str](), list[PodRecord](), set[str]()
        for pod in queue:
            before = self._work()
            self.has_time = spent[pod.namespace] < share and before < BUDGET
            if not self.has_time:
                late.append(pod)
                continue
            served.add(pod.namespace)
            yield pod
            spent[pod.namespace] += self._work() - before
        for pod in late:
            self.has_time = self._work() < BUDGET
            served |= {pod.namespace} if self.has_time else set()
            yield pod
        self.has_time = True
        self._memory.end_turns({pod.namespace for pod in late} - served)

    def _arranged(self, pods: Sequence[PodRecord]) -> Iterator[PodRecord]:
        """Yields the pods in the order of their turns.

        The places of a namespace follow from the urgency of its pods. In these places, those of its pods come first
        that had to wait for the most rounds. A namespace that had no turn in the last rounds comes before others.
        """
        own: dict[str, deque[PodRecord]] = defaultdict(deque)
        passed_over, without_turn = self._memory.passed_over_before, self._memory.without_turn
        for pod in sorted(pods, key=lambda pod: -passed_over.get(pod.uid, 0)):
            own[pod.namespace].append(pod)
        for place in sorted(pods, key=lambda pod: -without_turn.get(pod.namespace, 0)):
            yield own[place.namespace].popleft()
