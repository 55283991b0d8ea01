"""The request of a selection: the number of GPUs of a node, the policy and the constraints."""

import math
from dataclasses import dataclass
from enum import StrEnum

from webhook.hardware.topology.model import Gpu, MigMode, NodeTopology
from webhook.words.choices import Level, Objective
from webhook.words.errors import FormatError


def check_count(name: str, value: int) -> None:
    """Raises FormatError unless ``value`` is 1 or more."""
    if value < 1:
        raise FormatError(name, expected="1 or more", found=value)


def check_number(name: str, value: float, expected: str) -> None:
    """Raises FormatError unless ``value`` is finite and not negative."""
    if not (math.isfinite(value) and value >= 0):
        raise FormatError(name, expected=expected, found=value)


class Policy(StrEnum):
    """The policy by which one of the sets that meet the constraints is taken."""

    BEST_FIT = "best-fit"
    """The best set by the criteria of ``search.Search``: for the job first, then for others."""
    SPREAD = "spread"
    """The most NUMA nodes with the fewest GPUs on each; then PCIe switches in the same way; then as ``best-fit``."""


class Constraint(StrEnum):
    """A constraint on a set. The members are in order of importance: the first is given up last."""

    REQUIRE_NVLINK = "require-nvlink"
    """Every pair has direct NVLinks."""
    MIN_LEVEL = "min-level"
    """Every pair has direct NVLinks or a connection that is no farther than a level."""
    MIN_BANDWIDTH = "min-bandwidth"
    """The weakest pair has at least a number of GB/s per direction."""
    SAME_NUMA = "same-numa"
    """All GPUs are on one known NUMA node."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Constraints:
    """The constraints on a set. A single GPU has no pairs and meets all constraints on pairs.

    Raises:
        FormatError: the bandwidth is negative or no number.
    """

    require_nvlink: bool = False
    min_level: Level | None = None
    """The farthest connection of every pair; None for no constraint."""
    min_bandwidth: float = 0.0
    """GB/s per direction of the weakest pair; 0 for no constraint."""
    same_numa: bool = False

    def __post_init__(self) -> None:
        check_number("min-bandwidth", self.min_bandwidth, "GB/s per direction, 0 or more")

    @property
    def asked(self) -> tuple[Constraint, ...]:
        """The constraints that are set, in the order of ``Constraint``."""
        asks = (self.require_nvlink, self.min_level is not None, self.min_bandwidth > 0, self.same_numa)
        return tuple(constraint for constraint, wanted in zip(Constraint, asks, strict=True) if wanted)

    def only(self, *kept: Constraint) -> "Constraints":
        """Returns these constraints without those that are not in ``kept``."""
        return Constraints(
            require_nvlink=self.require_nvlink and Constraint.REQUIRE_NVLINK in kept,
            min_level=self.min_level if Constraint.MIN_LEVEL in kept else None,
            min_bandwidth=self.min_bandwidth if Constraint.MIN_BANDWIDTH in kept else 0.0,
            same_numa=self.same_numa and Constraint.SAME_NUMA in kept,
        )


UNCONSTRAINED = Constraints()


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """A request for GPUs of one node that will work together.

    Raises:
        FormatError: the count is below 1.
    """

    count: int
    policy: Policy = Policy.BEST_FIT
    constraints: Constraints = UNCONSTRAINED
    busy: frozenset[int | str] = frozenset()
    """Indices or UUIDs of the GPUs in use; those that the node does not have are ignored."""
    whole: frozenset[int] | None = None
    """Indices of the GPUs of which nobody uses a part, and that others miss if the job takes them; None: all that are
    not in use."""
    linked: bool = True
    """Whether the links between the GPUs matter to the job."""
    objective: Objective = Objective.BANDWIDTH

    def __post_init__(self) -> None:
        check_count("count", self.count)

    def says_busy(self, gpu: Gpu) -> bool:
        """Returns whether a GPU is in use."""
        return gpu.index in self.busy or (bool(gpu.uuid) and gpu.uuid in self.busy)

    def may_use(self, gpu: Gpu) -> bool:
        """Returns whether a GPU is free and usable.

        GPUs in MIG mode are not: their instances have no links, and a job can have only one of them.
        """
        return gpu.mig_mode is not MigMode.ENABLED and not self.says_busy(gpu)


@dataclass(frozen=True, slots=True)
class NodeFree:
    """A node that a plan may use, with its GPUs in use."""

    topology: NodeTopology
    busy: frozenset[int | str] = frozenset()
    """Indices or UUIDs of the GPUs in use, as in a request."""
