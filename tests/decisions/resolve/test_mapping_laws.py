"""For any GPUs, given in any order, the resolved indices name exactly the cards that were given."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.hardware.topology import machines
from webhook.decisions.allocation.model import Allocation, Device
from webhook.decisions.resolve.demand import GpuContainer, GpuDemand
from webhook.decisions.resolve.node import KnownNode, Origin
from webhook.decisions.resolve.resolve import resolve
from webhook.words.choices import Profile

NODES = {name: KnownNode(topology, origin=Origin.AGENT) for name, topology in machines.MACHINES.items()}


@st.composite
def allocations(draw: st.DrawFn) -> tuple[KnownNode, list[list[str]]]:
    """A machine, and some of its GPUs in any order, dealt to one to four containers."""
    node = NODES[draw(st.sampled_from(sorted(NODES)))]
    uuids = draw(st.permutations([gpu.uuid for gpu in node.topology.gpus]))
    taken = draw(st.integers(1, len(uuids)))
    cuts = sorted(draw(st.sets(st.integers(1, taken - 1), max_size=3))) if taken > 1 else []
    edges = [0, *cuts, taken]
    return node, [list(uuids[start:end]) for start, end in pairwise(edges)]


@given(allocations(), st.sampled_from([Profile.POD_PEERS, Profile.NODE_PEERS]))
def test_resolved_indices_name_exactly_the_allocated_cards(
    dealt: tuple[KnownNode, list[list[str]]], profile: Profile
) -> None:
    node, segments = dealt
    containers = tuple(
        GpuContainer(name=f"c{k}", count=len(segment), visible_key=f"k{k}") for k, segment in enumerate(segments)
    )
    allocation = Allocation(segments=tuple(tuple(Device(uuid=uuid) for uuid in segment) for segment in segments))
    found = resolve(GpuDemand(profile=profile, containers=containers), allocation, node)

    # What CUDA does: it numbers the GPUs that a container is shown by their bus ids.
    every = {gpu.uuid: gpu.pci_bus_id for gpu in node.topology.gpus}
    shown = found.visible_uuids.split(",") if profile is Profile.POD_PEERS else list(every)
    numbered = sorted(shown, key=every.__getitem__)
    for one, segment in zip(found.containers, segments, strict=True):
        named = [numbered[int(index)] for index in one.cuda_visible_devices.split(",")]
        assert sorted(named) == sorted(segment)
        assert [gpu.uuid for gpu in one.gpus] == named
