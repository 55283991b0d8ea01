"""The picture of a node: it is well formed, it shows everything, and nothing runs into anything else."""

import re
from dataclasses import dataclass, replace
from itertools import combinations
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings

from tests.hardware.topology.generated import topologies
from tests.hardware.topology.machines import (
    MACHINES,
    a100_pcie_bridged,
    bent,
    dgx1_v100,
    gb200_tray,
    h20,
    hgx_h100,
    l40s,
    to_switch,
    uuid,
    with_switch_links,
    without,
)
from webhook.hardware.topology.model import Gpu, LostGpu, MigMode, Nic, NodeTopology, NvLink, PciSwitch
from webhook.hardware.topology.sets import assess
from webhook.insight.drawings.svg import draw

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = """</text></svg><script>alert("x")</script>&<!--]]>'" onload="alert(1)"""


def many(count: int, **changes: object) -> NodeTopology:
    """GPUs on switches, eight for each NUMA node."""
    gpus = tuple(
        Gpu(index=index, uuid=uuid(index), name="Tesla V100-SXM3-32GB", numa_node=index // 8, nvlinks=to_switch(6))
        for index in range(count)
    )
    return replace(NodeTopology(node=f"{count}-gpus", source="nvml", gpus=gpus), **changes)  # type: ignore[arg-type]


def mesh(count: int) -> NodeTopology:
    """Each GPU has links of its own to each other one, and nobody knows NUMA nodes."""
    gpus = tuple(
        Gpu(
            index=index,
            name="GPU",
            nvlinks=tuple(
                NvLink(target=f"GPU{peer}", count=1 + (index + peer) % 3, active=1 + (index + peer) % 3)
                for peer in range(count)
                if peer != index
            ),
        )
        for index in range(count)
    )
    return NodeTopology(node=f"mesh-{count}", source="nvml", gpus=gpus)


def from_words() -> NodeTopology:
    """Four GPUs below two switches below a third, of which only the matrix tells, and NICs beside them."""
    rows = ["X PIX PXB PXB", "PIX X PXB PXB", "PXB PXB X PIX", "PXB PXB PIX X"]
    gpus = tuple(
        Gpu(
            index=index,
            name="NVIDIA A40",
            numa_node=0,
            distance=tuple((f"GPU{peer}", word) for peer, word in enumerate(row.split()) if word != "X"),
        )
        for index, row in enumerate(rows)
    )
    nics = tuple(Nic(name=f"mlx5_{number}", numa_node=number % 2) for number in range(7))
    return NodeTopology(node="from-words", source="nvidia-smi", gpus=gpus, nics=nics)


def nested() -> NodeTopology:
    switches = (
        PciSwitch(pci_bus_id="0000:01:00.0", root="0000:00"),
        PciSwitch(pci_bus_id="0000:02:00.0", root="0000:00", parent="0000:01:00.0"),
    )
    above = ["0000:02:00.0", "0000:01:00.0", ""]
    gpus = tuple(Gpu(index=index, name="L4", root="0000:00", parent=parent) for index, parent in enumerate(above))
    return NodeTopology(node="nested", source="nvml", gpus=gpus, switches=switches)


def below_one_switch(count: int) -> NodeTopology:
    switch = PciSwitch(pci_bus_id="0000:01:00.0", root="0000:00")
    gpus = tuple(Gpu(index=index, name="L4", root="0000:00", parent=switch.pci_bus_id) for index in range(count))
    return NodeTopology(node="one-switch", source="nvml", gpus=gpus, switches=(switch,))


def unbalanced() -> NodeTopology:
    gpus = tuple(Gpu(index=index, name="L4", numa_node=min(index, 1)) for index in range(4))
    return NodeTopology(node="unbalanced", source="nvml", gpus=gpus)


def long_names() -> NodeTopology:
    name = "NVIDIA RTX 6000 Ada Generation, 量子計算用の非常に長い名前のGPU製品"
    gpus = tuple(Gpu(index=index, name=name * 3, numa_node=0) for index in range(3))
    nics = (Nic(name="a-very-long-name-of-a-network-interface", numa_node=0, link_layer="InfiniBand", speed_gbps=400),)
    return NodeTopology(node="n" * 253, source="nvml", problem="It is long. " * 40, gpus=gpus, nics=nics)


def all_lost() -> NodeTopology:
    gone = tuple(LostGpu(index=index, problem="GPU is lost", pci_bus_id=f"0000:{index:02x}:00.0") for index in range(9))
    return NodeTopology(node="all-lost", source="nvml", lost=gone)


ODD = [
    NodeTopology(node="empty", source="nvml", problem="There is no driver."),
    many(1),
    many(2),
    many(3),
    many(8),
    many(16),
    many(5, nics=tuple(Nic(name=f"mlx5_{number}", numa_node=number % 3) for number in range(11))),
    mesh(2),
    mesh(3),
    mesh(8),
    from_words(),
    nested(),
    below_one_switch(9),
    unbalanced(),
    long_names(),
    all_lost(),
    replace(without(with_switch_links(h20(), 2, 16), 5), node="ailing"),
    replace(bent(hgx_h100(), 2, mig_mode=MigMode.ENABLED), node="mig"),
]
EVERY = [*MACHINES.values(), *ODD]


def drawn(topology: NodeTopology, *gpus: int) -> ElementTree.Element:
    return ElementTree.fromstring(draw(topology, assess(topology, gpus) if gpus else None))  # noqa: S314 - our own


def texts(root: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in root.iter(f"{SVG}text")]


def classes(root: ElementTree.Element) -> set[str]:
    return {name for element in root.iter() for name in element.get("class", "").split()}


def cards(root: ElementTree.Element) -> list[str]:
    return [element.get("data-gpu", "") for element in root.iter(f"{SVG}g") if "data-gpu" in element.attrib]


@dataclass(frozen=True)
class Extent:
    """What an element covers."""

    what: str
    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: "Extent") -> bool:
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )

    def contains(self, other: "Extent") -> bool:
        return self.left <= other.left and other.right <= self.right and self.top <= other.top <= self.bottom


