"""The file for NCCL: by hand for three machines, and by NCCL's own rules for all."""

from dataclasses import replace
from xml.etree import ElementTree

import pytest
from hypothesis import given

from tests.hardware.topology.generated import topologies
from tests.hardware.topology.machines import (
    MACHINES,
    a100_pcie_bridged,
    bent,
    dgx1_v100,
    gb200_tray,
    h20,
    hgx_h100,
    hidden_switches,
    l40s,
    with_switch_links,
)
from tests.hardware.topology.nccl_files import BRIDGED, GRACE, SWITCHED
from tests.hardware.topology.nccl_rules import faults
from webhook.hardware.topology.model import NVSWITCH, Gpu, MigMode, Nic, NodeTopology, NvLink, Pcie
from webhook.hardware.topology.nccl_file import cpu_mask, format_nccl_topology
from webhook.words.errors import FormatError


def parsed(topology: NodeTopology, *, host_indices: bool = False) -> ElementTree.Element:
    return ElementTree.fromstring(format_nccl_topology(topology, host_indices=host_indices))  # noqa: S314 - our own


def gpus(root: ElementTree.Element) -> dict[str, ElementTree.Element]:
    return {pci.attrib["busid"]: gpu for pci in root.iter("pci") if (gpu := pci.find("gpu")) is not None}


def only(topology: NodeTopology, *indices: int) -> NodeTopology:
    """The topology with these of its GPUs, and the NICs whose switch has one of them or that have none."""
    chosen = tuple(topology.gpus[index] for index in indices)
    parents = {"", *(gpu.parent for gpu in chosen)}
    return replace(topology, gpus=chosen, nics=tuple(nic for nic in topology.nics if nic.parent in parents))


def test_machines_are_written_as_by_hand() -> None:
    assert format_nccl_topology(only(a100_pcie_bridged(), 0, 1)) == BRIDGED
    assert format_nccl_topology(only(h20(), 0, 4), host_indices=True) == SWITCHED
    assert format_nccl_topology(only(gb200_tray(), 0, 2)) == GRACE


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("host_indices", [False, True])
def test_nccl_takes_the_file_of_each_machine_as_it_is_written(name: str, host_indices: bool) -> None:
    assert faults(format_nccl_topology(MACHINES[name], host_indices=host_indices)) == []


@given(topologies())
def test_nccl_takes_any_file_that_we_write(topology: NodeTopology) -> None:
    try:
        text = format_nccl_topology(topology)
    except FormatError:
        whole = [gpu for gpu in topology.gpus if gpu.mig_mode is not MigMode.ENABLED]
        unread = any(gpu.links_problem for gpu in whole)
        placeless = any(not gpu.root and not gpu.parent for gpu in whole)
        assert not topology.cpus or not whole or unread or (len(whole) > 1 and placeless)
    else:
        assert faults(text) == []


def test_all_links_to_switches_that_are_up_are_one_element() -> None:
    found = gpus(parsed(with_switch_links(hgx_h100(), 2, 10))).values()
    assert [[link.attrib["count"] for link in gpu] for gpu in found] == [["18"], ["18"], ["10"], *[["18"]] * 5]


def test_a_switch_that_nobody_names_has_the_name_that_nccl_gives_it() -> None:
    link = gpus(parsed(hidden_switches()))["0001:00:00.0"][0]
    assert link.attrib == {"target": "fffffff:ffff:ff", "count": "18", "tclass": "0x068000"}


def test_a_link_that_one_side_calls_down_stands_on_neither() -> None:
    topology = bent(a100_pcie_bridged(), 1, nvlinks=(NvLink(target="GPU0", count=12, active=0),))
    files = gpus(parsed(topology))
    assert [len(files[bus_id]) for bus_id in ("0000:17:00.0", "0000:65:00.0", "0000:ca:00.0")] == [0, 0, 1]


def test_a_gpu_in_mig_mode_is_left_out_with_the_links_to_it() -> None:
    files = gpus(parsed(bent(a100_pcie_bridged(), 1, mig_mode=MigMode.ENABLED)))
    assert list(files) == ["0000:17:00.0", "0000:ca:00.0", "0000:e3:00.0"]
    assert len(files["0000:17:00.0"]) == 0


def test_a_function_that_nccl_takes_for_a_partition_is_left_out() -> None:
    files = gpus(parsed(bent(l40s(), 0, pci_bus_id="0000:21:00.1")))
    assert "0000:21:00.1" not in files
    assert len(files) == 7


