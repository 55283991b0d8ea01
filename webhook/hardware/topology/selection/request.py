"""What a selection is asked for: how many GPUs of a node, by which policy, under which constraints."""

import math
from dataclasses import dataclass, fields
from enum import StrEnum

from webhook.hardware.topology.model import Gpu, MigMode, NodeTopology
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
    """Which of the sets that meet the constraints is taken; of equal ones, always the lowest indices."""

    BEST_FIT = "best-fit"
    """The best score. Of equal sets, the one that takes least from the GPUs that stay free: the pairs between it and
    them are worth least, each as a set of two. A single GPU is therefore the one that the others need least."""
    FIRST_FIT = "first-fit"
    """The lowest indices."""
    PACK = "pack"
    """The tightest fit, so that other parts stay whole: on the NUMA nodes that the set touches, the fewest GPUs stay
    free; then the same for PCIe switches; then for the groups that NVLinks join; then as ``best-fit``."""
    SPREAD = "spread"
    """On the most NUMA nodes, the fewest GPUs on each; then the same for PCIe switches; then as ``best-fit``."""


class Constraint(StrEnum):
    """What a set may have to meet; what is given up last comes first."""

    REQUIRE_NVLINK = "require-nvlink"
    """Every pair has NVLinks of its own."""
    MIN_BANDWIDTH = "min-bandwidth"
    """The weakest pair has so many GB/s per direction."""
    SAME_NUMA = "same-numa"
    """All GPUs are on one NUMA node, and it is known which."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Constraints:
    """What a set should meet. A single GPU has no pairs and meets what is asked of them.

    Raises:
        FormatError: the bandwidth is negative or no number.
    """

    require_nvlink: bool = False
    min_bandwidth: float = 0.0
    """GB/s per direction of the weakest pair; 0 asks for nothing."""
    same_numa: bool = False

    def __post_init__(self) -> None:
        check_number("min-bandwidth", self.min_bandwidth, "GB/s per direction, 0 or more")

    @property
    def asked(self) -> tuple[Constraint, ...]:
        """Those that ask for something, in the order of ``Constraint``."""
        asks = (self.require_nvlink, self.min_bandwidth > 0, self.same_numa)
        return tuple(constraint for constraint, wanted in zip(Constraint, asks, strict=True) if wanted)

    def only(self, *kept: Constraint) -> "Constraints":
        """Nothing else than these, as they are asked for here."""
        return Constraints(
            require_nvlink=self.require_nvlink and Constraint.REQUIRE_NVLINK in kept,
            min_bandwidth=self.min_bandwidth if Constraint.MIN_BANDWIDTH in kept else 0.0,
            same_numa=self.same_numa and Constraint.SAME_NUMA in kept,
        )


UNCONSTRAINED = Constraints()


@dataclass(frozen=True, kw_only=True, slots=True)
class Weights:
    """How much each term of a score counts; only their ratios matter. The terms are those of ``ScoreTerms``.

    Raises:
        FormatError: one is negative or no number, or all are 0.
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
        """What the weighted terms are divided by, so that the best score is 1."""
        return sum(self.values)

    @property
    def values(self) -> tuple[float, ...]:
        """In the order of the terms."""
        return (self.weakest, self.narrowest, self.mean, self.link, self.numa, self.memory, self.domains)


SPREAD_WEIGHTS = Weights(weakest=0.30, narrowest=0.10, mean=0.05, link=0.15, numa=0.0, memory=0.10, domains=0.30)
"""Of the policy ``spread``, which looks for what the others avoid."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """GPUs of one node that will work together.

    Raises:
        FormatError: the count is below 1.
    """

    count: int
    policy: Policy = Policy.BEST_FIT
    constraints: Constraints = UNCONSTRAINED
    busy: frozenset[int | str] = frozenset()
    """Indices or UUIDs of the GPUs in use; what the node does not have is passed over."""
    weights: Weights | None = None
    """Of the score; None for those of the policy."""

    def __post_init__(self) -> None:
        check_count("count", self.count)

    def says_busy(self, gpu: Gpu) -> bool:
        """Whether a GPU is in use."""
        return gpu.index in self.busy or (bool(gpu.uuid) and gpu.uuid in self.busy)

    def may_use(self, gpu: Gpu) -> bool:
        """Whether a GPU is free and usable. Between MIG instances nothing is, and one job can have only one of them."""
        return gpu.mig_mode is not MigMode.ENABLED and not self.says_busy(gpu)

    @property
    def is_plain(self) -> bool:
        """Whether only the best score is asked for."""
        return self.policy is Policy.BEST_FIT and not self.constraints.asked and not self.weights

    @property
    def scored_by(self) -> Weights:
        """The weights that hold."""
        return self.weights or (SPREAD_WEIGHTS if self.policy is Policy.SPREAD else Weights())


@dataclass(frozen=True, slots=True)
class NodeFree:
    """A node that a plan may use, and what of it is in use."""

    topology: NodeTopology
    busy: frozenset[int | str] = frozenset()
    """As in a request."""
