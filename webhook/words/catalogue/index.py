"""The index of the catalogue: every entry by its code, and the areas of codes."""

from collections.abc import Mapping
from types import MappingProxyType

from webhook.words.catalogue import (
    cards,
    claims,
    cluster_findings,
    extender,
    installation,
    links,
    moving,
    nodes,
    opting,
    peers,
    placement,
    placement_findings,
    releasing,
    rights,
    running,
    start,
    traffic,
    variables,
    waiting,
)
from webhook.words.catalogue.entry import Entry

AREAS: Mapping[str, str] = MappingProxyType(
    {
        "1": "Opting in",
        "2": "Cards and HAMi",
        "3": "Links",
        "4": "Variables",
        "5": "Peers",
        "6": "Placement",
        "7": "Nodes",
        "8": "Installation",
        "9": "Traffic",
    }
)
"""The area of a code by its first digit."""


def entries() -> dict[str, Entry]:
    """Returns every entry by its code, in the order of the codes.

    Raises:
        ValueError: two entries have one code.
    """
    found: dict[str, Entry] = {}
    areas = (
        *(opting, cards, claims, links, start, variables, peers),
        *(placement, waiting, placement_findings, releasing, extender, moving),
        *(nodes, installation, cluster_findings, running, rights, traffic),
    )
    for area in areas:
        for entry in vars(area).values():
            if isinstance(entry, Entry) and found.setdefault(entry.code, entry) is not entry:
                raise ValueError(f"{entry.code} is the code of two entries of the catalogue")
    return dict(sorted(found.items()))
