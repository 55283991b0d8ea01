"""The matrix, in the words of ``nvidia-smi topo -m``."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given

from tests.hardware.topology.generated import topologies
from tests.hardware.topology.machines import (
    MACHINES,
    bent,
    dgx1_v100,
    gb200_tray,
    h20,
    hidden_switches,
    l40s,
    with_switch_links,
    without,
)
from webhook.hardware.topology.matrix import format_matrix, matrix
from webhook.hardware.topology.model import Gpu, Nic, NodeTopology, NvLink
from webhook.hardware.topology.readers.recognition import read_topology

TEXTS = Path(__file__).parent / "texts"

LAST = "CPU Affinity NUMA Affinity GPU NUMA ID"

HGX_A100 = f"""
     GPU0 GPU1 GPU2 GPU3 GPU4 GPU5 GPU6 GPU7 NIC0 NIC1 NIC2 NIC3 {LAST}
GPU0 X    NV12 NV12 NV12 NV12 NV12 NV12 NV12 PIX  SYS  SYS  SYS  48-63,176-191   3 N/A
GPU1 NV12 X    NV12 NV12 NV12 NV12 NV12 NV12 PIX  SYS  SYS  SYS  48-63,176-191   3 N/A
GPU2 NV12 NV12 X    NV12 NV12 NV12 NV12 NV12 SYS  PIX  SYS  SYS  16-31,144-159   1 N/A
GPU3 NV12 NV12 NV12 X    NV12 NV12 NV12 NV12 SYS  PIX  SYS  SYS  16-31,144-159   1 N/A
GPU4 NV12 NV12 NV12 NV12 X    NV12 NV12 NV12 SYS  SYS  PIX  SYS  112-127,240-255 7 N/A
GPU5 NV12 NV12 NV12 NV12 NV12 X    NV12 NV12 SYS  SYS  PIX  SYS  112-127,240-255 7 N/A
GPU6 NV12 NV12 NV12 NV12 NV12 NV12 X    NV12 SYS  SYS  SYS  PIX  80-95,208-223   5 N/A
GPU7 NV12 NV12 NV12 NV12 NV12 NV12 NV12 X    SYS  SYS  SYS  PIX  80-95,208-223   5 N/A
NIC0 PIX  PIX  SYS  SYS  SYS  SYS  SYS  SYS  X    SYS  SYS  SYS
NIC1 SYS  SYS  PIX  PIX  SYS  SYS  SYS  SYS  SYS  X    SYS  SYS
NIC2 SYS  SYS  SYS  SYS  PIX  PIX  SYS  SYS  SYS  SYS  X    SYS
NIC3 SYS  SYS  SYS  SYS  SYS  SYS  PIX  PIX  SYS  SYS  SYS  X
"""

DGX1 = f"""
     GPU0 GPU1 GPU2 GPU3 GPU4 GPU5 GPU6 GPU7 NIC0 NIC1 NIC2 NIC3 {LAST}
GPU0 X    NV1  NV1  NV2  NV2  SYS  SYS  SYS  PIX  PHB  SYS  SYS  0-19,40-59  0 N/A
GPU1 NV1  X    NV2  NV1  SYS  NV2  SYS  SYS  PIX  PHB  SYS  SYS  0-19,40-59  0 N/A
GPU2 NV1  NV2  X    NV2  SYS  SYS  NV1  SYS  PHB  PIX  SYS  SYS  0-19,40-59  0 N/A
GPU3 NV2  NV1  NV2  X    SYS  SYS  SYS  NV1  PHB  PIX  SYS  SYS  0-19,40-59  0 N/A
GPU4 NV2  SYS  SYS  SYS  X    NV1  NV1  NV2  SYS  SYS  PIX  PHB  20-39,60-79 1 N/A
GPU5 SYS  NV2  SYS  SYS  NV1  X    NV2  NV1  SYS  SYS  PIX  PHB  20-39,60-79 1 N/A
GPU6 SYS  SYS  NV1  SYS  NV1  NV2  X    NV2  SYS  SYS  PHB  PIX  20-39,60-79 1 N/A
GPU7 SYS  SYS  SYS  NV1  NV2  NV1  NV2  X    SYS  SYS  PHB  PIX  20-39,60-79 1 N/A
NIC0 PIX  PIX  PHB  PHB  SYS  SYS  SYS  SYS  X    PHB  SYS  SYS
NIC1 PHB  PHB  PIX  PIX  SYS  SYS  SYS  SYS  PHB  X    SYS  SYS
NIC2 SYS  SYS  SYS  SYS  PIX  PIX  PHB  PHB  SYS  SYS  X    PHB
NIC3 SYS  SYS  SYS  SYS  PHB  PHB  PIX  PIX  SYS  SYS  PHB  X
"""

A100_PCIE = f"""
     GPU0 GPU1 GPU2 GPU3 {LAST}
