"""What ``nvidia-smi nvlink -s`` and ``-c`` print beside a matrix confirms its links or corrects them.

The forms are those of published outputs: V100 without UUIDs and with tabs; RTX 3090, A100, H100 and GB200 with both;
H100 PCIe with links that are inactive because no bridge uses them; H800 with the 8 links that it has.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.hardware.topology.health import HealthState, node_health
from webhook.hardware.topology.model import NodeTopology, NvLink
from webhook.hardware.topology.readers.recognition import read_topology
from webhook.hardware.topology.readers.smi import read_smi
from webhook.hardware.topology.readers.smi_nvlink import parse_nvlinks
from webhook.hardware.topology.readers.smi_text import lines_of
from webhook.hardware.topology.sets import assess
from webhook.words.errors import FormatError

TEXTS = Path(__file__).parent / "texts"
CAPABILITIES = (
    "P2P is supported",
    "Access to system memory supported",
    "P2P atomics supported",
    "System memory atomics supported",
    "SLI is supported",
    "Link is supported",
)
INACTIVE = "NVML: Unable to retrieve NVLink information as all links are inActive\n"
H100, H800, A100 = "NVIDIA H100 PCIe", "NVIDIA H800", "NVIDIA A100-SXM4-80GB"


def matrix(*rows: str) -> str:
    """A matrix of these words above the diagonal, row by row."""
    size = len(rows) + 1
    words = [["X"] * size for _ in range(size)]
    for one, row in enumerate(rows):
        for other, word in enumerate(row.split(), start=one + 1):
            words[one][other] = words[other][one] = word
    header = " ".join(f"GPU{index}" for index in range(size))
    lines = [f"GPU{index} {' '.join(row)} 0-7 0 N/A" for index, row in enumerate(words)]
    return "\n".join([f" {header} CPU Affinity NUMA Affinity GPU NUMA ID", *lines, "", ""])


def heading(index: int, name: str, *, uuid: bool = True) -> str:
    return f"GPU {index}: {name}" + (f" (UUID: GPU-{index:02})" if uuid else "") + "\n"


def listing(gpus: int, name: str) -> str:
    return "$ nvidia-smi -L\n" + "".join(heading(index, name) for index in range(gpus)) + "$ next\n"


def status(name: str, *gpus: Sequence[float] | str, uuid: bool = True, gap: str = "\t ") -> str:
    """The output of ``-s``: the rates of each GPU's links, 0 for inactive ones, or the sentence in their place."""
    text = "$ nvidia-smi nvlink -s\n"
    for index, rates in enumerate(gpus):
        text += heading(index, name, uuid=uuid)
        if isinstance(rates, str):
            text += rates
            continue
        for number, rate in enumerate(rates):
            text += f"{gap}Link {number}: " + (f"{rate:g} GB/s\n" if rate else "<inactive>\n")
    return text


def capabilities(name: str, *gpus: Mapping[int, bool], **values: bool) -> str:
    """The output of ``-c``: whether each link supports P2P. All other capabilities are there."""
    text = "$ nvidia-smi nvlink -c\n"
    for index, p2p in enumerate(gpus):
        text += heading(index, name)
        for number, can in p2p.items():
            words = dict.fromkeys(CAPABILITIES, True) | {CAPABILITIES[0]: can} | values
            text += "".join(f"\t Link {number}, {word}: {str(value).lower()}\n" for word, value in words.items())
    return text


def read(text: str) -> NodeTopology:
    return read_smi(text, node="node-1", source="file a.txt")


def links(found: NodeTopology) -> list[tuple[NvLink, ...]]:
    return [gpu.nvlinks for gpu in found.gpus]


def to(target: str, count: int, active: int | None = None) -> NvLink:
    return NvLink(target=target, count=count, active=count if active is None else active)


# --- What is confirmed. ---


def test_links_that_are_as_the_matrix_has_them_change_nothing() -> None:
    with_links = (TEXTS / "h20-nvlink.txt").read_text()
    assert read(with_links) == read((TEXTS / "h20-pasted.txt").read_text())
    assert read(with_links).problem == ""


