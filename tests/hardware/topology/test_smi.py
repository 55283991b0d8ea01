"""What ``nvidia-smi topo -m`` and ``nvidia-smi -L`` print becomes a topology."""

import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hardware.topology.machines import GEN4, H20_UUIDS, distance, h20
from webhook.hardware.topology.matrix import format_matrix, matrix
from webhook.hardware.topology.model import Cpu, Gpu, MigMode, Nic, NodeTopology, NvLink
from webhook.hardware.topology.readers.smi import read_smi
from webhook.hardware.topology.sets import assess
from webhook.words.errors import FormatError

TEXTS = Path(__file__).parent / "texts"
MATRICES = [
    "a100-pcie-bridged.txt",
    "dgx-a100.txt",
    "dgx1-v100.txt",
    "dgx2.txt",
    "gb200-tray.txt",
    "h20-pasted.txt",
    "h20.txt",
    "l40s.txt",
    "one-gpu.txt",
]
LINE = re.compile(r"(GPU\d+|NIC\d+|mlx5_\d+)\s+(X|NV\d+|PIX|PXB|PHB|NODE|SYS)\b.*")

TWO = """\
\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tNV4\tPHB\t0-7\t0\t\tN/A
GPU1\tNV4\t X \tSYS\t8-15\t1\t\tN/A
NIC0\tPHB\tSYS\t X \t\t\t\t

Legend:

  X    = Self
  NV#  = Connection traversing a bonded set of # NVLinks

NIC Legend:

  NIC0: mlx5_0
"""
TWO_LISTED = "GPU 0: NVIDIA A40 (UUID: GPU-aa)\nGPU 1: NVIDIA A40 (UUID: GPU-bb)\n"


def text(name: str) -> str:
    return (TEXTS / name).read_bytes().decode()


def read(matrix: str, listing: str = "") -> NodeTopology:
    return read_smi(matrix, listing, node="node-1", source="file a.txt")


def to(target: str, links: int) -> NvLink:
    return NvLink(target=target, count=links, active=links)


# --- What comes out. ---


def test_two_gpus_and_a_nic() -> None:
    assert read(TWO, TWO_LISTED) == NodeTopology(
        node="node-1",
        source="nvidia-smi",
        gpus=(
            Gpu(
                index=0,
                uuid="GPU-aa",
                name="NVIDIA A40",
                compute_capability="8.6",
                numa_node=0,
                cpu_affinity="0-7",
                nvlinks=(to("GPU1", 4),),
                pcie=GEN4,
                distance=(("NIC0", "PHB"),),
            ),
            Gpu(
                index=1,
                uuid="GPU-bb",
                name="NVIDIA A40",
                compute_capability="8.6",
                numa_node=1,
                cpu_affinity="8-15",
                nvlinks=(to("GPU0", 4),),
                pcie=GEN4,
                distance=(("NIC0", "SYS"),),
            ),
        ),
        cpus=(Cpu(numa_node=0, affinity="0-7"), Cpu(numa_node=1, affinity="8-15")),
        nics=(Nic(name="mlx5_0", distance=(("GPU0", "PHB"), ("GPU1", "SYS"))),),
    )


@pytest.mark.parametrize("name", MATRICES)
def test_no_word_of_a_matrix_is_lost(name: str) -> None:
    lines = [line.split() for line in text(name).splitlines() if LINE.fullmatch(line)]
    rows = matrix(read(text(name))).rows
    assert [list(row.words) for row in rows] == [words[1 : len(lines) + 1] for words in lines]


@pytest.mark.parametrize("name", MATRICES)
def test_what_we_print_reads_as_what_we_read(name: str) -> None:
    found = read(text(name))
    printed = format_matrix(matrix(found))
    listed = "".join(f"GPU {gpu.index}: {gpu.name} (UUID: {gpu.uuid})\n" for gpu in found.gpus if gpu.uuid)
    assert read(printed, listed) == found


def test_h20_as_a_terminal_shows_it_with_the_list_beside_and_pasted_from_a_page_with_prompts() -> None:
    found = read(text("h20-pasted.txt"))
    assert [gpu.uuid for gpu in found.gpus] == list(H20_UUIDS)
    assert found.problem == ""
    assert found == read(text("h20.txt"), text("h20-list.txt"))


def test_h20_has_the_matrix_that_nvml_and_sysfs_tell() -> None:
    assert matrix(read(text("h20.txt"))) == matrix(h20())


