"""Whose turn it is in a round: the most urgent pods first, and each namespace within its share of the budget.

A round ends at its budget of CPU time, whatever costs it: requests, requirements to nodes, searches for groups, or
sentences. A namespace that has spent its share goes on behind all others, and then in the next round.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from math import inf

from webhook.decisions.place.memory import Memory
from webhook.decisions.place.pod import PodRecord

BUDGET = 0.25
"""Seconds of CPU for the decisions of one round. The pods that are past their gates come first and get half of it."""


class Shares:
    """The turns of one round.

    Args:
        memory: The memory, with the pods and namespaces that the last round had no time for.
        cpu: Returns the seconds of CPU that this thread has spent.
    """

    def __init__(self, memory: Memory, cpu: Callable[[], float]) -> None:
        self._memory = memory
        self._cpu = cpu
        self._began, self._end = 0.0, inf
        self._has_share = True

    @property
    def has_time(self) -> bool:
        """Whether the pod whose turn it is may cost time."""
        return self._has_share and self._cpu() < self._end

    def begin(self) -> None:
        """Begins a round, with the pods that are past their gates."""
        self._began = self._cpu()
        self._end = self._began + BUDGET / 2

    def in_turn(self, pods: Sequence[PodRecord]) -> Iterator[PodRecord]:
        """Yields each pod once. While it is its turn, ``has_time`` is about the pod.

        Args:
            pods: The pods, the most urgent first.
        """
        self._end = self._began + BUDGET
        share = (self._end - self._cpu()) / max(1, len({pod.namespace for pod in pods}))
        spent, late, served = defaultdict[str, float](float), list[PodRecord](), set[str]()
        for pod in self._arranged(pods):
            self._has_share = spent[pod.namespace] < share
            if not self.has_time:
                late.append(pod)
                continue
            served.add(pod.namespace)
            before = self._cpu()
            yield pod
            spent[pod.namespace] += self._cpu() - before
        self._has_share = True
        for pod in late:
            served |= {pod.namespace} if self.has_time else set()
            yield pod
        self._memory.end_turns({pod.namespace for pod in late} - served)

    def _arranged(self, pods: Sequence[PodRecord]) -> Iterator[PodRecord]:
        """Yields the pods in the order of their turns.

        The places of a namespace follow from the urgency of its pods. In these places, its pods come by their priority,
        and of equal ones those first that had to wait for the most rounds. A namespace that had no turn in the last
        rounds comes before others.
        """
        own: dict[str, deque[PodRecord]] = defaultdict(deque)
        passed_over, without_turn = self._memory.passed_over_before, self._memory.without_turn
        for pod in sorted(pods, key=lambda pod: (-pod.priority, -passed_over.get(pod.uid, 0))):
            own[pod.namespace].append(pod)
        for place in sorted(pods, key=lambda pod: -without_turn.get(pod.namespace, 0)):
            yield own[place.namespace].popleft()
