"""What was measured between the GPUs of a node: how it becomes part of a topology, and is kept from look to look.

A figure is that of two GPUs, by their UUIDs, and holds as long as the driver and the links between them are those with
which it was measured.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import permutations

from webhook.hardware.topology.connections import Connections
from webhook.hardware.topology.model import Gpu, MigMode, NodeTopology


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredPair:
    """From one GPU to another."""

    word: str
    """How they are linked, in the words of ``nvidia-smi topo -m``."""
    mbps: int
    """MB/s (1e6 bytes) in that direction."""
    is_slower: bool
    """Than it should be."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Measurements:
    """Of one machine."""

    at: str
    """When the last one began, RFC 3339; empty: nothing was ever measured."""
    driver: str
    """Version of NVIDIA's driver."""
    pairs: Mapping[tuple[str, str], MeasuredPair] = field(default_factory=dict)
    """By the UUIDs of source and target."""

    def with_newer(self, newer: "Measurements") -> "Measurements":
        """Both; of a pair that stands in both, the newer figure."""
        kept = self.pairs if self.driver == newer.driver else {}
        return replace(newer, pairs={**kept, **newer.pairs})


def measurements_of(topology: NodeTopology) -> Measurements:
    """Those that are part of a topology."""
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
    """The topology with what was measured of it, as far as it holds; what it had before is replaced."""
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
    """Whether there are two GPUs that could be measured and were not."""
    told = {(gpu.label, label) for gpu in topology.gpus for label, _ in (*gpu.measured, *gpu.slower)}
    return any((one.label, other.label) not in told for one, other in _measurable(topology))


def _measurable(topology: NodeTopology) -> Iterator[tuple[Gpu, Gpu]]:
    """Pairs in both directions: GPUs in MIG mode reach no other."""
    whole = [gpu for gpu in topology.gpus if gpu.uuid and gpu.mig_mode is not MigMode.ENABLED]
    return permutations(whole, 2)
