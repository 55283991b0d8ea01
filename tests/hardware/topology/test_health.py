"""Which state of the links is healthy."""

from dataclasses import replace

import pytest

from tests.hardware.topology.machines import (
    a100_pcie_bridged,
    bent,
    dgx1_v100,
    gb200_tray,
    h20,
    hgx_h100,
    l40s,
    with_switch_links,
    without,
)
from webhook.hardware.topology.health import HealthState, node_health
from webhook.hardware.topology.model import UNKNOWN, Fabric, MigMode, NodeTopology, NvLink


@pytest.mark.parametrize("topology", [hgx_h100(), dgx1_v100(), a100_pcie_bridged(), gb200_tray()], ids=lambda t: t.node)
def test_machines_with_all_links_up_are_healthy(topology: NodeTopology) -> None:
    health = node_health(topology)
    assert (health.state, health.findings, health.ailing) == (HealthState.HEALTHY, (), ())


@pytest.mark.parametrize(
    "topology",
    [l40s(), NodeTopology(node="n", source="nvml", problem="no NVIDIA driver")],
    ids=["no NVLink", "no driver"],
)
def test_machines_without_nvlink_say_so(topology: NodeTopology) -> None:
    health = node_health(topology)
    assert (health.state, health.findings, health.ailing) == (HealthState.ABSENT, (), ())


def test_links_down_to_a_switch_are_counted() -> None:
    health = node_health(with_switch_links(hgx_h100(), 2, 10))
    assert health.state is HealthState.DEGRADED
    assert health.findings == ("GPU2 has links down: 8 of 18 to nvswitch",)
    assert health.ailing == (2,)


def test_a_link_whose_other_end_is_unknown_shows_by_comparison() -> None:
    shorter = tuple(link for link in dgx1_v100().gpus[0].nvlinks if link.target != "GPU1")
    topology = bent(dgx1_v100(), 0, nvlinks=(*shorter, NvLink(target=UNKNOWN, count=1, active=0)))
    health = node_health(topology)
    assert health.state is HealthState.DEGRADED
    assert health.findings == ("GPU0 has 5 links up, other Tesla V100-SXM2-32GB here have 6",)


def test_links_that_were_never_wired_are_no_fault() -> None:
    """As on an H100 NVL: a bridge of 12 links, 6 more that lead nowhere."""
    gpus = tuple(
        replace(gpu, nvlinks=(*gpu.nvlinks, NvLink(target=UNKNOWN, count=6, active=0)))
        for gpu in a100_pcie_bridged().gpus
    )
    assert node_health(replace(a100_pcie_bridged(), gpus=gpus)).state is HealthState.HEALTHY


def test_all_links_down_is_degraded_and_says_what_is_down() -> None:
    gpus = tuple(replace(gpu, nvlinks=(NvLink(target="nvswitch", count=18, active=0),)) for gpu in hgx_h100().gpus[:2])
    health = node_health(replace(hgx_h100(), gpus=gpus))
    assert health.state is HealthState.DEGRADED
    assert health.findings == (
        "GPU0 has links down: 18 of 18 to nvswitch",
        "GPU1 has links down: 18 of 18 to nvswitch",
    )


def test_links_that_do_not_say_where_they_lead_are_degraded_where_there_is_a_fabric() -> None:
    down = tuple(replace(gpu, nvlinks=(NvLink(target=UNKNOWN, count=18, active=0),)) for gpu in hgx_h100().gpus)
    assert node_health(replace(hgx_h100(), gpus=down)).state is HealthState.DEGRADED
    assert node_health(replace(hgx_h100(), gpus=down, fabric=None)).state is HealthState.ABSENT
    assert node_health(replace(hgx_h100(), gpus=down, fabric=Fabric(state="unsupported"))).state is HealthState.ABSENT


def test_neighbours_of_a_lost_gpu_are_not_ailing() -> None:
    """Seen by NVML, links to a GPU that is gone lead nowhere."""
    topology = without(dgx1_v100(), 0)
    for index, links in ((1, 1), (2, 1), (3, 2), (4, 2)):
        kept = tuple(link for link in dgx1_v100().gpus[index].nvlinks if link.target != "GPU0")
        topology = bent(topology, index, nvlinks=(*kept, NvLink(target=UNKNOWN, count=links, active=0)))
    health = node_health(topology)
    assert (health.ailing, health.findings) == ((0,), ("GPU0 cannot be reached: GPU is lost",))


def test_a_gpu_on_switches_is_compared_although_another_one_is_lost() -> None:
    few = (NvLink(target="nvswitch", count=10, active=10), NvLink(target=UNKNOWN, count=8, active=0))
    assert node_health(bent(without(hgx_h100(), 0), 3, nvlinks=few)).ailing == (0, 3)


def test_the_partner_of_a_card_in_mig_mode_is_not_ailing() -> None:
    topology = bent(a100_pcie_bridged(), 0, mig_mode=MigMode.ENABLED)
    down = (NvLink(target="GPU0", count=12, active=0),)
    health = node_health(bent(topology, 1, nvlinks=down))
    assert (health.state, health.ailing) == (HealthState.HEALTHY, ())