def test_without_a_list_gpus_have_no_names_and_the_topology_says_so() -> None:
    found = read(text("h20.txt"))
    assert {(gpu.uuid, gpu.name, gpu.compute_capability) for gpu in found.gpus} == {("", "", "")}
    assert found.problem.startswith("Nothing tells the UUIDs of the GPUs: add the output of nvidia-smi -L. ")


@pytest.mark.parametrize(
    ("links", "bandwidth", "counted"),
    [
        ("NV18", 370.8, "NVLinks count as those of compute capability 9.0, 20.6 GB/s each; "),
        ("NV12", 240.0, "NVLinks count as those of compute capability 7.0 or 8.0, 20.0 GB/s each; "),
        ("NV4", 48.0, "NVLinks count as those of compute capability 8.6, 12.0 GB/s each; "),
        ("PIX", 12.0, ""),
    ],
)
def test_without_names_the_topology_says_which_generation_counts(links: str, bandwidth: float, counted: str) -> None:
    found = read(TWO.replace("NV4", links))
    assert assess(found, [0, 1]).bandwidth == bandwidth
    assert found.problem.endswith(
        f" Nothing tells the generation of the GPUs: {counted}PCIe counts as generation 3 x16, 12 GB/s; it may be more."
    )


def test_of_a_product_that_is_not_known_the_topology_says_which_generation_counts() -> None:
    listed = TWO_LISTED.replace("NVIDIA A40", "NVIDIA X9000", 1)
    assert read(TWO, listed).problem.startswith("Nothing tells the generation of GPU0: NVLinks count as those of ")
    assert read(TWO, TWO_LISTED).problem == ""


def test_nics_in_columns_of_their_own_names_are_numbered_in_the_order_of_the_columns() -> None:
    found = read(text("dgx1-v100.txt"))
    assert [nic.name for nic in found.nics] == ["mlx5_0", "mlx5_2", "mlx5_1", "mlx5_3"]
    assert found.nics[1].distance == distance("SYS SYS SYS SYS PIX PIX PHB PHB SYS X SYS PHB", gpus=8)


def test_with_a_cpu_affinity_alone_no_numa_node_is_known() -> None:
    found = read(text("dgx1-v100.txt"))
    assert [gpu.cpu_affinity for gpu in found.gpus] == ["0-19,40-59"] * 4 + ["20-39,60-79"] * 4
    assert {gpu.numa_node for gpu in found.gpus} == {None}
    assert found.cpus == ()


def test_a_single_gpu_whose_affinities_are_missing() -> None:
    assert read(text("one-gpu.txt")).gpus == (Gpu(index=0),)


def test_a_gb200_tray_has_arm_cpus_and_gpus_that_are_numa_nodes() -> None:
    found = read(text("gb200-tray.txt"))
    assert {gpu.nvlinks for gpu in found.gpus} == {(to("nvswitch", 18),)}
    assert [gpu.numa_node for gpu in found.gpus] == [0, 0, 1, 1]
    assert found.cpus == (
        Cpu(numa_node=0, affinity="0-71", arch="arm64"),
        Cpu(numa_node=1, affinity="72-143", arch="arm64"),
    )


def test_without_names_gpus_that_are_numa_nodes_mean_arm_cpus() -> None:
    found = read(text("gb200-tray.txt").partition("GPU 0:")[0])
    assert [cpu.arch for cpu in found.cpus] == ["arm64", "arm64"]


def test_a_gpu_with_links_down_reaches_the_switches_by_fewer() -> None:
    bent = re.sub(r"(?m)^GPU2\b.*$", lambda row: row[0].replace("NV18", "NV10"), text("h20.txt"))
    bent = re.sub(r"(?m)^(GPU[013-7]\t\s*\S+\s+\S+\s+)NV18", r"\1NV10", bent)
    links = [gpu.nvlinks[0].active for gpu in read(bent).gpus]
    assert links == [18, 18, 10, 18, 18, 18, 18, 18]


# --- Forms that drivers and copies have. ---


def test_the_word_of_old_drivers_for_sys_is_understood() -> None:
    found = read("GPU0 GPU1 mlx4_0 CPU Affinity\nGPU0 X SOC PHB 0-5\nGPU1 SOC X SOC 0-5\nmlx4_0 PHB SOC X\n")
    assert found.gpus[0].distance == (("GPU1", "SYS"), ("NIC0", "PHB"))