def test_the_index_is_written_only_for_ranks_in_several_containers() -> None:
    assert all("dev" not in gpu.attrib for gpu in gpus(parsed(h20())).values())
    assert [gpu.attrib["dev"] for gpu in gpus(parsed(h20(), host_indices=True)).values()] == list("01234567")


def test_devices_without_a_numa_node_are_below_a_cpu_that_nccl_calls_unknown() -> None:
    cpus = parsed(hidden_switches()).findall("cpu")
    assert [cpu.attrib["numaid"] for cpu in cpus] == ["-1"]
    assert cpus[0].attrib["affinity"] == "ffffffff,ffffffff,ffffffff"
    assert len(cpus[0]) == 8


def test_what_is_not_known_of_pcie_is_written_as_nccl_would_take_it() -> None:
    pci = parsed(bent(l40s(), 0, pcie=None)).find(".//pci[@busid='0000:21:00.0']")
    assert pci is not None
    assert (pci.attrib["link_speed"], pci.attrib["link_width"]) == ("8.0 GT/s PCIe", "16")


@pytest.mark.parametrize(
    ("generation", "speed"),
    [(1, "2.5"), (2, "5.0"), (3, "8.0"), (4, "16.0"), (5, "32.0"), (6, "64.0"), (7, "64.0")],
)
def test_speeds_are_spelled_as_nccl_knows_them(generation: int, speed: str) -> None:
    pci = parsed(bent(l40s(), 0, pcie=Pcie(generation=generation, width=8))).find(".//pci[@busid='0000:21:00.0']")
    assert pci is not None
    assert (pci.attrib["link_speed"], pci.attrib["link_width"]) == (f"{speed} GT/s PCIe", "8")


def test_a_compute_capability_that_is_not_known_is_left_to_nccl() -> None:
    assert "sm" not in gpus(parsed(bent(l40s(), 0, compute_capability="")))["0000:21:00.0"].attrib


def many_gpus(count: int) -> tuple[Gpu, ...]:
    links = (NvLink(target=NVSWITCH, count=18, active=18),)
    return tuple(Gpu(index=100 + n, pci_bus_id=f"0002:{n:02x}:00.0", nvlinks=links) for n in range(count))


def test_nics_give_way_when_nccl_would_have_no_room() -> None:
    many = tuple(Nic(name=f"mlx5_{number}", pci_bus_id=f"0001:{number:02x}:00.0") for number in range(128))
    assert "0001:" in format_nccl_topology(replace(h20(), nics=many))  # 171 elements
    twice = replace(h20(), nics=many, gpus=(*h20().gpus, *many_gpus(32)))
    text = format_nccl_topology(twice)
    assert "0001:" not in text
    assert text.count("<gpu") == 40


def test_an_index_that_nccl_has_no_place_for_is_refused_where_it_is_written() -> None:
    machine = replace(l40s(), gpus=tuple(replace(gpu, index=31 + gpu.index) for gpu in l40s().gpus))
    assert "dev=" not in format_nccl_topology(machine)
    assert 'dev="31"' in format_nccl_topology(replace(machine, gpus=machine.gpus[:1]), host_indices=True)
    with pytest.raises(FormatError, match='expected GPUs with an index below 32, found "32"'):
        format_nccl_topology(machine, host_indices=True)


def test_a_machine_too_large_for_nccl_is_refused() -> None:
    machine = replace(h20(), gpus=many_gpus(67), nics=())
    with pytest.raises(FormatError, match=r'^NCCL topology of node h20-node-1: expected at most 200 elements, found "'):
        format_nccl_topology(machine)


@pytest.mark.parametrize(
    ("cpus", "mask"),
    [
        ("", ""),
        ("0", "00000001"),
        ("0-3,32", "00000001,0000000f"),
        ("0-47,96-143", "0000ffff,ffffffff,00000000,0000ffff,ffffffff"),
        ("64", "00000001,00000000,00000000"),
        ("31-32", "00000001,80000000"),
    ],
)
def test_a_list_of_cpus_becomes_a_mask(cpus: str, mask: str) -> None:
    assert cpu_mask(cpus) == mask