GPU0 X    NV12 SYS  SYS  0-27,56-83   0 N/A
GPU1 NV12 X    SYS  SYS  0-27,56-83   0 N/A
GPU2 SYS  SYS  X    NV12 28-55,84-111 1 N/A
GPU3 SYS  SYS  NV12 X    28-55,84-111 1 N/A
"""

L40S = f"""
     GPU0 GPU1 GPU2 GPU3 GPU4 GPU5 GPU6 GPU7 {LAST}
GPU0 X    PIX  NODE NODE SYS  SYS  SYS  SYS  0-31,64-95   0 N/A
GPU1 PIX  X    NODE NODE SYS  SYS  SYS  SYS  0-31,64-95   0 N/A
GPU2 NODE NODE X    PIX  SYS  SYS  SYS  SYS  0-31,64-95   0 N/A
GPU3 NODE NODE PIX  X    SYS  SYS  SYS  SYS  0-31,64-95   0 N/A
GPU4 SYS  SYS  SYS  SYS  X    PIX  NODE NODE 32-63,96-127 1 N/A
GPU5 SYS  SYS  SYS  SYS  PIX  X    NODE NODE 32-63,96-127 1 N/A
GPU6 SYS  SYS  SYS  SYS  NODE NODE X    PIX  32-63,96-127 1 N/A
GPU7 SYS  SYS  SYS  SYS  NODE NODE PIX  X    32-63,96-127 1 N/A
"""

GB200 = f"""
     GPU0 GPU1 GPU2 GPU3 {LAST}
GPU0 X    NV18 NV18 NV18 0-71   0 N/A
GPU1 NV18 X    NV18 NV18 0-71   0 N/A
GPU2 NV18 NV18 X    NV18 72-143 1 N/A
GPU3 NV18 NV18 NV18 X    72-143 1 N/A
"""

H100_VM = f"""
     GPU0 GPU1 GPU2 GPU3 GPU4 GPU5 GPU6 GPU7 {LAST}