def test_a_lost_gpu_degrades_its_node() -> None:
    health = node_health(without(h20(), 3))
    assert health.state is HealthState.DEGRADED
    assert health.findings == ("GPU3 cannot be reached: GPU is lost",)
    assert health.ailing == (3,)


def test_links_that_cannot_be_read_are_told_and_nobody_ails() -> None:
    health = node_health(bent(hgx_h100(), 2, nvlinks=(), links_problem="Timeout"))
    assert health.state is HealthState.DEGRADED
    assert health.findings == ("The NVLinks of GPU2 cannot be read: Timeout",)
    assert health.ailing == ()


def test_a_node_whose_links_cannot_be_read_at_all_is_degraded() -> None:
    said = ("Unknown Error", "Timeout", "Unknown Error")
    gpus = tuple(replace(gpu, links_problem=words) for gpu, words in zip(l40s().gpus, said, strict=False))
    health = node_health(replace(l40s(), gpus=gpus))
    assert health.state is HealthState.DEGRADED
    assert health.findings == (
        "The NVLinks of GPU0, GPU2 cannot be read: Unknown Error",
        "The NVLinks of GPU1 cannot be read: Timeout",
    )
    assert health.ailing == ()


def test_gpus_are_not_compared_with_those_whose_links_cannot_be_read() -> None:
    topology = with_switch_links(hgx_h100(), 7, 10)
    for index in range(5):
        topology = bent(topology, index, nvlinks=(), links_problem="Timeout")
    assert node_health(topology).ailing == (7,)


def test_links_that_cannot_be_read_are_no_fault_in_mig_mode() -> None:
    topology = bent(hgx_h100(), 2, nvlinks=(), links_problem="Timeout", mig_mode=MigMode.ENABLED)
    assert node_health(topology).state is HealthState.HEALTHY


def test_mig_mode_is_a_choice_and_no_fault() -> None:
    topology = bent(hgx_h100(), 1, mig_mode=MigMode.ENABLED, nvlinks=(NvLink(target=UNKNOWN, count=18, active=0),))
    assert node_health(topology).state is HealthState.HEALTHY


@pytest.mark.parametrize(
    ("fabric", "finding"),
    [
        (
            Fabric(state="in-progress"),
            "The NVLink fabric is in-progress: is the fabric manager running?",
        ),
        (
            Fabric(state="completed", status="success", ailments=("degraded bandwidth", "unhealthy routes")),
            "The NVLink fabric reports degraded bandwidth and unhealthy routes",
        ),
        (Fabric(state="completed", status="NVML_ERROR_UNKNOWN"), "The NVLink fabric reports NVML_ERROR_UNKNOWN"),
    ],
)
def test_a_fabric_that_is_not_ready_degrades_its_node(fabric: Fabric, finding: str) -> None:
    health = node_health(replace(hgx_h100(), fabric=fabric))
    assert (health.state, health.findings) == (HealthState.DEGRADED, (finding,))


def test_gpus_of_other_products_are_not_compared() -> None:
    topology = bent(a100_pcie_bridged(), 0, name="NVIDIA T400", nvlinks=())
    topology = bent(topology, 1, name="NVIDIA T400", nvlinks=())
    assert node_health(topology).state is HealthState.HEALTHY


def without_bridges(*bridged: tuple[int, int], count: int) -> NodeTopology:
    """H100 NVL as NVML reports them: 12 links to the other end of a bridge, and what is not wired is down."""
    others = {one: other for pair in bridged for one, other in (pair, pair[::-1])}
    first = a100_pcie_bridged().gpus[0]
    gpus = tuple(
        replace(
            first,
            index=index,
            uuid=f"GPU-{index}",
            nvlinks=(
                *((NvLink(target=f"GPU{others[index]}", count=12, active=12),) if index in others else ()),
                NvLink(target=UNKNOWN, count=6 if index in others else 18, active=0),
            ),
        )
        for index in range(count)
    )
    return replace(a100_pcie_bridged(), gpus=gpus)


@pytest.mark.parametrize(
    "topology",
    [without_bridges((0, 1), count=3), without_bridges((0, 1), (2, 3), (4, 5), count=8)],
    ids=["three GPUs with one bridge", "eight with three"],
)
def test_a_gpu_without_a_bridge_beside_bridged_ones_is_no_fault(topology: NodeTopology) -> None:
    assert node_health(topology).findings == ()
    assert node_health(topology).state is HealthState.HEALTHY


def test_a_gpu_with_some_of_its_links_beside_bridged_ones_is_a_fault() -> None:
    topology = without_bridges((0, 1), (2, 3), count=4)
    fewer = (NvLink(target="GPU1", count=10, active=10), NvLink(target=UNKNOWN, count=8, active=0))
    health = node_health(bent(topology, 0, nvlinks=fewer))
    assert (health.state, health.ailing) == (HealthState.DEGRADED, (0,))


def test_a_gpu_without_links_beside_others_on_nvswitches_is_a_fault() -> None:
    topology = bent(hgx_h100(), 2, nvlinks=(NvLink(target=UNKNOWN, count=18, active=0),))
    assert node_health(topology).ailing == (2,)