def sizes(root: ElementTree.Element) -> dict[str, float]:
    """Font sizes by class."""
    style = next(root.iter(f"{SVG}style")).text or ""
    rules = re.findall(r"\.topology (?:text)?\.?([\w-]+) \{([^}]*)\}", style)
    return {name: float(size[1]) for name, rule in rules if (size := re.search(r"font-size: ([\d.]+)px", rule))}


def text_extents(root: ElementTree.Element) -> list[Extent]:
    """Texts by the widths of common fonts: about half of the size for each character, all of it for wide ones."""
    known, found = sizes(root), []
    for element in root.iter(f"{SVG}text"):
        name, words = element.get("class", ""), element.text or ""
        size = known.get(name, 12.0)
        width = sum(size if ord(character) > 0x2E80 else size * 0.54 for character in words)
        x, y = float(element.get("x", 0)), float(element.get("y", 0))
        if name in ("cpu-list", "gpu-memory"):
            x -= width
        elif name in ("switch-name", "nvswitch-name", "badge-number", "nothing-name"):
            x -= width / 2
        found.append(Extent(words, x, y - size * 0.75, x + width, y + size * 0.2))
    return found


def boxes(root: ElementTree.Element, *names: str) -> list[Extent]:
    found = []
    for element in root.iter(f"{SVG}rect"):
        if set(element.get("class", "").split()) & set(names):
            x, y = float(element.get("x", 0)), float(element.get("y", 0))
            width, height = float(element.get("width", 0)), float(element.get("height", 0))
            found.append(Extent(element.get("class", ""), x, y, x + width, y + height))
    return found


def overlapping(extents: list[Extent]) -> list[tuple[Extent, Extent]]:
    return [pair for pair in combinations(extents, 2) if pair[0].overlaps(pair[1])]