@pytest.mark.parametrize("affinity", ["", "0,1023"])
def test_a_mask_that_is_unknown_or_that_nccl_has_no_room_for_is_empty(affinity: str) -> None:
    cpus = (replace(h20().cpus[0], affinity=affinity), h20().cpus[1])
    masks = [cpu.attrib["affinity"] for cpu in parsed(replace(h20(), cpus=cpus)).findall("cpu")]
    assert masks == ["00000000", "ffffffff,ffff0000,00000000,ffffffff,ffff0000,00000000"]


@pytest.mark.parametrize(
    ("topology", "message"),
    [
        (
            replace(h20(), gpus=(), problem="no NVIDIA driver"),
            'expected a GPU outside of MIG mode, found "no NVIDIA dri',
        ),
        (replace(h20(), gpus=()), 'expected a GPU outside of MIG mode, found "none"'),
        (
            replace(h20(), cpus=()),
            'expected the CPUs of the machine, found "none". The agent reads them from /sys/devices/system/node',
        ),
        (
            replace(h20(), cpus=tuple(replace(cpu, vendor="") for cpu in h20().cpus)),
            'expected the vendor of the CPUs, found "none". The agent reads it from /proc/cpuinfo',
        ),
        (
            bent(replace(h20(), source="nvidia-smi"), 3, pci_bus_id=""),
            'expected the PCI bus id of each GPU, found "none of GPU3". A topology from nvidia-smi has none',
        ),
        (
            bent(h20(), 2, nvlinks=(), links_problem="Timeout"),
            'expected the NVLinks of each GPU, found "those of GPU2 cannot be read: Timeout". See dmesg and nvidia-smi',
        ),
        (
            bent(h20(), 5, nvlinks=(), parent="", root=""),
            'expected the place of each GPU in the PCIe tree, found "none of GPU5". The agent reads it from sysfs',
        ),
        (
            replace(bent(h20(), 5, nvlinks=(), parent="", root=""), problem="sysfs is not there"),
            'expected the place of each GPU in the PCIe tree, found "none of GPU5". sysfs is not there',
        ),
    ],
)
def test_what_cannot_be_written_says_why(topology: NodeTopology, message: str) -> None:
    with pytest.raises(FormatError, match=f"^NCCL topology of node h20-node-1: {message}"):
        format_nccl_topology(topology)


def placeless(topology: NodeTopology) -> NodeTopology:
    """As seen where sysfs is not mounted."""
    return replace(topology, gpus=tuple(replace(gpu, parent="", root="", numa_node=None) for gpu in topology.gpus))


def test_where_nvlink_joins_all_gpus_the_pcie_tree_may_be_unknown() -> None:
    assert format_nccl_topology(placeless(h20())).count("<nvlink") == 8
    two = placeless(replace(a100_pcie_bridged(), gpus=a100_pcie_bridged().gpus[:2]))
    assert format_nccl_topology(two).count("<nvlink") == 2


def test_where_a_pair_has_no_nvlink_the_pcie_tree_must_be_known() -> None:
    for topology in (placeless(l40s()), placeless(dgx1_v100())):
        with pytest.raises(FormatError, match='expected the place of each GPU in the PCIe tree, found "none of GPU0"'):
            format_nccl_topology(topology)


def test_one_gpu_alone_needs_no_pcie_tree() -> None:
    one = placeless(replace(l40s(), gpus=l40s().gpus[:1]))
    assert format_nccl_topology(one).count("<gpu") == 1


def test_links_that_cannot_be_read_do_not_matter_in_mig_mode() -> None:
    topology = bent(h20(), 2, nvlinks=(), links_problem="Timeout", mig_mode=MigMode.ENABLED)
    assert format_nccl_topology(topology).count("<gpu") == 7


def test_rdma_devices_that_share_a_pci_device_are_written_once() -> None:
    port = Nic(name="mlx5_0", pci_bus_id="0000:9a:00.0", link_layer="InfiniBand", numa_node=0, root="0000:98")
    subfunction = replace(port, name="mlx5_90")
    text = format_nccl_topology(replace(h20(), nics=(port, subfunction)))
    assert text.count('busid="0000:9a:00.0"') == 1


def test_c2c_stands_beside_the_links() -> None:
    gpu = gpus(parsed(gb200_tray()))["0009:01:00.0"]
    assert [(child.tag, child.attrib) for child in gpu] == [
        ("nvlink", {"target": "fffffff:ffff:ff", "count": "18", "tclass": "0x068000"}),
        ("c2c", {"bw": "44712", "count": "10"}),
    ]
