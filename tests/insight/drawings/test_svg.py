"""The picture of a node: it is well formed and shows each GPU and link, and nothing runs into anything else."""

from dataclasses import dataclass, replace
from itertools import combinations
from xml.etree import ElementTree

import pytest
from hypothesis import given

from tests.hardware.topology.generated import topologies
from tests.hardware.topology.machines import (
    MACHINES,
    bent,
    dgx1_v100,
    h20,
    hgx_h100,
    to_switch,
    uuid,
    with_switch_links,
    without,
)
from webhook.hardware.topology.model import Gpu, LostGpu, MigMode, Nic, NodeTopology, NvLink
from webhook.hardware.topology.sets import assess
from webhook.insight.drawings.svg import draw

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = """</text></svg><script>alert("x")</script>&<!--]]>'" onload="alert(1)"""


def many(count: int) -> NodeTopology:
    """GPUs on switches, eight for each NUMA node."""
    gpus = tuple(
        Gpu(index=index, uuid=uuid(index), name="Tesla V100-SXM3-32GB", numa_node=index // 8, nvlinks=to_switch(6))
        for index in range(count)
    )
    return NodeTopology(node=f"{count}-gpus", source="nvml", gpus=gpus)


def mesh(count: int) -> NodeTopology:
    """Each GPU has links of its own to each other one."""
    gpus = tuple(
        Gpu(
            index=index,
            name="GPU",
            nvlinks=tuple(NvLink(target=f"GPU{peer}", count=2, active=2) for peer in range(count) if peer != index),
        )
        for index in range(count)
    )
    return NodeTopology(node=f"mesh-{count}", source="nvml", gpus=gpus)


def long_names() -> NodeTopology:
    name = "NVIDIA RTX 6000 Ada Generation, 量子計算用の非常に長い名前のGPU製品"
    gpus = tuple(Gpu(index=index, name=name * 3, numa_node=0) for index in range(3))
    return NodeTopology(node="n" * 253, source="nvml", problem="It is long. " * 40, gpus=gpus)


def all_lost() -> NodeTopology:
    gone = tuple(LostGpu(index=index, problem="GPU is lost", pci_bus_id=f"0000:{index:02x}:00.0") for index in range(9))
    return NodeTopology(node="all-lost", source="nvml", lost=gone)


EVERY = [
    *MACHINES.values(),
    NodeTopology(node="empty", source="nvml", problem="There is no driver."),
    *map(many, (1, 2, 3, 16)),
    *map(mesh, (2, 3, 8)),
    long_names(),
    all_lost(),
    replace(without(with_switch_links(h20(), 2, 16), 5), node="ailing"),
    replace(bent(hgx_h100(), 2, mig_mode=MigMode.ENABLED), node="mig"),
]


def drawn(topology: NodeTopology, *gpus: int) -> ElementTree.Element:
    return ElementTree.fromstring(draw(topology, assess(topology, gpus) if gpus else None))  # noqa: S314 - our own


def texts(root: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in root.iter(f"{SVG}text")]


def titles(root: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in root.iter(f"{SVG}title")]


def cards(root: ElementTree.Element) -> dict[str, ElementTree.Element]:
    """The group of each GPU, by its index."""
    return {found: element for element in root.iter(f"{SVG}g") if (found := element.get("data-gpu"))}


def strokes(root: ElementTree.Element, class_: str) -> list[ElementTree.Element]:
    return [element for element in root.iter(f"{SVG}path") if class_ in element.get("class", "").split()]


@dataclass(frozen=True)
class Extent:
    """What an element covers."""

    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: "Extent") -> bool:
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )


def extent(card: ElementTree.Element) -> Extent:
    box = next(card.iter(f"{SVG}rect"))
    x, y, width, height = (float(box.get(name, 0)) for name in ("x", "y", "width", "height"))
    return Extent(x, y, x + width, y + height)


@pytest.mark.parametrize("topology", EVERY, ids=lambda topology: topology.node[:20])
def test_each_gpu_has_a_card_of_its_own_within_the_paper(topology: NodeTopology) -> None:
    root = drawn(topology)
    assert root.tag == f"{SVG}svg"
    indices = [str(gpu.index) for gpu in topology.gpus] + [str(gpu.index) for gpu in topology.lost]
    assert cards(root).keys() == set(indices)
    assert {f"GPU{index}" for index in indices} <= set(texts(root))
    extents = [extent(card) for card in cards(root).values()]
    assert not any(one.overlaps(other) for one, other in combinations(extents, 2))
    scale = 3
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    assert all(found.right * scale < width and found.bottom * scale < height for found in extents)