@pytest.mark.parametrize("uuid", [True, False])
@pytest.mark.parametrize("gap", ["\t ", "         ", "", "    "])
def test_forms_of_drivers_and_copies_do_not_matter(gap: str, *, uuid: bool) -> None:
    plain = matrix("NV12 NV12", "NV12") + listing(3, A100)
    printed = status(A100, *[[25] * 12] * 3, uuid=uuid, gap=gap)
    assert read(plain + printed) == read(printed + plain) == read((plain + printed).replace("\n", "\r\n"))
    assert read(plain + printed) == read(plain)


def test_the_lines_of_gpus_above_links_are_a_list_too() -> None:
    assert [gpu.uuid for gpu in read(matrix("NV4") + status("NVIDIA A40", *[[14.062] * 4] * 2)).gpus] == [
        *("GPU-00", "GPU-01")
    ]


def test_links_that_no_bridge_uses_are_not_down() -> None:
    up = [26.562] * 4 + [0, 0] + [26.562] * 4 + [0, 0] + [26.562] * 4 + [0, 0]
    found = read(matrix("NV12") + status(H100, up, up))
    assert links(found) == [(to("GPU1", 12),), (to("GPU0", 12),)]
    assert (node_health(found).state, found.problem) == (HealthState.HEALTHY, "")


def test_a_card_without_a_bridge_beside_two_with_one_is_well() -> None:
    found = read(matrix("NV4 SYS", "SYS") + status("NVIDIA GeForce RTX 3090", [14.062] * 4, [14.062] * 4, INACTIVE))
    assert links(found) == [(to("GPU1", 4),), (to("GPU0", 4),), ()]
    assert found.problem == ""


def test_products_without_nvlink_say_so_and_nothing_follows() -> None:
    printed = status("NVIDIA L40S", "Device does not have or support Nvlink\n", "Not supported\n")
    found = read(matrix("PIX") + printed)
    assert (links(found), found.problem) == ([(), ()], "")


def test_links_to_cpus_lead_to_no_gpu_and_do_not_matter() -> None:
    """As in POWER9 machines: three links of each V100 lead to the other one, three to the CPU, which has no P2P."""
    p2p = {number: number < 3 for number in range(6)}
    name = "Tesla V100-SXM2-32GB"
    found = read(matrix("NV3") + status(name, [25.781] * 6, [25.781] * 6) + capabilities(name, p2p, p2p))
    assert links(found) == [(to("GPU1", 3),), (to("GPU0", 3),)]
    assert found.problem == ""


def test_other_capabilities_do_not_matter() -> None:
    every = dict.fromkeys(range(8), True)
    printed = capabilities(H800, every, every, **dict.fromkeys(CAPABILITIES[1:], False))
    assert read(matrix("NV8") + listing(2, H800) + printed) == read(matrix("NV8") + listing(2, H800))
    bare = "\n".join(line for line in printed.splitlines() if "GPU " not in line)
    assert read(matrix("NV8") + listing(2, H800) + bare) == read(matrix("NV8") + listing(2, H800))


def test_the_lines_of_other_options_are_left_alone() -> None:
    others = "".join(
        f"$ nvidia-smi nvlink {option}\n{heading(0, H800)}{line}\n{heading(1, H800)}{line}\n"
        for option, line in (
            ("-e", "\t Link 0: Replay Errors: 0\n\t Link 0: Recovery Errors: 0\n\t Link 0: CRC Errors: 0\n"),
            ("-e", "\t Link 0:\n\t\t CRC Flit Error: 0\n\t Link 1:\n"),
            ("-p", "\t Link 0: 00000000:C2:00.0"),
            ("-R", "\t Link 3: Remote Device 00000000:C2:00.0: Link 6"),
            ("-gt d", "\t Link 0: Data Tx: 123 KiB\n\t Link 0: Data Rx: 5 KiB"),
        )
    )
    plain = matrix("NV8") + listing(2, H800)
    assert read(plain + others + status(H800, [26.562] * 8, [26.562] * 8) + others) == read(plain)


# --- What is corrected. ---


