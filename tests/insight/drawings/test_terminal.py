"""A node as text: in colours for people, in the words of ``nvidia-smi`` for programs."""

import io
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from rich.console import Console
from rich.text import Text

from tests.hardware.topology.generated import topologies
from tests.hardware.topology.machines import (
    MACHINES,
    bent,
    dgx1_v100,
    h20,
    l40s,
    with_switch_links,
    without,
)
from webhook.hardware.topology.model import MigMode, NodeTopology
from webhook.hardware.topology.pcie import PciePath
from webhook.hardware.topology.sets import NicAffinity, assess
from webhook.insight.drawings.terminal import picture, plain, worth

ESCAPE = "\x1b"


def coloured(text: Text) -> str:
    """As a terminal with eight colours gets it."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, color_system="standard", soft_wrap=True, highlight=False)
    console.print(text)
    return out.getvalue()


@pytest.mark.parametrize(
    ("machine", "word", "code"),
    [
        (h20(), "NV18", 32),
        (h20(), "PIX", 36),
        (h20(), "NODE", 35),
        (h20(), "SYS", 31),
        (dgx1_v100(), "NV2", 32),
        (dgx1_v100(), "PHB", 33),
    ],
    ids=lambda value: value.node if isinstance(value, NodeTopology) else str(value),
)
def test_each_class_of_links_has_a_colour_of_its_own(machine: NodeTopology, word: str, code: int) -> None:
    assert f"{ESCAPE}[{code}m{word}{ESCAPE}" in coloured(picture(machine))


@pytest.mark.parametrize("name", MACHINES)
def test_without_its_colours_the_picture_has_the_words_of_every_row(name: str) -> None:
    topology = MACHINES[name]
    words = {tuple(line.split()) for line in picture(topology).plain.splitlines()}
    for line in plain(topology).partition("Legend")[0].splitlines():
        assert tuple(line.split()) in words or not line.split()


def test_the_state_of_the_nvlinks_is_said() -> None:
    assert "NVLink healthy" in picture(h20()).plain
    assert "NVLink absent" in picture(l40s()).plain
    broken = picture(without(with_switch_links(h20(), 2, 16), 5)).plain
    assert "NVLink degraded" in broken
    assert "! GPU2 has links down: 2 of 18 to nvswitch" in broken
    assert "! GPU5 cannot be reached: GPU is lost" in broken


def test_a_node_without_gpus_says_why() -> None:
    empty = NodeTopology(node="cpu-1", source="nvml", problem="There is no driver.")
    assert picture(empty).plain.splitlines()[0] == "cpu-1  no GPU  from nvml"
    assert "! There is no driver." in picture(empty).plain
    assert plain(empty) == ""


def test_a_set_is_judged_line_by_line() -> None:
    lines = worth(assess(dgx1_v100(), [0, 1, 2, 3])).plain.splitlines()
    assert lines == [
        "GPU0, GPU1, GPU2, GPU3  NVLink: every pair has NVLinks of its own",
        "  weakest pair 20.0 GB/s (GPU0-GPU1, NV1)",
        "  mean         30.0 GB/s",
        "  ring         80.0 GB/s (0-1-2-3-0), estimated",
        "  all-reduce   about 53.3 GB/s",
        "  NUMA         0",
        "  NICs         mlx5_0 (PIX to GPU0, GPU1), mlx5_1 (PIX to GPU2, GPU3)",
    ]


def test_a_set_that_nvlink_joins_in_part_is_not_shown_in_the_colour_of_nvlink() -> None:
    green, yellow = "\x1b[1;32m", "\x1b[1;33m"
    whole, part = (coloured(worth(assess(dgx1_v100(), gpus))).splitlines()[0] for gpus in ([0, 3], [0, 1, 5]))
    assert f"{green}NVLink" in whole
    assert green not in part
    assert f"{yellow}NVLink-partial" in part


def test_a_pair_that_needs_a_third_gpu_is_called_so() -> None:
    lines = worth(assess(dgx1_v100(), [0, 1, 5])).plain.splitlines()
    assert lines[0] == "GPU0, GPU1, GPU5  NVLink-partial: only some pairs have NVLinks"
    assert lines[1] in (
        "  weakest pair 20.0 GB/s (GPU0-GPU1, NV1)",
        "  weakest pair 20.0 GB/s (GPU0-GPU5, NVLink through another GPU)",
    )


def test_a_nic_at_several_distances_is_named_once() -> None:
    nics = (
        NicAffinity(name="mlx5_0", path=PciePath.PIX, gpus=(0,)),
        NicAffinity(name="mlx5_1", path=PciePath.PIX, gpus=(1,)),
    )
    farther = (NicAffinity(name="mlx5_0", path=PciePath.NODE, gpus=(2, 3)),)
    chosen = replace(assess(dgx1_v100(), [0, 1, 2, 3]), nics=nics + farther)
    assert worth(chosen).plain.splitlines()[-1] == (
        "  NICs         mlx5_0 (PIX to GPU0, NODE to GPU2, GPU3), mlx5_1 (PIX to GPU1)"
    )


@pytest.mark.parametrize("draw", [plain, lambda *args, **more: picture(*args, **more).plain], ids=["plain", "colours"])
def test_a_set_with_a_gpu_in_mig_mode_says_so(draw: Callable[..., str]) -> None:
    topology = bent(bent(h20(), 1, mig_mode=MigMode.ENABLED), 4, mig_mode=MigMode.ENABLED)
    said = "  MIG mode     GPU1: no NVLink, and no part of NCCL's file"
    assert said in draw(topology, chosen=assess(topology, [0, 1])).splitlines()
    assert "MIG mode    " not in draw(topology, chosen=assess(topology, [0, 2]))


def test_the_chosen_gpus_and_what_is_between_them_stand_out() -> None:
    text = coloured(picture(dgx1_v100(), chosen=assess(dgx1_v100(), [0, 3])))
    assert text.count(f"{ESCAPE}[1;7mGPU0{ESCAPE}") == 2
    assert text.count(f"{ESCAPE}[7;32mNV2{ESCAPE}") == 2
    assert f"{ESCAPE}[1;7mGPU1" not in text
    assert f"{ESCAPE}[2;32mNV1" in text


def test_bandwidths_stand_in_the_place_of_the_words() -> None:
    lines = plain(dgx1_v100(), bandwidth=True).splitlines()
    assert lines[0] == "GB/s per direction"
    assert lines[1].split() == ["GPU0", "GPU1", "GPU2", "GPU3", "GPU4", "GPU5", "GPU6", "GPU7"]
    assert lines[2].split() == ["GPU0", "X", "20.0", "20.0", "40.0", "40.0", "6.0", "6.0", "6.0"]
    assert lines[6].split() == ["GPU4", "40.0", "6.0", "6.0", "6.0", "X", "20.0", "20.0", "40.0"]
    assert len(lines) == 10


def test_between_chosen_gpus_the_bandwidth_is_that_within_the_set() -> None:
    lines = plain(dgx1_v100(), chosen=assess(dgx1_v100(), [0, 1, 5]), bandwidth=True).splitlines()
    assert lines[2].split() == ["GPU0", "X", "20.0", "20.0", "40.0", "40.0", "20.0", "6.0", "6.0"]
    assert lines[7].split() == ["GPU5", "20.0", "40.0", "6.0", "6.0", "20.0", "X", "40.0", "20.0"]
    assert lines[3].split() == ["GPU1", "20.0", "X", "40.0", "20.0", "6.0", "40.0", "6.0", "6.0"]


def test_names_are_no_markup() -> None:
    topology = replace(bent(h20(), 0, name="[bold red]x[/]"), node="[link=http://x]y[/link]")
    text = coloured(picture(topology))
    assert "[link=http://x]y[/link]" in text
    assert "1 x [bold red]x[/]" in text


@given(topologies())
def test_any_topology_can_be_printed(topology: NodeTopology) -> None:
    chosen = assess(topology, [gpu.index for gpu in topology.gpus]) if topology.gpus else None
    for bandwidth in (False, True):
        assert topology.node in picture(topology, chosen=chosen, bandwidth=bandwidth).plain
        plain(topology, chosen=chosen, bandwidth=bandwidth)
