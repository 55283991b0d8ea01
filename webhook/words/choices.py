"""The words that users may write in annotations. Standard library only: the remap program reads them too."""

import enum


class Profile(enum.StrEnum):
    """The profile of a pod: the containers that have to reach each other's GPU memory."""

    EXCLUSIVE = "exclusive"
    POD_PEERS = "pod-peers"
    NODE_PEERS = "node-peers"
    OBSERVE = "observe"

    @property
    def shares_gpus(self) -> bool:
        """Whether containers see GPUs that are not their own."""
        return self in (Profile.POD_PEERS, Profile.NODE_PEERS)


class Policy(enum.StrEnum):
    """The preferred kind of a set of GPUs."""

    BEST_EFFORT = "best-effort"
    NVLINK = "nvlink"
    SINGLE_NUMA = "single-numa"
    SPREAD = "spread"


class OnViolation(enum.StrEnum):
    """The reaction of bind to a requirement that is not met."""

    WARN = "warn"
    DENY = "deny"


class Nvls(enum.StrEnum):
    """The use of NVLink SHARP."""

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
    """The kind of container that runs the remap program in the pod: the values of ``gpu.topology/remap``."""

    AUTO = "auto"
    INIT = "init"
    SIDECAR = "sidecar"
    NONE = "binding"
    """No remap container: the pod has the values that the review of its Binding writes."""


class Colocate(enum.StrEnum):
    """The strength of the wish of a group for one node."""

    REQUIRED = "required"
    PREFERRED = "preferred"


class Peers(enum.StrEnum):
    """The use of signs that a pod exchanges GPU memory with peers."""

    AUTO = "auto"
    """The signs are told."""
    NONE = "none"
    """The pod has no peers, whatever the signs say."""


class Isolation(enum.StrEnum):
    """The namespaces of pods of ``node-peers``."""

    HOST = "host"
    """Those of the host for processes and for shared memory."""
    ISOLATED = "isolated"
    """Their own, with process IDs that no peer has."""


class Place(enum.StrEnum):
    """The switch of a pod for the choice of its cards by the planner."""

    AUTO = "auto"
    OFF = "off"


class PlacementMode(enum.StrEnum):
    """The use of the planner's choice: ``placement.mode``."""

    OFF = "off"
    OBSERVE = "observe"
    """No pod waits; the planner's choice is only recorded."""
    ON_REQUEST = "on-request"
    """Pods wait that ask for something of their cards; for the others the planner's choice is only recorded."""
    ON = "on"

    @property
    def holds_pods(self) -> bool:
        """Whether any pod waits for the planner."""
        return self in (PlacementMode.ON_REQUEST, PlacementMode.ON)

    @property
    def observes(self) -> bool:
        """Whether the planner records what it would have chosen for pods that do not wait."""
        return self in (PlacementMode.OBSERVE, PlacementMode.ON_REQUEST)


class Placement(enum.StrEnum):
    """The stage of the placement of a pod: the values of the label ``gpu.topology/placement``."""

    WAITING = "waiting"
    """The scheduling gate keeps the scheduler from the pod."""
    PINNED = "pinned"
    """The gate is removed, and HAMi may choose from the planner's cards only."""
    RELEASED = "released"
    """The gate is removed, and HAMi chooses as it would without the planner."""


class Level(enum.StrEnum):
    """The farthest connection that a pair of GPUs may have, nearest first, in the words of ``nvidia-smi topo -m``."""

    NVLINK = "NVLink"
    PIX = "PIX"
    PXB = "PXB"
    PHB = "PHB"
    """Through the CPU, but not between sockets."""


class Slices(enum.StrEnum):
    """The use of the planner's choice for pods that are not injected: ``placement.slices``."""

    OFF = "off"
    OBSERVE = "observe"
    """No such pod waits; the planner's choice is only recorded."""
    ON = "on"


class Objective(enum.StrEnum):
    """The aim of the planner, beside what a pod requires: ``placement.objective``."""

    BANDWIDTH = "bandwidth"
    """The best class, then the most bandwidth; then what costs other pods least."""
    LINKED = "linked"
    """The best class, then what costs other pods least; then the most bandwidth."""


class NodePolicy(enum.StrEnum):
    """The choice of nodes; of equal nodes those whose names come first. On each node, ``best-fit`` chooses the GPUs.

    ``pack`` and ``spread`` rank only nodes whose sets are no worse, by class and weakest pair, than those of
    ``best-fit``.
    """

    BEST_FIT = "best-fit"
    """The best set on one node; several nodes where their ring has more bandwidth, or where one node is not enough."""
    PACK = "pack"
    """The fewest nodes, filled one after the other; of several such choices, the one with the least left over."""
    SPREAD = "spread"
    """The most nodes, with shares as even as their free GPUs allow."""


class Alignment(enum.StrEnum):
    """What a pod wants of HAMi where the kubelet does not offer the cards that were allocated."""

    BEST_EFFORT = "best-effort"
    """Other cards if they fit; otherwise what the kubelet picks."""
    STRICT = "strict"
    """Other cards if they fit; otherwise the pod fails."""
