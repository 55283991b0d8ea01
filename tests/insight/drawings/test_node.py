"""The drawing of a node: it is well formed and shows each GPU and link, and nothing runs into anything else."""

from dataclasses import replace
from itertools import combinations
from xml.etree import ElementTree

import pytest
from hypothesis import given

from tests.hardware.topology.generated import topologies
from tests.hardware.topology.machines import (
    MACHINES,
    a100_pcie_bridged,
    bent,
    dgx1_v100,
    h20,
    to_switch,
    with_switch_links,
    without,
)
from webhook.hardware.topology.model import Gpu, LostGpu, MigMode, Nic, NodeTopology
from webhook.hardware.topology.sets import assess
from webhook.insight.drawings.layout import Link, lay_out, nvlinks
from webhook.insight.drawings.node import draw

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = """</text></svg><script>alert("x")</script>&<!--]]>'" onload="alert(1)"""


def many(count: int) -> NodeTopology:
    """GPUs on switches."""
    gpus = tuple(Gpu(index=index, name="Tesla V100-SXM3-32GB", nvlinks=to_switch(6)) for index in range(count))
    return NodeTopology(node=f"{count}-gpus", source="nvml", gpus=gpus)


def ill() -> NodeTopology:
    """A GPU with links down and a lost one."""
    return replace(without(with_switch_links(h20(), 2, 16), 5), node="ill")


def drawn(topology: NodeTopology, *gpus: int) -> ElementTree.Element:
    return ElementTree.fromstring(draw(topology, assess(topology, gpus) if gpus else None))  # noqa: S314 - our own


def texts(root: ElementTree.Element, tag: str = "text") -> str:
    return "\n".join(element.text or "" for element in root.iter(f"{SVG}{tag}"))


def gpus_of(root: ElementTree.Element) -> dict[str, ElementTree.Element]:
    """The group of each GPU, by its index."""
    return {found: element for element in root.iter(f"{SVG}g") if (found := element.get("data-gpu"))}


def classes(root: ElementTree.Element, tag: str) -> list[str]:
    return [class_ for element in root.iter(f"{SVG}{tag}") for class_ in element.get("class", "").split()]


@pytest.mark.parametrize(
    "topology", [*MACHINES.values(), *map(many, (1, 2, 3, 16)), ill()], ids=lambda topology: topology.node
)
def test_each_gpu_has_a_box_of_its_own_within_the_drawing(topology: NodeTopology) -> None:
    root = drawn(topology)
    indices = sorted([gpu.index for gpu in topology.gpus] + [gpu.index for gpu in topology.lost])
    assert gpus_of(root).keys() == set(map(str, indices))
    layout = lay_out(indices, list(nvlinks(topology)))
    for one, other in combinations(layout.boxes.values(), 2):
        assert abs(one.x - other.x) >= one.width or abs(one.y - other.y) >= one.height
    for box in layout.boxes.values():
        assert 0 <= box.x <= layout.width - box.width
        assert 0 <= box.y <= layout.height - box.height


def test_it_says_what_it_shows_to_those_who_do_not_see_it() -> None:
    root = drawn(dgx1_v100(), 0, 3)
    assert root.get("role") == "img"
    ids = root.get("aria-labelledby", "").split()
    title, description = (next(element for element in root if element.get("id") == one) for one in ids)
    assert title.text == "Topology of dgx1-v100"
    assert "8 x Tesla V100-SXM2-32GB, driver 570.133.20, CUDA 12.8" in (description.text or "")
    assert "Chosen: GPU0, GPU3; NVLink; weakest pair 40.0 GB/s" in (description.text or "")


def test_links_to_switches_are_dashes_and_those_that_are_down_have_a_tooltip() -> None:
    well = drawn(h20())
    assert (classes(well, "path").count("up"), "down" in classes(well, "path")) == (8, False)
    assert "green: NVLinks; bar: NVSwitches" in texts(well)
    sick = drawn(with_switch_links(h20(), 2, 16))
    assert classes(sick, "path").count("down") == 1
    assert "GPU2 - the switches: 16 of 18 NVLinks up" in texts(sick, "title")
    assert "red lines: NVLinks that are down" in texts(sick)


@pytest.mark.parametrize(("active", "crosses"), [(1, 0), (0, 1)])
def test_a_link_that_lost_something_is_red_and_crossed_out_if_nothing_is_left(active: int, crosses: int) -> None:
    layout = lay_out([0, 1], [Link(one=0, other=1, count=2, active=active)])
    assert [stroke.class_ for stroke in layout.strokes] == ["link more lost", *["cross"] * crosses]
    assert layout.strokes[0].title == f"GPU0 - GPU1: {active} of 2 NVLinks up"


def test_a_gpu_in_mig_mode_has_no_links() -> None:
    whole = list(nvlinks(a100_pcie_bridged()))
    sliced = list(nvlinks(bent(a100_pcie_bridged(), 0, mig_mode=MigMode.ENABLED)))
    assert any(0 in (link.one, link.other) for link in whole)
    assert sliced == [link for link in whole if 0 not in (link.one, link.other)]


def test_a_chosen_set_is_marked_with_its_places_in_the_ring_and_the_rest_steps_back() -> None:
    root = drawn(dgx1_v100(), 0, 1, 2, 3)
    ring = assess(dgx1_v100(), [0, 1, 2, 3]).ring
    marks = {int(index): texts(gpu).split()[1:] for index, gpu in gpus_of(root).items()}
    assert marks == {index: [] for index in range(4, 8)} | {index: [str(n)] for n, index in enumerate(ring, 1)}
    aside = {index for index, gpu in gpus_of(root).items() if "aside" in (gpu.get("class") or "")}
    assert aside == set("4567")
    assert "violet: chosen GPUs" in texts(drawn(h20(), 4))


def test_no_gpu_at_all_is_said_with_the_reason() -> None:
    found = texts(drawn(NodeTopology(node="n", source="nvml", problem="There is no driver.")))
    assert "no GPU" in found
    assert "There is no driver." in found
    assert "no NVLink is reported" in found


def test_hostile_names_stay_text_and_the_drawing_is_ascii() -> None:
    topology = NodeTopology(
        node=HOSTILE,
        source=HOSTILE,
        driver_version=HOSTILE,
        problem=HOSTILE,
        gpus=(Gpu(index=0, name=HOSTILE, uuid=HOSTILE, numa_node=0), Gpu(index=1, name="\x1b[2J\x00量子")),
        lost=(LostGpu(index=2, problem=HOSTILE, uuid=HOSTILE),),
        nics=(Nic(name=HOSTILE, link_layer=HOSTILE, numa_node=0),),
    )
    text = draw(topology, assess(topology, [0, 1]))
    assert text.isascii()
    assert "<script" not in text
    assert "<!--" not in text
    root = ElementTree.fromstring(text)  # noqa: S314 - our own
    known = {"svg", "title", "desc", "style", "g", "rect", "text", "path"}
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= known
    assert not any(name.startswith("on") or "href" in name for element in root.iter() for name in element.attrib)
    assert HOSTILE in texts(root, "title")


def test_lines_of_text_have_a_length_that_fits() -> None:
    topology = replace(h20(), node="n" * 253, problem="It is long. " * 40)
    lines = texts(drawn(topology, *range(8))).splitlines()
    assert max(map(len, lines)) <= 66


@given(topologies())
def test_any_topology_can_be_drawn(topology: NodeTopology) -> None:
    root = drawn(topology, *[gpu.index for gpu in topology.gpus])
    assert len(gpus_of(root)) == len(topology.gpus) + len(topology.lost)