def test_a_link_that_is_down_since_the_matrix_is_down() -> None:
    plain = matrix("NV12 NV12", "NV12") + listing(3, A100)
    found = read(plain + status(A100, [25] * 12, [25] * 5 + [0] + [25] * 6, [25] * 12))
    assert links(found) == [(to("nvswitch", 12),), (to("nvswitch", 12, 11),), (to("nvswitch", 12),)]
    assert found.problem == (
        "Fewer NVLinks carry data by nvidia-smi nvlink than by the matrix, and these count: 11 of 12 of GPU1."
    )
    assert node_health(found).ailing == (1,)


@pytest.mark.parametrize(
    ("rates", "up"), [([14.062] * 3 + [0], 3), ([0] * 4, 0), (INACTIVE, 0), (INACTIVE.replace("NVML: ", ""), 0)]
)
def test_a_bridge_may_have_fewer_links_up_or_none(rates: Sequence[float] | str, up: int) -> None:
    found = read(matrix("NV4") + status("NVIDIA A40", [14.062] * 4, rates))
    assert links(found) == [(to("GPU1", 4),), (to("GPU0", 4, up),)]
    assert f": {up} of 4 of GPU1." in found.problem
    assert assess(found, [0, 1]).bandwidth < 48


def test_where_a_link_that_is_down_led_may_not_be_known() -> None:
    mesh = (TEXTS / "dgx1-v100.txt").read_text()
    name = next(gpu.name for gpu in read(mesh).gpus)
    heads = [line for line in mesh.splitlines() if line.startswith("GPU 0: ")]
    printed = "$ nvidia-smi nvlink -s\n" + heads[0] + "\n"
    printed += "".join(f"\t Link {number}: {'<inactive>' if number == 3 else '25.781 GB/s'}\n" for number in range(6))
    assert name in printed
    found = read(mesh + "\n" + printed)
    assert links(found) == links(read(mesh))
    assert found.problem.endswith("is not known, so the matrix counts: 5 of 6 of GPU0.")


def test_a_link_without_p2p_does_not_count_and_is_told() -> None:
    plain = matrix("NV8") + listing(2, H800)
    no_p2p = {number: number not in (2, 5) for number in range(8)}
    every = dict.fromkeys(range(8), True)
    for printed in ("", status(H800, [26.562] * 8, [26.562] * 8)):
        found = read(plain + printed + capabilities(H800, every, no_p2p))
        assert links(found) == [(to("nvswitch", 8),), (to("nvswitch", 8, 6),)]
        assert found.problem == (
            "Fewer NVLinks carry data by nvidia-smi nvlink than by the matrix, and these count: 6 of 8 of GPU1. "
            "nvidia-smi nvlink -c has no P2P for 2 links of GPU1 (2, 5); such a link carries nothing between GPUs."
        )
    of_one = status(H800, [26.562] * 8, [26.562] * 2 + [0] + [26.562] * 5) + capabilities(H800, every, no_p2p)
    assert links(read(plain + of_one)) == [(to("nvswitch", 8),), (to("nvswitch", 8, 6),)]


def test_more_links_than_the_matrix_has_are_told_and_do_not_count() -> None:
    plain = matrix("NV10 NV10", "NV10") + listing(3, A100)
    found = read(plain + status(A100, [25] * 12, [25] * 12, [25] * 10 + [0, 0]))
    assert links(found) == [(to("nvswitch", 10),)] * 3
    assert found.problem == (
        "nvidia-smi nvlink -s has more NVLinks of GPU0 and GPU1 up than the matrix, whose numbers count."
    )
    assert read(plain + status(A100, [25] * 12, [25] * 10 + [0, 0], [25] * 10 + [0, 0])).problem == ""


def test_links_that_lead_to_no_gpu_of_the_matrix_are_told() -> None:
    found = read(matrix("PIX") + status(A100, [25] * 12, [0] * 12))
    assert links(found) == [(), ()]
    assert found.problem == "nvidia-smi nvlink -s has NVLinks of GPU0 up that lead to no GPU of the matrix."


