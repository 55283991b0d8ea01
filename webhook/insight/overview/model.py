"""The model of an overview, which ``status`` and the page show: plain values, which become JSON without changes.

Names, sentences and identifiers come from the cluster. Their length is limited here, and they are escaped where they
are shown.
"""

import enum

import msgspec

from webhook.insight.drawings.layout import Link
from webhook.insight.explain.findings import Nvlink
from webhook.insight.explain.start import Verified


class CardState(enum.StrEnum):
    """The state of a card: free, held, or chosen."""

    FREE = "free"
    HELD = "held"
    """One pod has the whole card."""
    SHARED = "shared"
    """Several pods have the card, or one pod has a slice of it."""
    CHOSEN = "chosen"
    """The planner chose the card for a pod that HAMi has not bound yet."""
    UNKNOWN = "unknown"
    """The pods of the cluster are not all known."""


class Health(enum.StrEnum):
    """The health of a card."""

    OK = "ok"
    LINKS_DOWN = "links-down"
    """Fewer NVLinks of the card are up than should be."""
    BROKEN = "broken"
    """HAMi or the driver reports that the card cannot be used."""
    CORDONED = "cordoned"
    """HAMi's list of cordoned cards names the card, so HAMi leaves it alone. The agent lists faulty cards there."""
    UNKNOWN = "unknown"


class Level(enum.StrEnum):
    """The level of a finding of ``analyze``, the worst first."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"
    HINT = "hint"
    """Something looks odd and may be in order. No exit code depends on it."""
    NONE = "none"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One finding of ``analyze``."""

    level: Level
    code: str
    text: str
    fix: str
    page: str
    about: str = ""
    """The object, such as ``Namespace team-a``, of a finding that is not listed at its object; empty otherwise."""


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU of a node."""

    index: int
    uuid: str
    product: str
    state: CardState
    health: Health
    why: str = ""
    """The problem of the card, or the group for which it is kept, in a clause; empty if there is neither."""
    holders: tuple[str, ...] = ()
    """Keys of the pods that have the card, ``namespace/name``."""
    is_mig: bool = False


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """One node with GPUs."""

    name: str
    product: str
    """The product of the GPUs; several are joined by commas."""
    cards: tuple[Card, ...]
    links: tuple[Link, ...]
    nvlink: str
    """The state of NVLink: ``healthy``, ``degraded``, ``absent`` (webhook.hardware.topology.health), or ``unknown``."""
    best: float
    """GB/s per direction of the best pair of GPUs; 0 if the node has no pair."""
    is_schedulable: bool = True
    problem: str = ""
    """The reason why the picture of the node is empty or incomplete, in a sentence."""
    findings: tuple[Finding, ...] = ()

    @property
    def lost_links(self) -> int:
        """NVLinks that are down."""
        return sum(link.lost for link in self.links)


class Pod(msgspec.Struct, frozen=True, kw_only=True):
    """One pod that asks for GPUs."""

    key: str
    """The pod as ``namespace/name``."""
    namespace: str
    name: str
    owner: str
    """The workload that made the pod, such as ``Deployment train``; empty if there is none."""
    node: str
    """The node of the pod, or the node on which HAMi or the planner has chosen its cards; empty while that is open."""
    cards: tuple[int, ...]
    """Indices of its cards on that node, chosen ones included, ascending; empty while it has none."""
    wanted: int | None
    """Number of cards, or slices, that the pod asks for; None where claims decide."""
    profile: str
    """The profile, as in ``gpu.topology/profile``; empty for a pod that the webhook did not inject."""
    link: str
    """The link of its weakest pair in the words of ``nvidia-smi topo -m``, such as ``NV18`` or ``PHB``; ``NVB`` for
    NVLink through a third GPU of the pod; empty where there is no pair or the link is not known."""
    bandwidth: float | None
    """GB/s per direction of its weakest pair; None where there is no pair or the rate is not known."""
    best: float | None
    """GB/s per direction that as many GPUs of its node have at best; None where ``bandwidth`` is None."""
    nvlink_bytes: int | None = None
    """Bytes that its cards sent and received over NVLink in the last ``moved_seconds``; None where no agent tells."""
    pcie_bytes: int | None = None
    """Bytes that its cards sent and received over PCIe in that time; None where no agent tells."""
    moved_seconds: int = 0
    nvlink_use: float | None = None
    """Share, from 0 to about 1, of what the NVLinks of its cards carry in both directions that ``nvlink_bytes`` are;
    None where one of both is not known."""
    verified: Verified
    why: str = ""
    """The reason of a failed verification, in the words of the program in the pod; empty if it did not fail."""
    phase: str
    """The phase of the pod: ``Pending``, ``Running`` and so on."""
    waits_for: str = ""
    """The thing that a pod without a Binding waits for, in a clause; empty for other pods."""
    nvlink: Nvlink = Nvlink.UNKNOWN
    """Whether the pod really has NVLink; unknown too while the findings are not computed."""
    decided_by: str = ""
    """The code of the message that decides ``nvlink``; empty where all conditions hold."""
    findings: tuple[Finding, ...] = ()

    @property
    def is_waiting(self) -> bool:
        """Whether the pod has no node, or no Binding yet."""
        return bool(self.waits_for) or not self.node


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster at one moment."""

    at: str
    """The time at which the cluster was read, in RFC 3339; empty if it is not known."""
    nodes: tuple[Node, ...] = ()
    """The nodes with GPUs, by name."""
    pods: tuple[Pod, ...] = ()
    """The pods that ask for GPUs, by key."""
    findings: tuple[Finding, ...] = ()
    """The findings about objects that are neither in ``nodes`` nor in ``pods``, such as those of the installation."""
    are_judged: bool = True
    """Whether the findings were computed. The page computes them after the rest, because they take longer."""
    unread: tuple[str, ...] = ()
    """The parts of the cluster that could not be read, with the problem, in sentences."""
    nodes_problem: str = ""
    """The reason why no node could be listed; empty if some were."""
    remedy: str = ""
    """The role that allows what could not be read, in a sentence; empty if no right is missing."""
