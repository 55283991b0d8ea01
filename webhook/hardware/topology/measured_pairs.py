"""Measured bandwidths between the GPUs of a node, and their way into a topology and from one topology to the next.

A figure belongs to two GPUs, by their UUIDs. It is valid as long as the driver and the links between the two GPUs are
those with which it was measured.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import permutations

from webhook.hardware.topology.connections import Connections
from webhook.hardware.topology.model import Gpu, MigMode, NodeTopology


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredPair:
    """The measured bandwidth from one GPU to another."""

    word: str
    """The link between them, in the words of ``nvidia-smi topo -m``."""
    mbps: int
    """MB/s (1e6 bytes) in that direction."""
    is_slower: bool
    """Whether the pair is slower than expected."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Measurements:
    """The measured pairs of one machine."""

    at: str
    """When the last measurement began, RFC 3339; empty if nothing was ever measured."""
    driver: str
    """Version of NVIDIA's driver."""
    pairs: Mapping[tuple[str, str], MeasuredPair] = field(default_factory=dict)
    """The measured pairs, by the UUIDs of source and target."""

    def with_newer(self, newer: "Measurements") -> "Measurements":
        """Returns the pairs of both, with the newer figure of a pair that is in both.

        Pairs of another driver version than that of ``newer`` are dropped.
        """
        kept = self.pairs if self.driver == newer.driver else {}
        return replace(newer, pairs={**kept, **newer.pairs})


def measurements_of(topology: NodeTopology) -> Measurements:
    """Returns the measurements that are part of a topology."""
    connections = Connections(topology)
    uuids = {gpu.label: gpu.uuid for gpu in topology.gpus}
    indices = {gpu.label: gpu.index for gpu in topology.gpus}
    pairs = {
        (gpu.uuid, uuids[label]): MeasuredPair(
            word=connections.direct(gpu.index, indices[label]).word, mbps=mbps, is_slower=is_slower
        )
        for gpu in topology.gpus
        for told, is_slower in ((gpu.measured, False), (gpu.slower, True))
        for label, mbps in told
        if gpu.uuid and uuids[label]
    }
    return Measurements(at=topology.measured_at, driver=topology.driver_version, pairs=pairs)


def with_measurements(topology: NodeTopology, found: Measurements) -> NodeTopology:
    """Returns the topology with those measurements that are valid for it, in place of the ones that it had.

    With measurements of another driver version the topology is returned unchanged.
    """
    if found.driver != topology.driver_version:
        return topology
    connections = Connections(topology)
    told: dict[str, tuple[list[tuple[str, int]], list[tuple[str, int]]]] = {}
    for one, other in _measurable(topology):
        pair = found.pairs.get((one.uuid, other.uuid))
        if pair and pair.word == connections.direct(one.index, other.index).word:
            told.setdefault(one.label, ([], []))[pair.is_slower].append((other.label, pair.mbps))
    gpus = []
    for gpu in topology.gpus:
        measured, slower = told.get(gpu.label, ([], []))
        gpus.append(replace(gpu, measured=tuple(measured), slower=tuple(slower)))
    return replace(topology, gpus=tuple(gpus), measured_at=found.at)


def has_unmeasured_pair(topology: NodeTopology) -> bool:
    """Returns whether a pair of GPUs that can be measured was not measured."""
    told = {(gpu.label, label) for gpu in topology.gpus for label, _ in (*gpu.measured, *gpu.slower)}
    return any((one.label, other.label) not in told for one, other in _measurable(topology))


def _measurable(topology: NodeTopology) -> Iterator[tuple[Gpu, Gpu]]:
    """Returns the pairs that can be measured, in both directions, without GPUs in MIG mode, which reach no other."""
    whole = [gpu for gpu in topology.gpus if gpu.uuid and gpu.mig_mode is not MigMode.ENABLED]
    return permutations(whole, 2)