GPU0 X    NV18 NV18 NV18 NV18 NV18 NV18 NV18 0-95 N/A N/A
GPU1 NV18 X    NV18 NV18 NV18 NV18 NV18 NV18 0-95 N/A N/A
GPU2 NV18 NV18 X    NV18 NV18 NV18 NV18 NV18 0-95 N/A N/A
GPU3 NV18 NV18 NV18 X    NV18 NV18 NV18 NV18 0-95 N/A N/A
GPU4 NV18 NV18 NV18 NV18 X    NV18 NV18 NV18 0-95 N/A N/A
GPU5 NV18 NV18 NV18 NV18 NV18 X    NV18 NV18 0-95 N/A N/A
GPU6 NV18 NV18 NV18 NV18 NV18 NV18 X    NV18 0-95 N/A N/A
GPU7 NV18 NV18 NV18 NV18 NV18 NV18 NV18 X    0-95 N/A N/A
"""

MATRICES = {
    "hgx-a100": HGX_A100,
    "dgx1-v100": DGX1,
    "a100-pcie": A100_PCIE,
    "l40s": L40S,
    "gb200-tray": GB200,
    "h100-vm": H100_VM,
}


def words(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.split()]


def shown(topology: NodeTopology) -> str:
    """The matrix alone, without its legends."""
    return format_matrix(matrix(topology)).partition("Legend:")[0]


@pytest.mark.parametrize("name", MATRICES)
def test_the_matrix_of_a_machine_has_the_words_that_nvidia_smi_prints_there(name: str) -> None:
    assert words(shown(MACHINES[name])) == words(MATRICES[name])


def test_lines_are_separated_by_the_tabs_of_nvidia_smi() -> None:
    header, first, *_ = shown(replace(l40s(), gpus=l40s().gpus[:2])).splitlines()
    assert header == "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID"
    assert first == "GPU0\t X \tPIX\t0-31,64-95\t0\t\tN/A"


@pytest.mark.parametrize("name", ["h20.txt", "h20-pasted.txt", "a100-pcie-bridged.txt", "l40s.txt", "one-gpu.txt"])
def test_what_nvidia_smi_printed_comes_out_again_word_for_word(name: str) -> None:
    text = (TEXTS / name).read_text().replace("\x1b[4m", "").replace("\x1b[0m", "")
    before = text[text.index("GPU0") : text.index("Legend:")]
    after = format_matrix(matrix(read_topology(text, node="n", source=name)))
    assert words(after.partition("Legend:")[0]) == words(before)


def test_the_legend_of_the_nics_comes_out_again_word_for_word() -> None:
    text = (TEXTS / "h20.txt").read_text()
    after = format_matrix(matrix(read_topology(text, node="n", source="h20.txt")))
    assert words(after.partition("NIC Legend:")[2]) == words(text.partition("NIC Legend:")[2])


def test_a_gpu_with_links_down_has_fewer_in_its_row_and_column() -> None:
    rows = matrix(with_switch_links(h20(), 2, 16)).rows
    assert rows[2].words[:8] == ("NV16", "NV16", "X", "NV16", "NV16", "NV16", "NV16", "NV16")
    assert [row.words[2] for row in rows[:8]] == ["NV16", "NV16", "X", "NV16", "NV16", "NV16", "NV16", "NV16"]
    assert rows[0].words[1] == "NV18"


def test_a_pair_whose_direct_links_are_all_down_has_its_pcie_path() -> None:
    machine = bent(dgx1_v100(), 0, nvlinks=(NvLink(target="GPU3", count=2, active=0),))
    assert matrix(machine).rows[0].words[:8] == ("X", "PIX", "PHB", "PHB", "SYS", "SYS", "SYS", "SYS")


def test_a_lost_gpu_has_no_row_and_the_others_keep_their_names() -> None:
    found = matrix(without(h20(), 3))
    assert found.labels[:7] == ("GPU0", "GPU1", "GPU2", "GPU4", "GPU5", "GPU6", "GPU7")
    assert found.rows[3].words[:7] == ("NV18", "NV18", "NV18", "X", "NV18", "NV18", "NV18")


def test_a_path_that_nothing_tells_is_not_guessed() -> None:
    topology = NodeTopology(node="n", source="hami", gpus=(Gpu(index=0), Gpu(index=1)), nics=(Nic(name="mlx5_0"),))
    assert [row.words for row in matrix(topology).rows] == [
        ("X", "N/A", "N/A"),
        ("N/A", "X", "N/A"),
        ("N/A", "N/A", "X"),
    ]


def test_numa_nodes_alone_tell_node_from_sys() -> None:
    gpus = (Gpu(index=0, numa_node=0), Gpu(index=1, numa_node=0), Gpu(index=2, numa_node=1), Gpu(index=3))
    rows = matrix(NodeTopology(node="n", source="hami", gpus=gpus)).rows
    assert [row.words for row in rows] == [
        ("X", "NODE", "SYS", "N/A"),
        ("NODE", "X", "SYS", "N/A"),
        ("SYS", "SYS", "X", "N/A"),
        ("N/A", "N/A", "N/A", "X"),
    ]


def test_the_cpus_of_a_gpu_follow_from_its_numa_node_where_it_does_not_tell_them() -> None:
    machine = bent(l40s(), 0, cpu_affinity="")
    assert matrix(machine).rows[0].affinity == ("0-31,64-95", "0", "N/A")


def test_where_no_numa_node_is_known_the_cpus_still_are() -> None:
    assert matrix(hidden_switches()).rows[0].affinity == ("0-95", "N/A", "N/A")


def test_where_nothing_is_known_of_the_cpus_their_columns_are_blank() -> None:
    assert matrix(NodeTopology(node="n", source="nvidia-smi", gpus=(Gpu(index=0),))).rows[0].affinity == ("", "", "N/A")
    with_node = NodeTopology(node="n", source="hami", gpus=(Gpu(index=0, numa_node=1),))
    assert matrix(with_node).rows[0].affinity == ("N/A", "1", "N/A")


def test_a_gpu_that_is_a_numa_node_itself_has_its_number_in_the_last_column() -> None:
    assert matrix(bent(gb200_tray(), 0, own_numa_node=2)).rows[0].affinity == ("0-71", "0", "2")


def test_a_node_without_devices_has_an_empty_matrix() -> None:
    assert matrix(NodeTopology(node="n", source="nvml")).rows == ()


@given(topologies())
def test_any_matrix_reads_the_same_by_rows_and_by_columns(topology: NodeTopology) -> None:
    found = matrix(topology).rows
    assert [row.words for row in found] == list(zip(*(row.words for row in found), strict=True))


@given(topologies())
def test_any_topology_has_a_square_matrix_with_itself_on_the_diagonal(topology: NodeTopology) -> None:
    found = matrix(topology)
    assert all(len(row.words) == len(found.rows) for row in found.rows)
    assert all(row.words[position] == "X" for position, row in enumerate(found.rows))
    assert all(row.words.count("X") == 1 for row in found.rows)
