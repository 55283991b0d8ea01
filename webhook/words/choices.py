"""The words that users may write in annotations. Standard library only: the remap program reads them too."""

import enum


class Profile(enum.StrEnum):
    """Who has to reach whose GPU memory."""

    EXCLUSIVE = "exclusive"
    POD_PEERS = "pod-peers"
    NODE_PEERS = "node-peers"
    OBSERVE = "observe"

    @property
    def shares_gpus(self) -> bool:
        """Containers see GPUs that are not their own."""
        return self in (Profile.POD_PEERS, Profile.NODE_PEERS)


class Policy(enum.StrEnum):
    """What the set of GPUs should look like."""

    BEST_EFFORT = "best-effort"
    NVLINK = "nvlink"
    SINGLE_NUMA = "single-numa"
    SPREAD = "spread"


class OnViolation(enum.StrEnum):
    """What bind does when a requirement is not met."""

    WARN = "warn"
    DENY = "deny"


class Nvls(enum.StrEnum):
    """NVLink SHARP."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


class P2pLevel(enum.StrEnum):
    """Values of ``NCCL_P2P_LEVEL``, and ``auto``."""

    AUTO = "auto"
    NVL = "NVL"
    PIX = "PIX"
    PXB = "PXB"
    PHB = "PHB"
    SYS = "SYS"


class Carrier(enum.StrEnum):
    """Which kind of container runs the remap program in the pod: the values of ``gpu.topology/remap``."""

    AUTO = "auto"
    INIT = "init"
    SIDECAR = "sidecar"
    NONE = "binding"
    """No remap container: the pod has what the review of its Binding writes."""


class Colocate(enum.StrEnum):
    """How strongly the pods of a group want one node."""

    REQUIRED = "required"
    PREFERRED = "preferred"


class Place(enum.StrEnum):
    """Whether the planner chooses the cards of a pod."""

    AUTO = "auto"
    OFF = "off"


class PlacementMode(enum.StrEnum):
    """What is done with the choice: ``placement.mode``."""

    OFF = "off"
    OBSERVE = "observe"
    """No pod waits; what would have been chosen is recorded."""
    ON = "on"


class Placement(enum.StrEnum):
    """How far the placement of a pod is: the values of the label ``gpu.topology/placement``."""

    WAITING = "waiting"
    """The scheduling gate keeps the scheduler from it."""
    PINNED = "pinned"
    """The gate is gone, and HAMi may choose from the planner's cards only."""
    RELEASED = "released"
    """The gate is gone, and HAMi chooses as it would without the planner."""


class NodePolicy(enum.StrEnum):
    """Which nodes are taken; of equal ones those whose names come first. On each, ``best-fit`` chooses the GPUs.

    ``pack`` and ``spread`` rank only nodes whose sets are no worse, by class and weakest pair, than those of
    ``best-fit``.
    """

    BEST_FIT = "best-fit"
    """The best set on one node; several nodes where their ring carries more, or where one does not suffice."""
    PACK = "pack"
    """The fewest nodes, filled one after the other; where several do, those with least to spare."""
    SPREAD = "spread"
    """The most nodes, with shares as even as their free GPUs allow."""