@pytest.mark.parametrize(
    ("rate", "capability", "bandwidth"),
    [
        (53.125, "10.0", 320.8),
        (26.562, "9.0", 164.8),
        (25.781, "7.0", 160.0),
        (25, "8.0", 160.0),
        (14.062, "8.6", 96.0),
    ],
)
def test_of_an_unknown_product_the_rate_of_its_links_shows_the_generation(
    rate: float, capability: str, bandwidth: float
) -> None:
    found = read(matrix("NV8") + status("NVIDIA X9000", [rate] * 8, [rate] * 8))
    assert {gpu.compute_capability for gpu in found.gpus} == {capability}
    assert assess(found, [0, 1]).bandwidth == bandwidth
    assert found.problem == (
        f"The rate of the NVLinks of GPU0, GPU1 is that of compute capability {capability}; "
        "PCIe counts as generation 3 x16, 12 GB/s; it may be more."
    )


@pytest.mark.parametrize("rates", [[99.5] * 8, [26.562] * 7 + [25], INACTIVE])
def test_rates_that_are_unknown_or_differ_show_no_generation(rates: Sequence[float] | str) -> None:
    found = read(matrix("NV8") + status("NVIDIA X9000", rates, rates))
    assert {gpu.compute_capability for gpu in found.gpus} == {""}
    assert found.problem.startswith("Nothing tells the generation of the GPUs: NVLinks count as")


@pytest.mark.parametrize("rate", [13.281, 53.125])
def test_a_rate_that_does_not_fit_the_product_is_told(rate: float) -> None:
    found = read(matrix("NV8") + status(H800, [26.562] * 8, [26.562] * 7 + [rate]))
    assert found.problem == (
        "nvidia-smi nvlink -s has links with a rate that does not fit the payload that counts for each: "
        f"{rate} GB/s of GPU1 for 20.6 GB/s."
    )


def test_links_in_a_container_are_not_those_of_the_node() -> None:
    plain = matrix("NV8 NV8", "NV8") + listing(3, H800)
    inside = "$ kubectl logs pod\nGPU 0: NVIDIA H800 (UUID: GPU-02)\n\t Link 0: <inactive>\n"
    found = read(plain + inside)
    assert links(found) == links(read(plain))
    assert found.problem == (
        "NVLinks of GPUs that are not those of the node are left out: containers number their GPUs anew."
    )


def test_many_gpus_are_one_sentence_with_eight_of_them() -> None:
    rows = [" ".join(["NV6"] * (15 - row)) for row in range(15)]
    name = "Tesla V100-SXM3-32GB"
    found = read(matrix(*rows) + status(name, *[[25.781] * 5 + [0]] * 16))
    assert found.problem.count("of 6 of GPU") == 8
    assert found.problem.endswith("5 of 6 of GPU7 and 8 more.")


# --- What is refused. ---


@pytest.mark.parametrize(
    ("text", "command"),
    [
        (status(H800, [26.562] * 8, [26.562] * 8), "-s"),
        (capabilities(H800, {0: True}), "-c"),
        ("Link 0, P2P is supported: true\n", "-c"),
        ("  Link 0: 26.562 GB/s\n", "-s"),
        ("\t Link 0: <inactive>\n\t Link 1: <inactive>\n", "-s"),
        (listing(2, H800) + capabilities(H800, {0: True}) + status(H800, [0, 0]), "-s"),
    ],
)
def test_links_without_a_matrix_say_what_to_put_beside_them(text: str, command: str) -> None:
    message = (
        "standard input: expected the output of nvidia-smi topo -m, which says where NVLinks lead, "
        f'found "that of nvidia-smi nvlink {command} alone". '
        "Put the output of nvidia-smi topo -m, and of nvidia-smi -L, into the same text"
    )
    with pytest.raises(FormatError, match=f"^{re.escape(message)}$"):
        read_topology(text, node="node-1", source="standard input")


TWO = matrix("NV2") + listing(2, A100)
"""Seven lines."""


