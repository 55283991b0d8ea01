"""What is read from sysfs and cpuinfo, below a root that a test writes."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.nvml.machines import ARM, BRIDGE, GPU, NIC, Device, Machine, Rdma, link_to, write_machine
from webhook.hardware.discovery.facts import CpuFacts, NicFacts, PciFacts, SysfsFacts
from webhook.hardware.discovery.sysfs import read_sysfs

NESTED = "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0/0000:19:00.0/0000:1a:00.0"


def written(root: Path, *devices: Device, nics: tuple[Rdma, ...] = (), cpuinfo: str = "") -> Path:
    write_machine(Machine(name="", cards=(), devices=devices, nics=nics, cpuinfo=cpuinfo), root)
    return root


def on_bus(root: Path, bus_id: str) -> Path:
    return root / "sys/bus/pci/devices" / bus_id


# The tree


def test_a_gpu_below_nested_switches_has_their_upstream_ports_above_it(tmp_path: Path) -> None:
    root = written(tmp_path, Device(path=NESTED, numa_node=0, cpus="0-31"))
    upper = PciFacts(
        bus_id="0000:16:00.0",
        device_class=BRIDGE,
        root="0000:15",
        numa_node=0,
        cpus="0-31",
        generation=5,
        width=16,
    )
    lower = replace(upper, bus_id="0000:18:00.0", parent="0000:16:00.0")
    gpu = replace(upper, bus_id="0000:1a:00.0", device_class=GPU, parent="0000:18:00.0")
    assert read_sysfs(root, ["0000:1a:00.0"]).pci == {found.bus_id: found for found in (gpu, lower, upper)}


def test_a_gpu_right_below_a_root_port_has_no_switch(tmp_path: Path) -> None:
    root = written(tmp_path, Device(path="pci0000:16/0000:16:02.0/0000:17:00.0"))
    found = read_sysfs(root, ["0000:17:00.0"]).pci
    assert list(found) == ["0000:17:00.0"]
    assert (found["0000:17:00.0"].parent, found["0000:17:00.0"].root) == ("", "0000:16")


def test_a_gpu_right_below_a_host_bridge_has_neither_port_nor_switch(tmp_path: Path) -> None:
    root = written(tmp_path, Device(path="VMBUS:00/some-id/pci0001:00/0001:00:00.0"))
    found = read_sysfs(root, ["0001:00:00.0"]).pci["0001:00:00.0"]
    assert (found.parent, found.root) == ("", "0001:00")


def test_two_devices_below_one_switch_share_it(tmp_path: Path) -> None:
    above = "pci0000:15/0000:15:01.0/0000:16:00.0"
    root = written(
        tmp_path,
        Device(path=f"{above}/0000:17:00.0/0000:18:00.0"),
        Device(path=f"{above}/0000:17:01.0/0000:19:00.0"),
    )
    found = read_sysfs(root, ["0000:18:00.0", "0000:19:00.0"]).pci
    assert sorted(found) == ["0000:16:00.0", "0000:18:00.0", "0000:19:00.0"]
    assert found["0000:18:00.0"].parent == found["0000:19:00.0"].parent == "0000:16:00.0"


def test_what_is_above_the_bus_ids_is_a_root_only_if_it_is_a_host_bridge(tmp_path: Path) -> None:
    (tmp_path / "sys/devices/platform/0000:01:00.0").mkdir(parents=True)
    (tmp_path / "sys/devices/platform/0000:01:00.0/class").write_text(GPU)
    link_to(on_bus(tmp_path, "0000:01:00.0"), tmp_path / "sys/devices/platform/0000:01:00.0")
    found = read_sysfs(tmp_path, ["0000:01:00.0"]).pci["0000:01:00.0"]
    assert found == PciFacts(bus_id="0000:01:00.0", device_class=GPU)


def test_a_device_on_a_domain_of_five_digits_is_read_without_a_root(tmp_path: Path) -> None:
    path = "pci0000:00/0000:00:0e.0/pci10000:00/10000:00:01.0/10000:01:00.0"
    root = written(tmp_path, Device(path=path, numa_node=1))
    found = read_sysfs(root, ["10000:01:00.0"]).pci["10000:01:00.0"]
    assert (found.parent, found.root, found.numa_node) == ("", "", 1)


# The files of a device


def test_a_numa_node_of_minus_one_is_none(tmp_path: Path) -> None:
    root = written(tmp_path, Device(path=NESTED, numa_node=-1))
    assert {device.numa_node for device in read_sysfs(root, ["0000:1a:00.0"]).pci.values()} == {None}


@pytest.mark.parametrize("text", ["Unknown", "Unknown speed", "", "fast", "3.5 GT/s PCIe"])
def test_a_speed_that_nobody_knows_is_unknown(text: str, tmp_path: Path) -> None:
    root = written(tmp_path, Device(path="pci0000:16/0000:16:02.0/0000:17:00.0", speed=text))
    assert read_sysfs(root, ["0000:17:00.0"]).pci["0000:17:00.0"].generation == 0


@pytest.mark.parametrize(
    ("text", "generation"),
    [
        ("2.5 GT/s PCIe", 1),
        ("5.0 GT/s PCIe", 2),
        ("5 GT/s", 2),
        ("8.0 GT/s PCIe", 3),
        ("8 GT/s", 3),
        ("16.0 GT/s PCIe", 4),
        ("16 GT/s", 4),
        ("32.0 GT/s PCIe", 5),
        ("64.0 GT/s PCIe", 6),
    ],
)
def test_a_speed_of_any_kernel_is_a_generation(text: str, generation: int, tmp_path: Path) -> None:
    root = written(tmp_path, Device(path="pci0000:16/0000:16:02.0/0000:17:00.0", speed=text))
    assert read_sysfs(root, ["0000:17:00.0"]).pci["0000:17:00.0"].generation == generation


def test_a_switch_is_as_fast_as_the_slower_end_of_its_link(tmp_path: Path) -> None:
    root = written(tmp_path, Device(path=NESTED))
    (on_bus(root, "0000:15:01.0") / "max_link_speed").write_text("16.0 GT/s PCIe\n")
    (on_bus(root, "0000:17:00.0") / "max_link_width").write_text("8\n")
    found = read_sysfs(root, ["0000:1a:00.0"]).pci
    assert (found["0000:16:00.0"].generation, found["0000:16:00.0"].width) == (4, 16)
    assert (found["0000:18:00.0"].generation, found["0000:18:00.0"].width) == (5, 8)


def test_an_end_that_does_not_tell_its_speed_does_not_hide_that_of_the_other(tmp_path: Path) -> None:
    root = written(tmp_path, Device(path=NESTED))
    (on_bus(root, "0000:15:01.0") / "max_link_speed").write_text("Unknown\n")
    (on_bus(root, "0000:15:01.0") / "max_link_width").unlink()
    (on_bus(root, "0000:18:00.0") / "max_link_speed").unlink()
    found = read_sysfs(root, ["0000:1a:00.0"]).pci
    assert (found["0000:16:00.0"].generation, found["0000:16:00.0"].width) == (5, 16)
    assert (found["0000:18:00.0"].generation, found["0000:18:00.0"].width) == (5, 16)


def test_a_device_without_files_is_there_with_its_place_alone(tmp_path: Path) -> None:
    root = written(tmp_path, Device(path="pci0000:16/0000:16:02.0/0000:17:00.0"))
    for name in ("class", "numa_node", "local_cpulist", "max_link_speed", "max_link_width"):
        (on_bus(root, "0000:17:00.0") / name).unlink()
        (on_bus(root, "0000:16:02.0") / name).unlink()
    (on_bus(root, "0000:17:00.0") / "uevent").write_text("")
    found = read_sysfs(root, ["0000:17:00.0"]).pci
    assert found == {"0000:17:00.0": PciFacts(bus_id="0000:17:00.0", root="0000:16")}


# What is not there


def test_a_root_without_sysfs_tells_nothing(tmp_path: Path) -> None:
    assert read_sysfs(tmp_path, ["0000:17:00.0"]) == SysfsFacts(root=str(tmp_path), numa_nodes={0: ""})


def test_a_device_that_is_not_there_is_left_out(tmp_path: Path) -> None:
    root = written(tmp_path, Device(path="pci0000:16/0000:16:02.0/0000:17:00.0"))
    assert list(read_sysfs(root, ["0000:99:00.0", "", "0000:17:00.0"]).pci) == ["0000:17:00.0"]


def test_links_that_lead_nowhere_are_left_out(tmp_path: Path) -> None:
    on_bus(tmp_path, "0000:17:00.0").parent.mkdir(parents=True)
    on_bus(tmp_path, "0000:17:00.0").symlink_to("../../../devices/pci0000:16/0000:17:00.0")
    assert read_sysfs(tmp_path, ["0000:17:00.0"]).pci == {}


def test_links_that_form_a_circle_are_left_out(tmp_path: Path) -> None:
    on_bus(tmp_path, "0000:17:00.0").parent.mkdir(parents=True)
    on_bus(tmp_path, "0000:17:00.0").symlink_to("0000:18:00.0")
    on_bus(tmp_path, "0000:18:00.0").symlink_to("0000:17:00.0")
    (tmp_path / "sys/class/infiniband/mlx5_0").mkdir(parents=True)
    (tmp_path / "sys/class/infiniband/mlx5_0/device").symlink_to("device")
    (tmp_path / "sys/devices/system/node").mkdir(parents=True)
    (tmp_path / "sys/devices/system/node/node0").symlink_to("node0")
    nothing = SysfsFacts(root=str(tmp_path), numa_nodes={0: ""})
    assert read_sysfs(tmp_path, ["0000:17:00.0", "0000:18:00.0"]) == nothing


def test_a_directory_where_a_file_should_be_tells_nothing(tmp_path: Path) -> None:
    root = written(tmp_path, Device(path="pci0000:16/0000:16:02.0/0000:17:00.0", numa_node=1))
    (on_bus(root, "0000:17:00.0") / "numa_node").unlink()
    (on_bus(root, "0000:17:00.0") / "numa_node").mkdir()
    assert read_sysfs(root, ["0000:17:00.0"]).pci["0000:17:00.0"].numa_node is None


# NUMA nodes and CPUs


def test_numa_nodes_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for number, cpus in ((10, "80-95"), (2, "16-31"), (0, "0-15"), (3, "")):
        (tmp_path / f"sys/devices/system/node/node{number}").mkdir(parents=True)
        (tmp_path / f"sys/devices/system/node/node{number}/cpulist").write_text(f"{cpus}\n")
    (tmp_path / "sys/devices/system/node/possible").write_text("0-10\n")
    assert list(read_sysfs(tmp_path, []).numa_nodes.items()) == [(0, "0-15"), (2, "16-31"), (3, ""), (10, "80-95")]


def test_a_kernel_without_numa_has_one_node_with_all_cpus(tmp_path: Path) -> None:
    (tmp_path / "sys/devices/system/cpu").mkdir(parents=True)
    (tmp_path / "sys/devices/system/cpu/online").write_text("0-7\n")
    assert read_sysfs(tmp_path, []).numa_nodes == {0: "0-7"}


TWO_CPUS = (
    "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\n\n"
    "processor\t: 1\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 1\n\n"
)


@pytest.mark.parametrize(
    ("cpuinfo", "expected"),
    [
        (
            "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\nmodel name\t: Xeon\n\n",
            CpuFacts(vendor="GenuineIntel", family=6, model=143),
        ),
        (TWO_CPUS, CpuFacts(vendor="AuthenticAMD", family=25, model=17)),
        (
            "processor\t: 0\nvendor_id\t:   Shanghai  \ncpu family\t: 7\nmodel\t\t: 59\n\n",
            CpuFacts(vendor="  Shanghai  ", family=7, model=59),
        ),
        (ARM, CpuFacts(arch="arm64")),
        ("processor\t: 0\ncpu\t\t: POWER9 (raw), altivec supported\nclock\t\t: 3800MHz\n\n", CpuFacts(arch="ppc64")),
        ("processor\t: 0\nvendor_id\t: GenuineIntel\n", CpuFacts(vendor="GenuineIntel")),
        ("\n", CpuFacts()),
        ("", CpuFacts()),
    ],
)
def test_the_first_cpu_stands_for_all(cpuinfo: str, expected: CpuFacts, tmp_path: Path) -> None:
    assert read_sysfs(written(tmp_path, cpuinfo=cpuinfo), []).cpu == expected


# NICs


def nic(name: str, bus: str = "20", **rest: str) -> Rdma:
    return Rdma(name=name, device=Device(path=f"pci0000:1f/0000:1f:01.0/0000:{bus}:00.0", device_class=NIC), **rest)


def test_nics_are_in_the_order_of_the_numbers_in_their_names(tmp_path: Path) -> None:
    names = ["mlx5_10", "mlx5_2", "mlx5_0", "bnxt_re1", "mlx5_bond_0", "ibp195s0", "ibp71s0"]
    root = written(tmp_path, nics=tuple(nic(name, f"{number:02x}") for number, name in enumerate(names, 32)))
    assert [found.name for found in read_sysfs(root, []).nics] == [
        "bnxt_re1",
        "ibp71s0",
        "ibp195s0",
        "mlx5_0",
        "mlx5_2",
        "mlx5_10",
        "mlx5_bond_0",
    ]


def test_a_nic_is_the_device_of_its_rdma_device_with_the_link_of_its_first_port(tmp_path: Path) -> None:
    root = written(tmp_path, nics=(nic("mlx5_0", link_layer="Ethernet", rate="25 Gb/sec (1X EDR)"),))
    found = read_sysfs(root, [])
    assert found.nics == (NicFacts(name="mlx5_0", bus_id="0000:20:00.0", link_layer="Ethernet", speed_gbps=25),)
    assert found.pci["0000:20:00.0"].root == "0000:1f"


def test_a_rate_that_is_no_whole_number_is_cut_and_a_missing_one_unknown(tmp_path: Path) -> None:
    root = written(tmp_path, nics=(nic("mlx5_0", "20", rate="2.5 Gb/sec (1X SDR)"), nic("mlx5_1", "21")))
    (root / "sys/class/infiniband/mlx5_1/ports/1/rate").unlink()
    assert [found.speed_gbps for found in read_sysfs(root, []).nics] == [2, 0]


def test_virtual_functions_are_no_nics(tmp_path: Path) -> None:
    root = written(tmp_path, nics=(nic("mlx5_0"), nic("mlx5_1", "21")))
    (on_bus(root, "0000:21:00.0") / "physfn").symlink_to("../0000:20:00.0")
    assert [found.name for found in read_sysfs(root, []).nics] == ["mlx5_0"]


def test_rdma_devices_of_software_are_no_nics(tmp_path: Path) -> None:
    root = written(tmp_path, nics=(nic("mlx5_0"),))
    (root / "sys/devices/virtual/infiniband/rxe0").mkdir(parents=True)
    link_to(root / "sys/class/infiniband/rxe0", root / "sys/devices/virtual/infiniband/rxe0")
    assert [found.name for found in read_sysfs(root, []).nics] == ["mlx5_0"]


def test_a_part_of_a_pci_device_has_its_bus_id(tmp_path: Path) -> None:
    root = written(tmp_path, nics=(nic("mlx5_0"),))
    part = on_bus(root, "0000:20:00.0").resolve() / "mlx5_core.sf.4"
    part.mkdir()
    (root / "sys/class/infiniband/mlx5_1").mkdir()
    link_to(root / "sys/class/infiniband/mlx5_1/device", part)
    assert [found.bus_id for found in read_sysfs(root, []).nics] == ["0000:20:00.0", "0000:20:00.0"]