def test_several_numa_nodes_are_none() -> None:
    found = read("GPU0 CPU Affinity NUMA Affinity GPU NUMA ID\nGPU0 X 0-63 0-1 N/A\n")
    assert (found.gpus[0].numa_node, found.gpus[0].cpu_affinity, found.cpus) == (None, "0-63", ())


def test_gpus_of_one_numa_node_that_name_different_cpus_leave_its_cpus_unknown() -> None:
    found = read("GPU0 GPU1 CPU Affinity NUMA Affinity\nGPU0 X PIX 0-3 0\nGPU1 PIX X 4-7 0\n")
    assert found.cpus == (Cpu(numa_node=0),)


@pytest.mark.parametrize(
    ("behind", "cpus", "node"),
    [
        ("\t0-7\t0\t\tN/A", "0-7", 0),
        ("\t0-7\t0\tN/A", "0-7", 0),
        ("\t0-7\tN/A\t\tN/A", "0-7", None),
        ("\t0-7\t\t\tN/A", "0-7", None),
        ("\t\t0\t\tN/A", "", 0),
        ("\t\t\t\tN/A", "", None),
        ("\tN/A\tN/A\t\tN/A", "", None),
        ("\t\t\t\t", "", None),
        ("", "", None),
        ("   N/A", "", None),
    ],
)
def test_a_missing_value_leaves_the_others_where_they_are(behind: str, cpus: str, node: int | None) -> None:
    gpu = read(f"\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X {behind}\n").gpus[0]
    assert (gpu.cpu_affinity, gpu.numa_node) == (cpus, node)


def test_a_path_that_the_text_does_not_tell_stays_unknown() -> None:
    found = read("GPU0 GPU1 CPU Affinity\nGPU0 X N/A 0-3\nGPU1 N/A X 0-3\n")
    assert [gpu.distance for gpu in found.gpus] == [(), ()]
    assert matrix(found).rows[0].words == ("X", "N/A")


def test_nics_without_a_legend_are_called_as_their_columns() -> None:
    assert read(TWO.partition("NIC Legend:")[0]).nics[0].name == "NIC0"


def test_indices_need_not_be_consecutive() -> None:
    found = read("GPU2 GPU5 CPU Affinity\nGPU2 X PIX 0-3\nGPU5 PIX X 0-3\n")
    assert [gpu.index for gpu in found.gpus] == [2, 5]
    assert found.gpus[0].distance == (("GPU5", "PIX"),)


def test_mig_devices_in_the_list_mean_mig_mode() -> None:
    mig = "  MIG 1g.10gb     Device  0: (UUID: MIG-9f0c2a4e-1b7d-5c38-a6e2-4d8f7b3c1a90)\n"
    gpus = read(TWO, TWO_LISTED.replace("GPU 1", mig + mig.replace("0:", "1:") + "GPU 1")).gpus
    assert [gpu.mig_mode for gpu in gpus] == [MigMode.ENABLED, MigMode.UNSUPPORTED]


def test_lists_of_containers_beside_that_of_the_node_do_not_matter() -> None:
    in_a_container = "GPU 0: NVIDIA A40 (UUID: GPU-bb)\n"
    assert read(TWO, TWO_LISTED + in_a_container) == read(TWO, TWO_LISTED)
    assert read(TWO, in_a_container + TWO_LISTED) == read(TWO, TWO_LISTED)


def test_several_lists_of_containers_alone_tell_no_uuids() -> None:
    found = read(TWO, "GPU 0: NVIDIA A40 (UUID: GPU-bb)\nand in the other one\nGPU 0: NVIDIA A40 (UUID: GPU-aa)\n")
    assert [gpu.uuid for gpu in found.gpus] == ["", ""]
    assert found.problem == (
        "Nothing tells the UUIDs of the GPUs: add the output of nvidia-smi -L. "
        "Nothing tells the generation of the GPUs: NVLinks count as those of compute capability 8.6, 12.0 GB/s each; "
        "PCIe counts as generation 3 x16, 12 GB/s; it may be more. "
        "None of the lists of nvidia-smi -L is that of the node: containers number their GPUs anew."
    )


