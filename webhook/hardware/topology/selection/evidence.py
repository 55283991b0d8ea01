"""Sentences about a request that got no GPUs, or GPUs that do not meet its constraints, with numbers."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from webhook.hardware.topology.model import MigMode, NodeTopology
from webhook.hardware.topology.selection.pair_table import positions
from webhook.hardware.topology.selection.request import Constraint, Constraints, Request
from webhook.hardware.topology.selection.search import Search
from webhook.hardware.topology.sets import GpuSet
from webhook.words.listing import counted


@dataclass(frozen=True, slots=True)
class Unmet:
    """A constraint that was given up."""

    constraint: Constraint
    evidence: str
    """The reason, such as ``no 4 free GPUs on one NUMA node: NUMA 0 has 3 free, NUMA 1 has 2``."""


def shortage(topology: NodeTopology, request: Request, free: int) -> str:
    """Returns why too few GPUs are free.

    For example ``asked for 4 GPUs, 2 of 8 are free: 4 in use, GPU6 in MIG mode, GPU7 lost (...)``.

    Args:
        topology: The node.
        request: The request.
        free: Number of free GPUs.
    """
    sliced = [gpu for gpu in topology.gpus if gpu.mig_mode is MigMode.ENABLED]
    used = sum(1 for gpu in topology.gpus if gpu not in sliced and request.says_busy(gpu))
    reasons = [f"{used} in use"] if used else []
    reasons += [f"{gpu.label} in MIG mode" for gpu in sliced]
    reasons += [f"{gpu.label} lost ({gpu.problem})" for gpu in topology.lost]
    asked = f"asked for {counted(request.count, 'GPU')}"
    room = f"{free} of {len(topology.gpus) + len(topology.lost)} {'is' if free == 1 else 'are'} free"
    return f"{asked}, {room}" + (f": {', '.join(reasons)}" if reasons else "")


def unmet(search: Search, chosen: GpuSet) -> Iterator[Unmet]:
    """Yields the constraints that a chosen set does not meet.

    Args:
        search: The search that found it.
        chosen: The chosen set.
    """
    mask, asked = search.table.mask(chosen.gpus), search.request.constraints
    kept = [constraint for constraint in asked.asked if search.meets(mask, constraint)]
    for constraint in asked.asked:
        if constraint in kept:
            continue
        # A constraint that could be met alone was given up because of the others.
        others = kept if kept and search.can_meet(constraint) else []
        phrases = " and ".join(_phrase(violated, asked) for violated in (constraint, *others))
        found = "no" if search.exact else "found no"
        detail = _detail(search, constraint, asked, chosen)
        yield Unmet(constraint, f"{found} {len(chosen.gpus)} free GPUs {phrases}: {detail}")


def _phrase(constraint: Constraint, asked: Constraints) -> str:
    match constraint:
        case Constraint.SAME_NUMA:
            return "on one NUMA node"
        case Constraint.REQUIRE_NVLINK:
            return "with NVLink between every pair"
        case Constraint.MIN_LEVEL:
            return f"with {asked.min_level} or nearer between every pair"
        case Constraint.MIN_BANDWIDTH:
            return f"with {asked.min_bandwidth:g} GB/s between every pair"


def _detail(search: Search, constraint: Constraint, asked: Constraints, chosen: GpuSet) -> str:
    mask = search.table.mask(chosen.gpus)
    match constraint:
        case Constraint.SAME_NUMA:
            return _free_by_numa(search)
        case Constraint.REQUIRE_NVLINK:
            return _without_nvlink(search, mask)
        case Constraint.MIN_LEVEL:
            return _too_far(search, mask, asked)
        case Constraint.MIN_BANDWIDTH:
            pair = " and ".join(f"GPU{index}" for index in chosen.weakest.gpus) if chosen.weakest else ""
            return f"of those chosen, {pair} have {chosen.bandwidth:g}"


def _free_by_numa(search: Search) -> str:
    table, free = search.table, search.free
    counts = [f"NUMA {node} has {(mask & free).bit_count()}" for node, mask in table.numa.items()]
    texts = [f"{count} free" if not position else count for position, count in enumerate(counts)]
    unknown = (table.unknown_numa & free).bit_count()
    return ", ".join([*texts, *([f"the node of {unknown} is not known"] if unknown else [])])


def _without_nvlink(search: Search, mask: int) -> str:
    table = search.table
    most = max((table.nvlinked[gpu] & search.free).bit_count() for gpu in positions(search.free))
    if most < mask.bit_count() - 1:
        return f"none of them has it to more than {most}" if most else "none of them has it"
    pairs = combinations(positions(mask), 2)
    one, other = next((one, other) for one, other in pairs if not table.nvlinked[one] >> other & 1)
    return f"of those chosen, {table.gpus[one].label} and {table.gpus[other].label} have none"


def _too_far(search: Search, mask: int, asked: Constraints) -> str:
    table = search.table
    near = table.near(asked.min_level) if asked.min_level else []
    pairs = combinations(positions(mask), 2)
    one, other = next((one, other) for one, other in pairs if not near[one] >> other & 1)
    return f"of those chosen, {table.gpus[one].label} and {table.gpus[other].label} have {table.type_of(one, other)}"