@pytest.mark.parametrize("topology", EVERY, ids=lambda topology: topology.node[:20])
def test_each_gpu_has_a_card_and_each_nic_its_name(topology: NodeTopology) -> None:
    root = drawn(topology)
    assert root.tag == f"{SVG}svg"
    indices = [str(gpu.index) for gpu in topology.gpus] + [str(gpu.index) for gpu in topology.lost]
    assert sorted(cards(root), key=int) == sorted(indices, key=int)
    assert {f"GPU{index}" for index in indices} <= set(texts(root))
    for nic in topology.nics:
        assert nic.name in texts(root) or len(nic.name) > 16


@pytest.mark.parametrize("topology", EVERY, ids=lambda topology: topology.node[:20])
def test_no_text_runs_into_another_or_out_of_the_picture(topology: NodeTopology) -> None:
    everything = [gpu.index for gpu in topology.gpus]
    for root in (drawn(topology), drawn(topology, *everything)):
        extents = text_extents(root)
        assert overlapping(extents) == []
        paper = boxes(root, "paper")[0]
        assert [extent for extent in extents if not paper.contains(extent)] == []


@pytest.mark.parametrize("topology", EVERY, ids=lambda topology: topology.node[:20])
def test_no_card_covers_another(topology: NodeTopology) -> None:
    root = drawn(topology)
    legend = next(element for element in root.iter(f"{SVG}g") if element.get("class") == "key")
    root.remove(legend)
    assert overlapping(boxes(root, "gpu", "lost", "nic", "switch", "cpu")) == []
    assert overlapping(boxes(root, "numa")) == []
    paper = boxes(root, "paper")[0]
    assert [box for box in boxes(root, "numa", "lost") if not paper.contains(box)] == []


def test_the_picture_says_what_it_shows_to_those_who_do_not_see_it() -> None:
    root = drawn(dgx1_v100(), 0, 3)
    assert root.get("role") == "img"
    ids = root.get("aria-labelledby", "").split()
    title, description = (next(element for element in root if element.get("id") == one) for one in ids)
    assert title.text == "Topology of dgx1-v100"
    assert description.text == (
        "8 x Tesla V100-SXM2-32GB, driver 570.133.20, CUDA 12.8; the GPUs are in 2 NUMA nodes. "
        "Chosen: GPU0, GPU3; NVLink; weakest pair 40.0 GB/s (GPU0-GPU3, NV2); mean 40.0 GB/s; "
        "ring 40.0 GB/s (0-3-0), estimated; all-reduce about 40.0 GB/s; NUMA 0"
    )


def test_nothing_is_said_of_numa_nodes_that_nobody_knows() -> None:
    two = (Gpu(index=0, name="NVIDIA L40S"), Gpu(index=1, name="NVIDIA L40S"))
    root = drawn(NodeTopology(node="n", source="nvidia-smi", gpus=two))
    assert root.findtext(f"{SVG}desc") == "2 x NVIDIA L40S."


def test_it_stands_on_paper_of_its_own() -> None:
    paper = boxes(drawn(h20()), "paper")
    assert len(paper) == 1
    assert "fill: #ffffff" in draw(h20())


def test_each_nvlink_to_a_switch_is_a_line() -> None:
    root = drawn(h20())
    bundles = {edge.get("data-ends"): edge for edge in root.iter(f"{SVG}g") if "nvswitch" in edge.get("data-ends", "")}
    assert bundles.keys() == {f"{index} nvswitch" for index in range(8)}
    for edge in bundles.values():
        (path,) = edge.iter(f"{SVG}path")
        assert path.get("d", "").count("M") == 18
    assert "4 NVSwitches, 370.8 GB/s per direction between two GPUs" in texts(root)


def test_links_that_are_down_are_lines_of_their_own() -> None:
    root = drawn(with_switch_links(h20(), 2, 16))
    edge = next(edge for edge in root.iter(f"{SVG}g") if edge.get("data-ends") == "2 nvswitch")
    up, down = edge.iter(f"{SVG}path")
    assert (up.get("d", "").count("M"), down.get("d", "").count("M")) == (16, 2)
    assert down.get("class") == "bundle down"
    assert "16/18 links" in texts(root)
    assert "NVLink that is down" in texts(root)
    assert "4 NVSwitches, 329.6 to 370.8 GB/s per direction between two GPUs" in texts(root)


