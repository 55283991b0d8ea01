"""The PodDisruptionBudgets of a cluster, and the evictions that they still allow."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Budgets:
    """What the budgets of a cluster allow."""

    allowed: Mapping[str, int] = field(default_factory=dict)
    """The evictions that each budget allows now, by ``namespace/name``."""
    of: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The budgets that select a pod, by ``namespace/name`` of the pod."""
    unknown: Collection[str] = frozenset()
    """The namespaces whose budgets are not known, so that no pod of them may be evicted."""

    def allow(self, pod: str, spent: Mapping[str, int]) -> bool:
        """Returns whether a pod may be evicted.

        The API server refuses the eviction of a pod with several budgets (pkg/registry/core/pod/storage/eviction.go).

        Args:
            pod: The pod, as ``namespace/name``.
            spent: The evictions that are planned already, by budget.
        """
        if pod.partition("/")[0] in self.unknown:
            return False
        budgets = self.of.get(pod, ())
        return len(budgets) < 2 and all(self.allowed.get(one, 0) > spent.get(one, 0) for one in budgets)
