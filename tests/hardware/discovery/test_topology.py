"""Facts become a topology: what no played machine can show, as values."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from webhook.hardware.discovery.facts import (
    CpuFacts,
    GpuFacts,
    LinkFacts,
    LostFacts,
    NicFacts,
    NvmlFacts,
    PairFacts,
    PciFacts,
    Remote,
    SysfsFacts,
)
from webhook.hardware.discovery.links import links_of
from webhook.hardware.discovery.topology import build_topology
from webhook.hardware.topology.document import format_topology, parse_topology
from webhook.hardware.topology.model import Fabric, NodeTopology, NvLink, Pcie


def built(*gpus: GpuFacts, sysfs: SysfsFacts | None = None, **nvml: object) -> NodeTopology:
    return build_topology(replace(NvmlFacts(gpus=gpus), **nvml), sysfs or SysfsFacts(), node="n")  # type: ignore[arg-type]  # any field


def device(bus_id: str, **rest: object) -> PciFacts:
    return replace(PciFacts(bus_id=bus_id), **rest)  # type: ignore[arg-type]  # any field


def words(*numbers: int) -> str:
    return built(GpuFacts(index=0, cpu_words=numbers)).gpus[0].cpu_affinity


UP = LinkFacts(up=True, remote=Remote.SWITCH)
NAMED = LinkFacts(up=False, remote_bus_id="0000:c4:00.0")
SILENT = LinkFacts(up=False)


def test_links_beyond_the_count_are_not_there() -> None:
    assert links_of(GpuFacts(index=0, links=(UP, UP, SILENT, SILENT), link_count=2)) == (UP, UP)
    assert links_of(GpuFacts(index=0, links=(UP, SILENT, UP, SILENT), link_count=3)) == (UP, SILENT, UP)
    assert links_of(GpuFacts(index=0, links=(UP, SILENT), link_count=2)) == (UP, SILENT)
    assert links_of(GpuFacts(index=0, links=(UP, SILENT), link_count=None)) == (UP, SILENT)


@given(
    links=st.lists(st.sampled_from([UP, NAMED, SILENT]), max_size=36).map(tuple),
    count=st.none() | st.integers(min_value=0, max_value=2**64),
)
def test_only_as_many_links_are_left_out_as_there_are_too_many_and_none_of_which_anything_is_known(
    links: tuple[LinkFacts, ...], count: int | None
) -> None:
    found = links_of(GpuFacts(index=0, links=links, link_count=count))
    known = [link for link in links if not link.is_silent]
    assert [link for link in found if not link.is_silent] == known
    assert len(found) == (len(links) if count is None else max(len(known), min(len(links), count)))


def test_words_of_a_cpu_mask_become_a_list() -> None:
    assert words() == ""
    assert words(0, 0) == ""
    assert words(0b1) == "0"
    assert words(0b1011) == "0-1,3"
    assert words(1 << 63, 0b11) == "63-65"
    assert words(0xFFFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF, 0, 1) == "0-127,192"


def test_a_pcie_link_that_no_slot_has_is_unknown() -> None:
    assert built(GpuFacts(index=0, pcie_generation=5, pcie_width=0)).gpus[0].pcie is None
    assert built(GpuFacts(index=0, pcie_generation=9, pcie_width=16)).gpus[0].pcie is None
    assert built(GpuFacts(index=0, pcie_generation=5, pcie_width=255)).gpus[0].pcie is None


def test_a_switch_whose_link_is_unknown_is_there() -> None:
    gpu = device("0000:18:00.0", parent="0000:16:00.0", root="0000:15", generation=5, width=16)
    pci = {gpu.bus_id: gpu, "0000:16:00.0": device("0000:16:00.0", root="0000:15", generation=5)}
    found = built(GpuFacts(index=0, bus_id=gpu.bus_id), sysfs=SysfsFacts(pci=pci))
    assert [(switch.pci_bus_id, switch.pcie) for switch in found.switches] == [("0000:16:00.0", None)]
    assert found.gpus[0].pcie == Pcie(generation=5, width=16)


def test_a_switch_that_cannot_be_named_or_read_is_none() -> None:
    wide = device("0000:18:00.0", parent="10000:16:00.0")
    gone = device("0000:19:00.0", parent="0000:16:00.0")
    pci = {"0000:18:00.0": wide, "0000:19:00.0": gone, "10000:16:00.0": device("10000:16:00.0")}
    gpus = [GpuFacts(index=number, bus_id=bus_id) for number, bus_id in enumerate(["0000:18:00.0", "0000:19:00.0"])]
    found = built(*gpus, sysfs=SysfsFacts(pci=pci))
    assert [gpu.parent for gpu in found.gpus] == ["", ""]
    assert (found.switches, found.problem) == ((), "")


def test_a_nic_is_compared_only_with_what_is_known_to_be_somewhere() -> None:
    pci = {
        "0000:20:00.0": device("0000:20:00.0", root="0000:1f", numa_node=0),
        "0000:21:00.0": device("0000:21:00.0", root="0000:1f", numa_node=0),
        "0000:18:00.0": device("0000:18:00.0", numa_node=1),
    }
    nics = (NicFacts(name="a", bus_id="0000:20:00.0"), NicFacts(name="b", bus_id="0000:21:00.0"))
    gpus = (GpuFacts(index=0, bus_id="0000:18:00.0"), GpuFacts(index=1, bus_id="0000:77:00.0"))
    found = built(*gpus, sysfs=SysfsFacts(pci=pci, nics=nics))
    assert found.nics[0].distance == (("GPU0", "SYS"), ("NIC1", "PHB"))


def test_a_nic_on_a_domain_of_five_digits_keeps_its_name() -> None:
    nic = NicFacts(name="mlx5_0", bus_id="10000:01:00.0", link_layer="InfiniBand", speed_gbps=400)
    found = built(GpuFacts(index=0), sysfs=SysfsFacts(pci={nic.bus_id: device(nic.bus_id)}, nics=(nic,)))
    assert (found.nics[0].name, found.nics[0].pci_bus_id, found.problem) == ("mlx5_0", "", "")


def test_a_link_that_one_end_bonds_thinner_keeps_both_counts() -> None:
    link = LinkFacts(up=True, remote=Remote.GPU, remote_bus_id="0000:18:00.0")
    back = replace(link, remote_bus_id="0000:17:00.0")
    gpus = (
        GpuFacts(index=0, bus_id="0000:17:00.0", links=(link, link)),
        GpuFacts(index=1, bus_id="0000:18:00.0", links=(back,)),
    )
    found = built(*gpus)
    assert found.gpus[0].nvlinks == (NvLink(target="GPU1", count=2, active=2),)
    assert found.gpus[1].nvlinks == (NvLink(target="GPU0", count=1, active=1),)


def test_the_worst_fabric_is_that_which_did_not_start() -> None:
    states = ["completed", "unsupported", "in-progress", "not-started"]
    for number, state in enumerate(states):
        gpus = [GpuFacts(index=index, fabric=Fabric(state=states[index])) for index in range(number + 1)]
        assert built(*gpus, GpuFacts(index=9)).fabric == Fabric(state=state)


def test_what_ails_the_fabric_of_one_gpu_ails_that_of_the_node() -> None:
    well = Fabric(state="completed", status="success")
    slow, lost = replace(well, ailments=("degraded bandwidth",)), replace(well, ailments=("unhealthy routes",))
    gpus = [GpuFacts(index=index, fabric=fabric) for index, fabric in enumerate((well, slow, lost))]
    assert built(*gpus).fabric == replace(well, ailments=("degraded bandwidth", "unhealthy routes"))
    assert built(gpus[0]).fabric == well


def test_a_fabric_that_failed_is_worse_than_one_that_did_not() -> None:
    good, bad = Fabric(state="completed", status="success"), Fabric(state="completed", status="Timeout")
    assert built(GpuFacts(index=0, fabric=good), GpuFacts(index=1, fabric=bad)).fabric == bad


def test_a_gpu_that_sysfs_does_not_know_is_a_problem() -> None:
    gpus = (GpuFacts(index=0, bus_id="0000:17:00.0"), GpuFacts(index=1, bus_id="0000:18:00.0"), GpuFacts(index=2))
    pci = {"0000:17:00.0": device("0000:17:00.0")}
    found = built(*gpus, sysfs=SysfsFacts(root="/host\n", pci=pci))
    assert found.problem == "sysfs below /host does not have the PCI device of GPU1: is the host's /sys mounted?"


BUS_IDS = st.sampled_from(["", "0000:17:00.0", "0000:18:00.0", "0000:16:00.0", "0000:99:00.0", "10000:01:00.0"])
TEXTS = st.text(max_size=8)
CPUS = st.sampled_from(["", "0-15", "0-47,96-143"])
NAMES = TEXTS.map("x".__add__)
"""What is there has a name, and what fails says so."""
SMALL = st.integers(0, 40)
LINKS = st.builds(LinkFacts, up=st.booleans(), remote=st.sampled_from(Remote), remote_bus_id=BUS_IDS)
GPUS = st.builds(
    GpuFacts,
    index=st.integers(0, 5),
    uuid=TEXTS,
    bus_id=BUS_IDS,
    name=TEXTS,
    capability=st.none() | st.tuples(st.integers(1, 12), st.integers(0, 9)),
    cpu_words=st.lists(st.integers(0, 2**64 - 1), max_size=3).map(tuple),
    mig_enabled=st.none() | st.booleans(),
    pcie_generation=SMALL,
    pcie_width=SMALL,
    links=st.lists(LINKS, max_size=6).map(tuple),
    links_problem=st.sampled_from(["", "", "Timeout\n"]),
    c2c_mbps=st.lists(st.integers(1, 50000), max_size=3).map(tuple),
    fabric=st.none() | st.builds(Fabric, state=st.sampled_from(["completed", "not-started", "state 9"]), status=TEXTS),
)
PAIRS = st.builds(
    PairFacts,
    one=st.integers(0, 2),
    other=st.integers(3, 5),
    refusal=st.sampled_from(["", "not supported"]),
    pcie=st.sampled_from(["", "PIX", "SYS"]),
)
PCI = st.builds(
    PciFacts,
    bus_id=BUS_IDS,
    device_class=st.sampled_from(["", "0x030200", "0x068000"]),
    parent=BUS_IDS,
    root=st.sampled_from(["", "0000:15"]),
    numa_node=st.none() | st.integers(0, 3),
    cpus=CPUS,
    generation=SMALL,
    width=SMALL,
)
SYSFS = st.builds(
    SysfsFacts,
    pci=st.lists(PCI, max_size=5).map(lambda devices: {found.bus_id: found for found in devices}),
    numa_nodes=st.dictionaries(st.integers(0, 9), CPUS, max_size=3),
    cpu=st.builds(
        CpuFacts, vendor=st.sampled_from(["", "GenuineIntel", "  Shanghai  ", "a&b"]), family=SMALL, model=SMALL
    ),
    nics=st.lists(st.builds(NicFacts, name=NAMES, bus_id=BUS_IDS, speed_gbps=SMALL), max_size=3).map(tuple),
)
LOST = st.builds(LostFacts, index=st.integers(6, 8), said=NAMES, bus_id=BUS_IDS)
NVML = st.builds(
    NvmlFacts,
    gpus=st.lists(GPUS, max_size=5, unique_by=lambda gpu: gpu.index).map(tuple),
    lost=st.lists(LOST, max_size=2, unique_by=lambda gpu: gpu.index).map(tuple),
    pairs=st.lists(PAIRS, max_size=4, unique_by=lambda pair: (pair.one, pair.other)).map(tuple),
    problem=st.sampled_from(["", "a problem"]),
)


@given(NVML, SYSFS)
def test_whatever_the_facts_are_there_is_a_topology_that_can_be_written_and_read(
    nvml: NvmlFacts, sysfs: SysfsFacts
) -> None:
    found = build_topology(nvml, sysfs, node="n")
    assert parse_topology(format_topology(found), source="itself") == found