def test_each_pair_with_links_of_its_own_has_a_curve_as_wide_as_its_links() -> None:
    root = drawn(dgx1_v100())
    edges = {
        edge.get("data-ends"): next(edge.iter(f"{SVG}path")) for edge in root.iter(f"{SVG}g") if edge.get("data-ends")
    }
    double = {"0 3", "0 4", "1 2", "1 5", "2 3", "4 7", "5 6", "6 7"}
    single = {"0 1", "0 2", "1 3", "2 6", "3 7", "4 5", "4 6", "5 7"}
    assert edges.keys() == double | single
    width = {ends: float(path.get("stroke-width", 0)) for ends, path in edges.items()}
    assert {width[ends] for ends in double} == {5.2}
    assert {width[ends] for ends in single} == {2.6}
    assert len({edges[ends].get("stroke") for ends in double | single}) == 2
    assert {"2 NVLinks, 40.0 GB/s", "1 NVLink, 20.0 GB/s"} <= set(texts(root))


@pytest.mark.parametrize(("teller", "peer"), [(0, "GPU3"), (3, "GPU0")])
def test_a_direct_link_that_one_end_calls_partly_down_is_dashed(teller: int, peer: str) -> None:
    machine = dgx1_v100()
    links = tuple(replace(link, active=1) if link.target == peer else link for link in machine.gpus[teller].nvlinks)
    root = drawn(bent(machine, teller, nvlinks=links))
    edge = next(edge for edge in root.iter(f"{SVG}g") if edge.get("data-ends") == "0 3")
    assert next(edge.iter(f"{SVG}path")).get("class") == "nvlink down"
    assert next(edge.iter(f"{SVG}title")).text == "GPU0 - GPU3: 2 NVLinks, 1 of them up"


def test_a_lost_gpu_is_crossed_out() -> None:
    root = drawn(without(h20(), 5))
    card = next(element for element in root.iter(f"{SVG}g") if element.get("data-gpu") == "5")
    assert {"lost", "cross"} <= classes(card)
    assert {"GPU5", "lost", "GPU is lost", "0000:ae:00.0"} == set(texts(card))
    assert "GPU5 cannot be reached: GPU is lost" in texts(root)


def test_a_chosen_set_is_marked_and_its_ring_numbered() -> None:
    root = drawn(dgx1_v100(), *range(8))
    assert not any("aside" in element.get("class", "") for element in root.iter())
    places = {}
    for card in root.iter(f"{SVG}g"):
        if "data-gpu" in card.attrib:
            assert "chosen" in classes(card)
            places[card.get("data-gpu")] = next(one.text for one in card.iter() if one.get("class") == "badge-number")
    ring = assess(dgx1_v100(), range(8)).ring
    assert places == {str(index): str(place) for place, index in enumerate(ring, 1)}
    assert sum("halo" in element.get("class", "") for element in root.iter(f"{SVG}path")) == 9  # one is in the legend


def test_what_is_not_chosen_steps_back() -> None:
    root = drawn(h20(), 0, 3)
    aside = {card.get("data-gpu") for card in root.iter(f"{SVG}g") if card.get("class") == "card aside"}
    assert aside == {"1", "2", "4", "5", "6", "7"}
    assert sum(element.get("class") == "hop" for element in root.iter(f"{SVG}g")) == 1


def test_hops_of_a_ring_without_nvlink_are_drawn_too() -> None:
    root = drawn(l40s(), 0, 2, 4)
    assert sum(element.get("class") == "hop" for element in root.iter(f"{SVG}g")) == 3


def test_a_single_chosen_gpu_has_no_ring() -> None:
    root = drawn(h20(), 4)
    assert "badge" not in classes(root)
    assert "chosen GPU" in texts(root)