def test_tabs_in_a_list_are_blanks() -> None:
    found = read(TWO, TWO_LISTED.replace(" ", "\t"))
    assert [(gpu.name, gpu.uuid) for gpu in found.gpus] == [("NVIDIA A40", "GPU-aa"), ("NVIDIA A40", "GPU-bb")]


def test_a_tab_within_the_name_of_a_nic_is_refused() -> None:
    with pytest.raises(FormatError, match="expected each NIC once, with its name"):
        read(TWO.replace("mlx5_0", "mlx5\t0"))


def test_a_list_may_lack_uuids() -> None:
    found = read(TWO, "GPU models and configuration: \nGPU 0: NVIDIA A40\nGPU 1: NVIDIA A40\n")
    assert [(gpu.name, gpu.uuid) for gpu in found.gpus] == [("NVIDIA A40", ""), ("NVIDIA A40", "")]
    assert "UUID" in found.problem


def test_a_legend_without_nvlinks_is_doubtful() -> None:
    hidden = TWO.replace("NV4", "PIX").replace("  NV#  = Connection traversing a bonded set of # NVLinks\n", "")
    assert read(hidden, TWO_LISTED).problem == (
        "The legend of the matrix has no NVLinks, so it may be that of nvidia-smi topo -mp, which hides them."
    )


def test_indentation_and_hard_blanks_of_pages_do_not_matter() -> None:
    pasted = "".join(f"    {line}\n" for line in TWO.replace("\t", "\xa0 ").splitlines())
    assert read(pasted, TWO_LISTED) == read(TWO, TWO_LISTED)


# --- What is refused. ---


def without_line(number: int) -> str:
    lines = TWO.splitlines(keepends=True)
    return "".join(lines[: number - 1] + lines[number:])


