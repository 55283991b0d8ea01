"""The request of a selection: the number of GPUs of a node, the policy, the constraints and the weights."""

import math
from dataclasses import dataclass, fields
from enum import StrEnum

from webhook.hardware.topology.model import Gpu, MigMode, NodeTopology
from webhook.words.choices import Level
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
    """The policy by which one of the sets that meet the constraints is taken. Of equal sets the lowest indices win."""

    BEST_FIT = "best-fit"
    """The best score. Of equal sets the one wins that takes least from the GPUs that stay free: its pairs with them are
    worth least, each scored as a set of two. So a single GPU is the one that the others need least."""
    FIRST_FIT = "first-fit"
    """The lowest indices."""
    PACK = "pack"
    """The tightest fit, so that other parts of the node stay whole: the fewest GPUs stay free on the NUMA nodes of the
    set; then on its PCIe switches; then in its groups joined by NVLinks; then as ``best-fit``."""
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
class Weights:
    """The weights of the terms of a score, which are those of ``ScoreTerms``. Only the ratios of the weights matter.

    Raises:
        FormatError: a weight is negative or no number, or all are 0.
    """

    weakest: float = 0.35
    narrowest: float = 0.10
    mean: float = 0.05
    link: float = 0.25
    numa: float = 0.15
    memory: float = 0.10
    domains: float = 0.0

    def __post_init__(self) -> None:
        for field, value in zip(fields(self), self.values, strict=True):
            check_number(f"weight {field.name}", value, "a number, 0 or more")
        if not self.total:
            raise FormatError("weights", expected="one above 0", found="only 0")

    @property
    def total(self) -> float:
        """The sum of the weights, by which the weighted terms are divided, so that the best score is 1."""
        return sum(self.values)

    @property
    def values(self) -> tuple[float, ...]:
        """The weights in the order of the terms."""
        return (self.weakest, self.narrowest, self.mean, self.link, self.numa, self.memory, self.domains)


SPREAD_WEIGHTS = Weights(weakest=0.30, narrowest=0.10, mean=0.05, link=0.15, numa=0.0, memory=0.10, domains=0.30)
"""The weights of the policy ``spread``, which prefers the distribution that the other policies avoid."""


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
    weights: Weights | None = None
    """Weights of the score; None for those of the policy."""

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

    @property
    def is_plain(self) -> bool:
        """Whether the request is for the best score alone, without constraints or weights of its own."""
        return self.policy is Policy.BEST_FIT and not self.constraints.asked and not self.weights

    @property
    def scored_by(self) -> Weights:
        """The weights that apply: those of the request, else those of its policy."""
        return self.weights or (SPREAD_WEIGHTS if self.policy is Policy.SPREAD else Weights())


@dataclass(frozen=True, slots=True)
class NodeFree:
    """A node that a plan may use, with its GPUs in use."""

    topology: NodeTopology
    busy: frozenset[int | str] = frozenset()
    """Indices or UUIDs of the GPUs in use, as in a request."""
