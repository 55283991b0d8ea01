"""What ``status`` and the page show of a cluster: plain values, of which JSON is made as they are.

Names, sentences and identifiers come from the cluster. They are bounded here and escaped where they are shown.
"""

import enum

import msgspec

from webhook.insight.drawings.links import Link


class CardState(enum.StrEnum):
    """Who has a card."""

    FREE = "free"
    HELD = "held"
    """By one pod, as a whole."""
    SHARED = "shared"
    """By several pods, or by one with a slice of it."""
    CHOSEN = "chosen"
    """The planner chose it for a pod that HAMi has not bound yet, or keeps it for a later pod of a group."""
    UNKNOWN = "unknown"
    """It is not known which pods there are."""


class Health(enum.StrEnum):
    """How a card is."""

    OK = "ok"
    LINKS_DOWN = "links-down"
    """Fewer of its NVLinks are up than should be."""
    BROKEN = "broken"
    """HAMi or the driver says that it cannot be used."""
    CORDONED = "cordoned"
    """HAMi was told to leave it alone, as the agent does with a card that is ill."""
    UNKNOWN = "unknown"


class Verified(enum.StrEnum):
    """Whether the program in the pod found its cards to be the ones that it was given."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class Level(enum.StrEnum):
    """The worst finding of ``analyze``."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"
    HINT = "hint"
    """It may be in order; no exit code depends on it."""
    NONE = "none"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One finding of ``analyze``."""

    level: Level
    code: str
    text: str
    fix: str
    page: str
    about: str = ""
    """Its object, such as ``Namespace team-a``, where it does not stand at the object; empty otherwise."""


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU of a node."""

    index: int
    uuid: str
    product: str
    state: CardState
    health: Health
    why: str = ""
    """What is wrong with it, or for which group it is kept, in a clause; empty if there is nothing to say."""
    holders: tuple[str, ...] = ()
    """Keys of the pods that have it, ``namespace/name``."""
    is_mig: bool = False


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """One node with GPUs."""

    name: str
    product: str
    """Of its GPUs; several are joined by commas."""
    cards: tuple[Card, ...]
    links: tuple[Link, ...]
    nvlink: str
    """``healthy``, ``degraded``, ``absent`` (webhook.hardware.topology.health), or ``unknown``."""
    best: float
    """GB/s per direction of its best pair of GPUs; 0 if it has none."""
    is_schedulable: bool = True
    problem: str = ""
    """Why the picture is empty or incomplete, in a sentence."""
    findings: tuple[Finding, ...] = ()

    @property
    def lost_links(self) -> int:
        """NVLinks that are down."""
        return sum(link.lost for link in self.links)


class Pod(msgspec.Struct, frozen=True, kw_only=True):
    """One pod that asks for GPUs."""

    key: str
    """``namespace/name``."""
    namespace: str
    name: str
    owner: str
    """Such as ``Deployment train``; empty if it has none."""
    node: str
    """Where it is, or where HAMi or the planner has chosen its cards; empty while that is open."""
    cards: tuple[int, ...]
    """Indices on its node, chosen ones included, ascending; empty while it has none."""
    wanted: int | None
    """Cards, or slices, that it asks for; None where claims decide."""
    profile: str
    """The word of ``gpu.topology/profile``; empty for a pod that the webhook did not inject."""
    link: str
    """Its weakest pair in the words of ``nvidia-smi topo -m``, such as ``NV18`` or ``PHB``; ``NVB`` for NVLink through
    a third GPU of its own; empty where there is no pair or nothing is known."""
    bandwidth: float | None
    """GB/s per direction of its weakest pair; None where there is none or nothing is known."""
    best: float | None
    """GB/s per direction that as many GPUs of its node have at best; None as above."""
    nvlink_bytes: int | None = None
    """Sent and received over NVLink in the last ``moved_seconds``, by all its cards; None where no agent tells it."""
    pcie_bytes: int | None = None
    """The same over PCIe."""
    moved_seconds: int = 0
    verified: Verified
    why: str = ""
    """Why the program in it found otherwise, in its own words; empty if it did not."""
    phase: str
    """Of the pod: ``Pending``, ``Running`` and so on."""
    waits_for: str = ""
    """What a pod waits for that is not bound to a node, in a sentence; empty for others."""
    findings: tuple[Finding, ...] = ()

    @property
    def is_waiting(self) -> bool:
        """Whether it has no node, or no Binding yet."""
        return bool(self.waits_for) or not self.node


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster at one moment."""

    at: str
    """When it was read, in RFC 3339; empty if no one knows."""
    nodes: tuple[Node, ...] = ()
    """By name."""
    pods: tuple[Pod, ...] = ()
    """By key."""
    findings: tuple[Finding, ...] = ()
    """Of the installation: neither of a node nor of a pod."""
    are_judged: bool = True
    """Whether the findings belong to this moment; the page reckons them after the rest, since they take longer."""
    unread: tuple[str, ...] = ()
    """What could not be read, in sentences."""