@pytest.mark.parametrize("topology", EVERY, ids=lambda topology: topology.node[:20])
def test_lines_of_text_are_not_wider_than_the_picture(topology: NodeTopology) -> None:
    everything = [gpu.index for gpu in topology.gpus]
    for root in (drawn(topology), drawn(topology, *everything)):
        lines = [element for element in root if element.tag == f"{SVG}text"]
        sizes = {"title": 22, "subtitle": 13, "problem": 13, "set": 13, "key": 12}
        for line in lines:
            size = sizes[line.get("class", "")]
            wide = sum(size if ord(character) > 0x2E80 else size * 0.54 for character in line.text or "")
            assert float(line.get("x", 0)) + wide <= float(root.get("width", 0)), line.text
        depths = [float(line.get("y", 0)) for line in lines]
        assert depths == sorted(set(depths))


def test_the_picture_says_what_it_shows_to_those_who_do_not_see_it() -> None:
    root = drawn(dgx1_v100(), 0, 3)
    assert root.get("role") == "img"
    ids = root.get("aria-labelledby", "").split()
    title, description = (next(element for element in root if element.get("id") == one) for one in ids)
    assert title.text == "Topology of dgx1-v100"
    assert (description.text or "").startswith(
        "8 x Tesla V100-SXM2-32GB, driver 570.133.20, CUDA 12.8. Chosen: GPU0, GPU3; NVLink; weakest pair 40.0 GB/s"
    )


def test_the_links_of_each_gpu_to_the_switches_are_dashes_and_those_that_are_down_have_a_tooltip() -> None:
    root = drawn(h20())
    assert (len(strokes(root, "up")), strokes(root, "down")) == (8, [])
    assert "bar: NVSwitches | green: NVLinks" in texts(root)
    sick = drawn(with_switch_links(h20(), 2, 16))
    assert (len(strokes(sick, "up")), len(strokes(sick, "down"))) == (8, 1)
    assert "GPU2 - the switches: 16 of 18 NVLinks up" in titles(sick)


def test_each_pair_with_links_of_its_own_has_a_curve_by_their_number() -> None:
    root = drawn(dgx1_v100())
    assert (len(strokes(root, "most")), len(strokes(root, "more")), strokes(root, "lost")) == (8, 8, [])


@pytest.mark.parametrize(("teller", "peer"), [(0, "GPU3"), (3, "GPU0")])
def test_a_direct_link_that_one_end_calls_partly_down_is_marked(teller: int, peer: str) -> None:
    machine = dgx1_v100()
    links = tuple(replace(link, active=1) if link.target == peer else link for link in machine.gpus[teller].nvlinks)
    root = drawn(bent(machine, teller, nvlinks=links))
    assert len(strokes(root, "lost")) == 1
    assert "GPU0 - GPU3: 1 of 2 NVLinks up" in titles(root)


def test_a_lost_gpu_and_one_with_fewer_links_are_red() -> None:
    found = cards(drawn(without(with_switch_links(h20(), 2, 16), 5)))
    classes = {index: next(card.iter(f"{SVG}rect")).get("class") for index, card in found.items()}
    assert (classes["5"], classes["2"], classes["0"]) == ("lost", "bad", "gpu")
    assert titles(found["5"]) == ["GPU5: GPU is lost"]


def test_a_chosen_set_is_marked_with_its_places_in_the_ring_and_the_rest_steps_back() -> None:
    root = drawn(dgx1_v100(), 0, 1, 2, 3)
    marks = {
        index: next((one.text for one in card if one.get("class") == "mark"), "") for index, card in cards(root).items()
    }
    ring = assess(dgx1_v100(), [0, 1, 2, 3]).ring
    assert marks == {str(index): "" for index in range(4, 8)} | {str(index): str(n) for n, index in enumerate(ring, 1)}
    assert {index for index, card in cards(root).items() if card.get("class") == "card aside"} == {"4", "5", "6", "7"}
    single = drawn(h20(), 4)
    assert not any(element.get("class") == "mark" for element in single.iter())
    assert any("violet: chosen GPUs" in text for text in texts(single))


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


@given(topologies())
def test_any_topology_can_be_drawn(topology: NodeTopology) -> None:
    root = drawn(topology, *[gpu.index for gpu in topology.gpus])
    assert len(cards(root)) == len(topology.gpus) + len(topology.lost)