@pytest.mark.parametrize(
    ("printed", "message"),
    [
        (
            heading(0, A100) + "Link 0: 25 GB/s\nLink 2: 25 GB/s\n",
            'file a.txt: line 10: expected Link 1, found "Link 2". Save the whole output of nvidia-smi nvlink',
        ),
        (heading(0, A100) + "Link 0: 25 GB/s\nLink 0: 25 GB/s\n", 'line 10: expected Link 1, found "Link 0"'),
        (heading(0, A100) + "Link 1: 25 GB/s\n", 'line 9: expected Link 0, found "Link 1"'),
        (
            heading(0, A100) + "Link 0: 25 GB/s\n[...]\nLink 11: 25 GB/s\n",
            "line 11: expected the GPU above its links, GPU N: NAME .*, found .Link 11: 25 GB/s",
        ),
        ("$ exit\nLink 0: <inactive>\n", "line 9: expected the GPU above its links"),
        (
            heading(0, A100) + "Link 0: 25 GB/s\nLink 1: Recovery\n",
            'line 10: expected 26.562 GB/s or <inactive>, found "Recovery"',
        ),
        (heading(0, A100) + "Link 0: 25 GB/s\nLink 1: 25GB/s\n", 'line 10: expected 26.562 GB/s or .*, found "25GB/s"'),
        (heading(0, A100) + "Link 0: 25 GB/s\nLink 1: -1 GB/s\n", "line 10: expected 26.562 GB/s"),
        (heading(0, A100) + "Link 0: 25 GB/s\nLink 1: 1e9 GB/s\n", "line 10: expected 26.562 GB/s"),
        (heading(0, A100) + "Link 0: 25 GB/s\nLink 1: 99999 GB/s\n", "line 10: expected 26.562 GB/s"),
        (heading(0, A100) + "Link 0: 25 GB/s \x07\n", "line 9: expected a line of printable characters"),
        (
            heading(0, A100) + "".join(f"Link {number}: 25 GB/s\n" for number in range(73)),
            'line 81: expected at most 72 links of a GPU, found "Link 72: 25 GB/s"',
        ),
        (
            status(A100, [25]),
            'line 9: links of GPU0: expected at least 2, as in the matrix, found "1". Save the whole',
        ),
        (
            heading(0, A100) + "Link 0: 25 GB/s\nLink 1: 25 GB/s\n" + heading(0, A100) + "Link 0: 25 GB/s\n",
            'line 11: expected the same links as at file a.txt: line 8, found "others". Leave out outputs of other',
        ),
        (
            status(A100, [25, 25]) + status(A100, [25, 0], uuid=False),
            "line 13: expected the same links as at file a.txt: line 9",
        ),
        (
            capabilities(A100, {0: True}) + capabilities(A100, {0: False}),
            'expected the same capabilities as at file a.txt: line 9, found "others of Link 0"',
        ),
        (
            heading(0, A100) + "Link 0, P2P is supported: true\nLink 0, P2P is supported: false\n",
            'line 10: expected each capability of a link once, found "Link 0, P2P is supported: false, and the op',
        ),
        (
            heading(0, A100) + "Link 0, P2P is supp\n",
            "line 9: expected a capability such as Link 0, P2P is supported: true, found .Link 0, P2P is supp",
        ),
        ("Link 3, P2P is supported: maybe\n", "line 8: expected a capability such as Link 3, P2P is supported: true"),
        ("Link 72, P2P is supported: true\n", 'line 8: expected at most 72 links of a GPU, found "Link 72"'),
        (heading(0, A100).replace("GPU-00)", "GP") + "Link 0: 25 GB/s\n", r"line 8: expected GPU 0: NAME \(UUID"),
    ],
)
def test_links_that_are_not_in_order_are_refused(printed: str, message: str) -> None:
    assert TWO.count("\n") == 8
    with pytest.raises(FormatError, match=message):
        read(TWO.removesuffix("$ next\n") + printed)


# --- Any output, and any damage to one. ---