def test_a_set_of_bridged_pairs_shows_bridges_and_the_rest_of_the_ring() -> None:
    root = drawn(a100_pcie_bridged(), 0, 1, 2, 3)
    assert sum("halo" in element.get("class", "") for element in root.iter(f"{SVG}path")) == 3  # one in the legend
    assert sum(element.get("class") == "hop" for element in root.iter(f"{SVG}g")) == 2


def test_the_link_between_sockets_has_its_bandwidth_in_the_legend() -> None:
    assert "between NUMA nodes (SYS), 22 GB/s" in texts(drawn(l40s()))
    assert not any("SYS" in words for words in texts(drawn(many(8))))


def test_c2c_is_drawn_in_the_place_of_pcie() -> None:
    root = drawn(gb200_tray())
    assert sum(element.get("class") == "c2c" for element in root.iter(f"{SVG}path")) == 5  # one in the legend
    assert "NVLink-C2C to the CPU" in texts(root)


def test_in_mig_mode_the_card_says_so_and_no_link_is_drawn() -> None:
    root = drawn(bent(hgx_h100(), 2, mig_mode=MigMode.ENABLED))
    assert "MIG mode" in texts(root)
    assert "2 nvswitch" not in {edge.get("data-ends") for edge in root.iter(f"{SVG}g")}


def test_switches_that_only_words_tell_of_are_named_by_their_word() -> None:
    found = texts(drawn(from_words()))
    assert found.count("PCIe switch (PIX)") == 2
    assert found.count("PCIe switches (PXB)") == 1


def test_a_nic_that_only_words_place_stands_with_the_gpus_of_its_numa_node() -> None:
    near = Nic(name="near", distance=(("GPU0", "NODE"), ("GPU4", "SYS")))
    far = Nic(name="far", distance=(("GPU0", "SYS"), ("GPU4", "PIX")))
    topology = replace(many(16), nics=(near, far))
    gpus = tuple(replace(gpu, numa_node=gpu.index // 4) for gpu in topology.gpus[:8])
    root = drawn(replace(topology, gpus=gpus))
    panels = boxes(root, "numa")
    names = {extent.what: extent for extent in text_extents(root)}
    assert [panel.contains(names["near"]) for panel in panels] == [True, False]
    assert [panel.contains(names["far"]) for panel in panels] == [False, True]


def test_no_gpu_at_all_is_said_with_the_reason() -> None:
    found = texts(drawn(NodeTopology(node="n", source="nvml", problem="There is no driver.")))
    assert "no GPU" in found
    assert "There is no driver." in found


def test_hostile_names_stay_text() -> None:
    gpus = (
        Gpu(index=0, name=HOSTILE, uuid=HOSTILE, cpu_affinity=HOSTILE, numa_node=0),
        Gpu(index=1, name="\x1b[2J\x00"),
    )
    topology = NodeTopology(
        node=HOSTILE,
        source=HOSTILE,
        driver_version=HOSTILE,
        cuda_version=HOSTILE,
        problem=HOSTILE,
        gpus=gpus,
        lost=(LostGpu(index=2, problem=HOSTILE, uuid=HOSTILE),),
        nics=(Nic(name=HOSTILE, link_layer=HOSTILE, numa_node=0),),
    )
    text = draw(topology, assess(topology, [0, 1]))
    assert "<script" not in text
    assert "<!--" not in text
    root = ElementTree.fromstring(text)  # noqa: S314 - our own
    known = {"svg", "title", "desc", "style", "g", "rect", "text", "path", "circle"}
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= known
    assert not any(name.startswith("on") or "href" in name for element in root.iter() for name in element.attrib)
    assert HOSTILE in next(root.iter(f"{SVG}title")).text  # type: ignore[operator]


def test_the_picture_is_ascii_whatever_the_names_are() -> None:
    assert draw(long_names()).isascii()


@settings(max_examples=40)
@given(topologies())
def test_any_topology_can_be_drawn(topology: NodeTopology) -> None:
    root = drawn(topology, *[gpu.index for gpu in topology.gpus])
    assert len(cards(root)) == len(topology.gpus) + len(topology.lost)
