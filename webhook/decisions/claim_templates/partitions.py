"""The alternatives of a claim on nodes where NVIDIA's driver uses partitions of the NVSwitches.

With its gate ``FabricManagerPartitioning`` the driver prepares only sets of GPUs that are exactly one partition:
dra-driver-nvidia-gpu 0.5.0, cmd/gpu-kubelet-plugin/device_state.go, resolveFabricPartition. A claim gets such a set
where all its GPUs have the same number of a partition of their count.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from webhook.decisions.claim_templates.alternatives import Alternative, Found, kept_alternatives
from webhook.decisions.claims.slices import PublishedDevice
from webhook.hardware.topology.model import NodeTopology
from webhook.hardware.topology.sets import LinkClass
from webhook.words.listing import listed
from webhook.words.printable import printable

Published = Mapping[str, Sequence[PublishedDevice]]
"""The whole GPUs that NVIDIA's driver publishes, by node; without nodes of which that is not known."""
GATE = "FabricManagerPartitioning"
"""The feature gate of the driver: alpha and off by default in 0.5.0, pkg/featuregates/featuregates.go."""
_LISTED = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Partitioned:
    """The alternatives of a claim whose GPUs the driver prepares, as far as it says what it prepares."""

    found: Found
    without: tuple[str, ...]
    """Nodes of which no alternative is left."""
    unknown: tuple[str, ...]
    """Nodes with NVSwitches of which nothing says whether the driver uses partitions."""


def by_partitions(
    found: Found,
    count: int,
    topologies: Mapping[str, NodeTopology],
    published: Published,
    wanted: Collection[str] | None = None,
) -> Partitioned:
    """Returns the alternatives, of which those on nodes with partitions ask for exactly one partition.

    An alternative on nodes of both kinds becomes two. GPUs whose driver may use partitions and names none are in no
    alternative that is limited in this way.

    Args:
        found: The alternatives without regard to partitions.
        count: The number of GPUs of a claim.
        topologies: The topologies of all nodes.
        published: What the driver publishes.
        wanted: The nodes whose GPUs the claim should get; None for all.
    """
    every = [
        each for one in (*found.alternatives, *found.left_out) for each in _split(one, count, topologies, published)
    ]
    useful = [each for each in every if wanted is None or not each.reach.keys().isdisjoint(wanted)]
    reached = {node for each in useful for node in each.reach}
    meant = {node for one in (*found.alternatives, *found.left_out) for node in one.reach}
    unknown = {
        node
        for each in useful
        if each.quality.link is LinkClass.NVSWITCH and not each.partition
        for node in each.reach
        if _names_none(published.get(node))
    }
    asked = meant if wanted is None else meant & set(wanted)
    return Partitioned(
        found=kept_alternatives(useful, found.nameless),
        without=tuple(sorted(asked - reached)),
        unknown=tuple(sorted(unknown)),
    )


def _split(
    one: Alternative, count: int, topologies: Mapping[str, NodeTopology], published: Published
) -> Iterator[Alternative]:
    """Yields the alternative for nodes with partitions, if it has any there, and for those without."""
    limited = {node for node in one.reach if _uses_partitions(published.get(node, ()))}
    if not limited:
        yield one
        return
    inside = {node: _in_partitions(one.reach[node], count, topologies[node], published[node]) for node in limited}
    if reach := {node: gpus for node, gpus in inside.items() if gpus}:
        yield replace(one, reach=reach, partition=count)
    if reach := {node: gpus for node, gpus in one.reach.items() if node not in limited and _says_none(published, node)}:
        yield replace(one, reach=reach, outside_partitions=True)


def _in_partitions(
    gpus: Sequence[int], count: int, topology: NodeTopology, published: Sequence[PublishedDevice]
) -> tuple[int, ...]:
    """Returns those of the GPUs, by index, of which all of one partition of this size are among the GPUs."""
    numbers = {device.uuid: (device.partitions or {}).get(count) for device in published if device.uuid}
    members: dict[int, list[int]] = {}
    for gpu in topology.gpus:
        number = numbers.get(gpu.uuid)
        if gpu.index in gpus and number is not None:
            members.setdefault(number, []).append(gpu.index)
    return tuple(sorted(index for of in members.values() if len(of) == count for index in of))


def _uses_partitions(gpus: Sequence[PublishedDevice]) -> bool:
    return any(gpu.partitions for gpu in gpus)


def _says_none(published: Published, node: str) -> bool:
    """Returns whether no GPU of the node has an attribute of partitions, as far as is known."""
    return all(gpu.partitions is None for gpu in published.get(node, ()))


def _names_none(gpus: Sequence[PublishedDevice] | None) -> bool:
    """Returns whether nothing says if the driver uses partitions: it publishes nothing, or modules alone."""
    return gpus is None or any(gpu.partitions is not None and not gpu.partitions for gpu in gpus)


def no_partition(count: int, nodes: Sequence[str], published: Published) -> str:
    """Returns that nodes have no partition of this size whose GPUs are linked as required, and what they have."""
    told = [f"node {printable(node)} has {_sizes(published.get(node, ()))}" for node in nodes[:_LISTED]]
    more = f"; {len(nodes) - _LISTED} more nodes have none either" if len(nodes) > _LISTED else ""
    lack = f"no partition of {count} such GPUs is published, and NVIDIA's driver prepares no other set"
    return f"{lack}: {'; '.join(told)}{more}"


def lost_nodes(found: Partitioned, count: int, published: Published) -> list[str]:
    """Returns a line about nodes that partitions leave out; empty if there are none."""
    return [f"Left out: {no_partition(count, found.without, published)}."] if found.without else []


def unknown_nodes(found: Partitioned) -> list[str]:
    """Returns a line about nodes of which is not known what the driver prepares; empty if there are none."""
    if not found.unknown:
        return []
    nodes = [printable(node) for node in found.unknown[:_LISTED]]
    more = [f"{len(found.unknown) - _LISTED} more"] if len(found.unknown) > _LISTED else []
    asked = f"whether NVIDIA's driver uses partitions of the NVSwitches there ({GATE})"
    return [f"Not known of {listed([*nodes, *more])}: {asked}. If it does, it may refuse to prepare a claim's GPUs."]


def _sizes(gpus: Sequence[PublishedDevice]) -> str:
    sizes = sorted({size for gpu in gpus for size in gpu.partitions or ()})
    return f"partitions of {listed(map(str, sizes[:_LISTED]))}" if sizes else "none"