@st.composite
def drawn(draw: st.DrawFn) -> tuple[str, dict[int, tuple[float, ...] | None], dict[int, dict[int, bool]]]:
    """Outputs of both commands as some driver or copy may have them, and what they say of each GPU."""
    rates: dict[int, tuple[float, ...] | None] = {}
    p2p: dict[int, dict[int, bool]] = {}
    gap, end = draw(st.sampled_from(["\t ", "         ", " ", ""])), draw(st.sampled_from(["\n", "\r\n", "\n\n"]))
    uuid = draw(st.booleans())
    blocks: list[str] = []
    rate = st.sampled_from([0.0, 14.062, 25.0, 25.781, 26.562, 53.125])
    for index in draw(st.lists(st.integers(0, 5), unique=True, max_size=4)):
        head = heading(index, "NVIDIA H800", uuid=uuid).rstrip()
        kind = draw(st.sampled_from(["status", "both", "capabilities", "inactive"]))
        count = draw(st.integers(1, 20))
        rates[index], p2p[index] = None, {}
        if kind == "inactive":
            rates[index] = ()
            blocks.append(end.join([head, draw(st.sampled_from([INACTIVE.strip(), INACTIVE.strip().lower()]))]))
        if kind in ("status", "both"):
            told = rates[index] = tuple(draw(st.lists(rate, min_size=count, max_size=count)))
            lines = [f"{gap}Link {n}: {f'{each:g} GB/s' if each else '<inactive>'}" for n, each in enumerate(told)]
            blocks.append(end.join([head, *lines]))
        if kind in ("capabilities", "both"):
            p2p[index] = draw(st.dictionaries(st.integers(0, 19), st.booleans(), min_size=1, max_size=count))
            lines = [
                f"{gap}Link {n}, {word}: {str(can if place == 0 else place % 2 == 0).lower()}"
                for n, can in p2p[index].items()
                for place, word in enumerate(CAPABILITIES)
            ]
            blocks.append(end.join([head, *lines]))
    between = draw(st.sampled_from(["$ nvidia-smi nvlink -s", "some words", "GPU 7: NVIDIA H800"]))
    return end.join([piece for block in draw(st.permutations(blocks)) for piece in (between, block)]), rates, p2p


@given(drawn())
def test_any_output_is_read_link_by_link(
    made: tuple[str, dict[int, tuple[float, ...] | None], dict[int, dict[int, bool]]],
) -> None:
    text, rates, p2p = made
    found = parse_nvlinks(lines_of(text, source="a text"))
    assert {each.gpu.index: each.rates for each in found} == rates
    assert {each.gpu.index: dict(each.p2p) for each in found} == p2p
    assert {each.gpu.name for each in found} <= {"NVIDIA H800"}
    for each in found:
        assert each.up is None or 0 <= each.up <= max(len(each.rates or ()), len(each.p2p))


@given(
    counts=st.lists(st.integers(0, 8), min_size=3, max_size=3),
    rates=st.lists(st.lists(st.sampled_from([0.0, 26.562]), max_size=9), min_size=3, max_size=3),
    p2p=st.lists(st.dictionaries(st.integers(0, 9), st.booleans()), min_size=3, max_size=3),
)
def test_no_output_adds_links_to_a_matrix(
    counts: list[int], rates: list[list[float]], p2p: list[dict[int, bool]]
) -> None:
    words = [f"NV{count}" if count else "PIX" for count in counts]
    plain = matrix(" ".join(words[:2]), words[2]) + listing(3, H800)
    with suppress(FormatError):
        found = read(plain + status(H800, *rates) + capabilities(H800, *p2p))
        for gpu in found.gpus:
            assert gpu.active_links <= sum(link.count for link in gpu.nvlinks) <= sum(counts)


@given(st.data())
def test_a_damaged_text_is_read_or_refused_but_never_breaks_the_reader(data: st.DataObject) -> None:
    whole = matrix("NV8 NV8", "NV8") + listing(3, H800) + status(H800, *[[26.562] * 8] * 3)
    whole += capabilities(H800, *[dict.fromkeys(range(8), True)] * 3)
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, min(len(whole), start + 80)))
    damaged = whole[:start] + data.draw(st.text(max_size=5)) + whole[end:]
    with suppress(FormatError):
        assert read(damaged).gpus