@pytest.mark.parametrize(
    ("bent", "message"),
    [
        ("", 'file a.txt: expected one matrix with a header GPU0 ... CPU Affinity, found "none"'),
        ("No devices were found\n", "file a.txt: expected one matrix"),
        (TWO_LISTED, "file a.txt: expected one matrix"),
        (TWO + TWO, 'expected one matrix .*, found "file a.txt: line 1 and file a.txt: line 14"'),
        (without_line(2), 'file a.txt: line 2: expected the row of GPU0, found "GPU1"'),
        (without_line(3), 'line 3: expected the row of GPU1, found "NIC0"'),
        (without_line(4), 'line 5: expected the row of NIC0, found "Legend:"'),
        ("\n".join(TWO.splitlines()[:3]), 'line 3: expected the row of NIC0 below, found "the end"'),
        (TWO.splitlines()[0], 'line 1: expected the row of GPU0 below, found "the end"'),
        (TWO.replace("GPU1\tNV4", "GPU0\tNV4"), 'line 3: expected the row of GPU1, found "GPU0"'),
        (TWO.replace("\n\nLegend", "\nGPU2\tSYS\tSYS\tSYS\n\nLegend"), "line 5: expected NIC0 to be the last row"),
        (TWO.replace("\tGPU0\tGPU1\tNIC0", "\tGPU0\tGPU1"), "expected nothing behind GPU NUMA ID, found"),
        (
            TWO.replace("NV4\tPHB\t0-7\t0\t\tN/A", "NV4"),
            "line 2: expected a word for each .* GPU0 to NIC0, found .2 of 3",
        ),
        (TWO.replace("NV4\tPHB\t", "PHB\t"), 'line 2, column NIC0: expected NV#, PIX, .*, found "0-7"'),
        (TWO.replace("8-15\t1", "8-15\t1\t1"), "line 3: expected nothing behind GPU NUMA ID"),
        (TWO.replace("SYS\t X \t", "SYS\t X \t0-7"), 'line 4: expected nothing behind NIC0, found "0-7"'),
        (TWO.replace("8-15\t1\t\tN/A", ""), "line 3: expected values for CPU Affinity, NUMA Affinity, GPU NUMA ID"),
        (TWO.replace("8-15\t1\t\tN/A", "8-15 N/A"), "line 3: .* Keep the tabs of nvidia-smi"),
        (
            TWO.replace("\tNV4\t X ", "\tNV2\t X "),
            'line 3, column GPU0: expected NV4, as in the row of GPU0, found "NV2"',
        ),
        (
            TWO.replace("NIC0\tPHB", "NIC0\tPXB"),
            'line 4, column GPU0: expected PHB, as in the row of GPU0, found "PXB"',
        ),
        (TWO.replace("GPU0\t X ", "GPU0\tPIX"), "line 2, column GPU0: expected X, because that is the device itself"),
        (TWO.replace("GPU0\t X \tNV4", "GPU0\t X \tX"), 'line 2, column GPU1: expected NV#, .* or N/A, found "X"'),
        (TWO.replace("NV4", "NVX"), 'line 2, column GPU1: expected NV#, PIX, PXB, PHB, NODE, SYS or N/A, found "NVX"'),
        (TWO.replace("NV4", "NV0"), "line 2, column GPU1: expected NV#"),
        (TWO.replace("NV4", "NV99"), 'line 2, column GPU1: expected at most 72 NVLinks, found "NV99"'),
        (TWO.replace("PHB", "NV2"), "line 2, column NIC0: expected a PCIe path, because NVLinks join only GPUs"),
        (TWO.replace("GPU1\tNIC0", "GPU0\tNIC0"), 'line 1: expected each device once, found "GPU0 twice"'),
        (TWO.replace("GPU1\tNIC0", "GPU1\tNIC1"), 'line 1: expected the column NIC0, found "NIC1"'),
        (
            TWO.replace("GPU NUMA ID", "GPU NUMA"),
            "line 1: expected the columns CPU Affinity, NUMA Affinity, GPU NUMA ID",
        ),
        (
            TWO.replace("0-7\t", "0-7-\t"),
            'line 2, column CPU Affinity: expected CPUs such as 0-47,96-143, found "0-7-"',
        ),
        (TWO.replace("8-15\t1", "8-15\tone"), 'line 3, column NUMA Affinity: expected NUMA nodes .*, found "one"'),
        (TWO.replace("1\t\tN/A", "1\t\t0-1"), "line 3, column GPU NUMA ID: expected the number of a NUMA node"),
        (TWO.replace("  NIC0: mlx5_0", ""), "line 11: expected the names of NIC0 to NIC0, found .none"),
        (TWO.replace("NIC0: mlx5_0", "NIC1: mlx5_0"), 'line 11: expected the names of NIC0 to NIC0, found "NIC1"'),
        (TWO + "  NIC0: mlx5_1\n", 'line 14: expected each NIC once, with its name, found "NIC0: mlx5_1"'),
        (TWO.replace(" mlx5_0", " mlx5\x1b]0;_0"), "line 13: expected a line of printable characters"),
        (TWO.replace("PHB\t0-7", "PHB\x07\t0-7"), "line 2: expected a line of printable characters"),
        (TWO + "x" * 1024 * 1024, "file a.txt: expected at most 1048576 characters"),
    ],
)
def test_a_matrix_that_is_not_in_order_is_refused(bent: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read(bent)


@pytest.mark.parametrize(
    ("listing", "message"),
    [
        (
            "GPU 0: NVIDIA A40 (UUID: GPU-aa)\n",
            'list of nvidia-smi -L: expected the GPUs of the matrix, GPU0, GPU1, found "GPU0". Run both',
        ),
        (TWO_LISTED + "GPU 2: NVIDIA A40 (UUID: GPU-cc)\n", 'GPU0, GPU1, found "GPU0, GPU1, GPU2"'),
        (TWO_LISTED.replace("bb", "aa"), 'list: line 2: expected each UUID once, found "GPU-aa twice"'),
        (
            TWO_LISTED.replace("bb", "aa").replace("GPU 1", "GPU 01"),
            'list: line 2: expected each UUID once, found "GPU-aa twice"',
        ),
        (
            TWO_LISTED.replace("bb", "aa") + "GPU 2: NVIDIA A40 (UUID: GPU-cc)\n",
            'list: line 2: expected each UUID once, found "GPU-aa twice"',
        ),
        (
            TWO_LISTED + TWO_LISTED.replace("aa", "cc"),
            'list of nvidia-smi -L: expected one list of the GPUs of the matrix, found "2 that differ". Leave out',
        ),
        (
            TWO_LISTED.replace(" (UUID: GPU-bb)", ""),
            'list: line 2: expected a UUID for each GPU or for none, found "no',
        ),
        (TWO_LISTED.replace("GPU-bb)", "GP"), r"list: line 2: expected GPU 1: NAME \(UUID: GPU-\.\.\.\), found"),
        (TWO_LISTED.replace("A40", "A\x1b]0;40"), "list: line 1: expected a line of printable characters"),
        ("GPU 0: " + "A" * 97 + "\nGPU 1: A\n", "list: line 1: expected GPU 0: NAME"),
        ("  MIG 1g.5gb  Device  0: (UUID: MIG-a)\n" + TWO_LISTED, "list: line 1: expected a MIG device with its UUID"),
        (TWO_LISTED + "  MIG 1g.5gb  Device  0: (UUI\n", "list: line 3: expected a MIG device with its UUID"),
        ("x" * (1024 * 1024 + 1), "list: expected at most 1048576 characters"),
    ],
)
def test_a_list_that_is_not_in_order_is_refused(listing: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read(TWO, listing)


@pytest.mark.parametrize(("gpus", "nics", "what"), [(65, 0, "64 GPUs"), (1, 129, "128 NICs")])
def test_no_node_has_so_many_devices(gpus: int, nics: int, what: str) -> None:
    header = " ".join([*(f"GPU{index}" for index in range(gpus)), *(f"NIC{index}" for index in range(nics))])
    with pytest.raises(FormatError, match=f"line 1: expected at most {what}"):
        read(f"{header} CPU Affinity\n")


@pytest.mark.parametrize("name", MATRICES)
def test_a_matrix_cut_off_after_any_row_but_the_last_is_refused(name: str) -> None:
    lines = text(name).splitlines(keepends=True)
    rows = [number for number, line in enumerate(lines) if LINE.fullmatch(line.rstrip())]
    for last in rows:
        with pytest.raises(FormatError, match=r"^file a\.txt: line "):
            read("".join(lines[:last]))


# --- Any matrix, and any damage to one. ---


@st.composite
def drawn(draw: st.DrawFn) -> tuple[str, list[list[str]], list[str]]:
    """A matrix as some driver or copy may have it, its words, and the names of its NICs."""
    gpus, nics = draw(st.integers(1, 5)), draw(st.integers(0, 4))
    devices = gpus + nics
    words = [["X"] * devices for _ in range(devices)]
    for one in range(devices):
        for other in range(one):
            near = ["PIX", "PXB", "PHB", "NODE", "SYS"] + (["NV1", "NV4"] if one < gpus else [])
            words[one][other] = words[other][one] = draw(st.sampled_from(near))
    titles = draw(
        st.sampled_from(["CPU Affinity", "CPU Affinity{}NUMA Affinity", "CPU Affinity{}NUMA Affinity{}GPU NUMA ID"])
    )
    values = ["0-7", "1", "N/A"][: titles.count("{}") + 1]
    legend = draw(st.booleans())
    names = [f"NIC{number}" if legend else f"mlx5_{number}" for number in range(nics)]
    gap = draw(st.sampled_from([" ", "\t", "   "]))
    end = draw(st.sampled_from(["\n", "\r\n"]))
    labels = [f"GPU{index}" for index in range(gpus)] + names
    lines = [gap.join([*labels, titles.format(*[gap] * 2)])]
    if draw(st.booleans()):
        lines[0] = f"\x1b[4m{gap}{lines[0]}\x1b[0m"
    for label, row in zip(labels, words, strict=True):
        lines.append(gap.join([label, *row, *(values if label.startswith("GPU") else [])]))
    if legend:
        lines += ["", "NIC Legend:", "", *(f"  {name}: eth{number}" for number, name in enumerate(names))]
        names = [f"eth{number}" for number in range(nics)]
    before = draw(st.sampled_from([[], ["$ nvidia-smi topo -m"], ["", "Mon Jun  2", "GPUs:"]]))
    return end.join([*before, *lines, "", "$"]), words, names


@given(drawn())
def test_any_matrix_is_read_word_by_word(made: tuple[str, list[list[str]], list[str]]) -> None:
    written, words, names = made
    found = read(written)
    assert [list(row.words) for row in matrix(found).rows] == words
    assert [nic.name for nic in found.nics] == names
    assert {gpu.cpu_affinity for gpu in found.gpus} == {"0-7"}


@given(st.sampled_from(MATRICES), st.data())
def test_a_damaged_text_is_read_or_refused_but_never_breaks_the_reader(name: str, data: st.DataObject) -> None:
    whole = text(name)
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, min(len(whole), start + 80)))
    damaged = whole[:start] + data.draw(st.text(max_size=5)) + whole[end:]
    with suppress(FormatError):
        assert read(damaged).gpus
