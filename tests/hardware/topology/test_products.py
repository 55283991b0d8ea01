"""What names of GPUs tell."""

import pytest

from tests.hardware.topology.machines import GEN3, GEN4, GEN5, MACHINES
from webhook.hardware.topology.model import Pcie
from webhook.hardware.topology.readers.products import Product, product


@pytest.mark.parametrize(
    ("name", "capability", "pcie"),
    [
        ("Tesla P100-SXM2-16GB", "6.0", GEN3),
        ("Tesla P40", "6.1", GEN3),
        ("Tesla V100-SXM2-32GB", "7.0", GEN3),
        ("Tesla V100-PCIE-16GB", "7.0", GEN3),
        ("Tesla V100S-PCIE-32GB", "7.0", GEN3),
        ("Tesla T4", "7.5", GEN3),
        ("Quadro RTX 6000", "7.5", GEN3),
        ("NVIDIA GeForce RTX 2080 Ti", "7.5", GEN3),
        ("A100-SXM4-40GB", "8.0", GEN4),
        ("NVIDIA A100-PCIE-40GB", "8.0", GEN4),
        ("NVIDIA A100 80GB PCIe", "8.0", GEN4),
        ("NVIDIA A800-SXM4-80GB", "8.0", GEN4),
        ("NVIDIA A30", "8.0", GEN4),
        ("NVIDIA A10", "8.6", GEN4),
        ("NVIDIA A10G", "8.6", GEN4),
        ("NVIDIA A40", "8.6", GEN4),
        ("NVIDIA A16", "8.6", None),
        ("NVIDIA A2", "8.6", Pcie(generation=4, width=8)),
        ("NVIDIA RTX A6000", "8.6", GEN4),
        ("NVIDIA GeForce RTX 3090", "8.6", GEN4),
        ("NVIDIA L4", "8.9", GEN4),
        ("NVIDIA L20", "8.9", GEN4),
        ("NVIDIA L40", "8.9", GEN4),
        ("NVIDIA L40S", "8.9", GEN4),
        ("NVIDIA GeForce RTX 4090", "8.9", GEN4),
        ("NVIDIA GeForce RTX 4090 D", "8.9", GEN4),
        ("NVIDIA RTX 6000 Ada Generation", "8.9", GEN4),
        ("NVIDIA H100 80GB HBM3", "9.0", GEN5),
        ("NVIDIA H100 PCIe", "9.0", GEN5),
        ("NVIDIA H100 NVL", "9.0", GEN5),
        ("NVIDIA H200", "9.0", GEN5),
        ("NVIDIA H800", "9.0", GEN5),
        ("NVIDIA H20", "9.0", GEN5),
        ("NVIDIA H20-3e", "9.0", GEN5),
        ("NVIDIA GH200 480GB", "9.0", None),
        ("NVIDIA B200", "10.0", GEN5),
        ("NVIDIA GB200", "10.0", None),
        ("NVIDIA B300 SXM6 AC", "10.3", None),
        ("NVIDIA GB300", "10.3", None),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "12.0", GEN5),
        ("NVIDIA GeForce RTX 5090", "12.0", GEN5),
        ("NVIDIA GB10", "12.1", None),
    ],
)
def test_a_name_tells_compute_capability_and_pcie_link(name: str, capability: str, pcie: Pcie | None) -> None:
    found = product(name)
    assert (found.compute_capability, found.pcie) == (capability, pcie)


@pytest.mark.parametrize("name", MACHINES)
def test_the_names_of_the_machines_tell_what_nvml_would(name: str) -> None:
    for gpu in MACHINES[name].gpus:
        assert product(gpu.name).compute_capability == gpu.compute_capability


@pytest.mark.parametrize(
    "name", ["NVIDIA-NVIDIA A100-SXM4-80GB", "NVIDIA-A100-SXM4-80GB", "nvidia a100 sxm4 80gb", "A100-SXM4-80GB"]
)
def test_brands_dashes_and_case_do_not_matter(name: str) -> None:
    assert product(name) == Product(compute_capability="8.0", pcie=GEN4, nvlink_board=True)


@pytest.mark.parametrize(
    "name", ["", "NVIDIA", "Graphics Device", "NVIDIA A1000", "H100S", "RTX", "NVIDIA RTX PRO", "GRID A100-40C", "-- -"]
)
def test_an_unknown_name_tells_nothing(name: str) -> None:
    assert product(name) == Product()


def test_the_link_of_a_laptop_is_not_that_of_the_card() -> None:
    found = product("NVIDIA GeForce RTX 4090 Laptop GPU")
    assert (found.compute_capability, found.pcie) == ("8.9", None)


@pytest.mark.parametrize(
    "name",
    [
        "Tesla V100-SXM3-32GB",
        "NVIDIA A100-SXM4-80GB",
        "NVIDIA A800-SXM4-80GB",
        "NVIDIA H100 80GB HBM3",
        "NVIDIA H800",
        "NVIDIA H200",
        "NVIDIA H20",
        "NVIDIA B200",
        "NVIDIA GB200",
        "NVIDIA B300 SXM6 AC",
    ],
)
def test_modules_come_on_boards_with_nvlink(name: str) -> None:
    assert product(name).nvlink_board


@pytest.mark.parametrize(
    "name",
    [
        "Tesla V100-SXM2-32GB",
        "Tesla V100-PCIE-32GB",
        "NVIDIA A100 80GB PCIe",
        "NVIDIA A100-PCIE-40GB",
        "NVIDIA H100 PCIe",
        "NVIDIA H100 NVL",
        "NVIDIA H200 NVL",
        "NVIDIA GH200 480GB",
        "NVIDIA L40S",
        "Tesla T4",
    ],
)
def test_cards_do_not(name: str) -> None:
    assert not product(name).nvlink_board


@pytest.mark.parametrize("name", ["NVIDIA GH200 480GB", "NVIDIA GB200", "NVIDIA GB300", "NVIDIA GB10"])
def test_superchips_have_arm_cpus(name: str) -> None:
    assert product(name).cpu_arch == "arm64"


def test_other_gpus_do_not_tell_their_cpu() -> None:
    assert product("NVIDIA H100 80GB HBM3").cpu_arch == ""
