"""Machines of which one property is not as it should be, read through the real bindings."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.hardware.topology import machines as topologies
from tests.nvml.machines import (
    Link,
    Machine,
    a100_pcie_bridged,
    dgx1_v100,
    gb200_tray,
    h20,
    hgx_a100,
    hgx_b200,
    hidden_switches,
    l40s,
)
from tests.nvml.stub import Play
from webhook.hardware.discovery.machine import discover
from webhook.hardware.topology.model import C2c, Cpu, Fabric, Gpu, LostGpu, MigMode, NodeTopology, NvLink, Pcie

NO_LINKS: tuple[NvLink, ...] = ()


def links_of(topology: NodeTopology, index: int) -> tuple[NvLink, ...]:
    return next(gpu for gpu in topology.gpus if gpu.index == index).nvlinks


def gpu_of(topology: NodeTopology, index: int) -> Gpu:
    return next(gpu for gpu in topology.gpus if gpu.index == index)


# Links


def test_a_gpu_that_lost_eight_of_eighteen_links_has_ten(play: Play) -> None:
    found = discover(node="h20-node-1", root=play(h20().with_links_down(5, 10, 11, 12, 13, 14, 15, 16, 17)))
    assert found == topologies.with_switch_links(topologies.h20(), 5, 10)


def test_a_gpu_without_any_link_up_does_not_tell_where_its_links_lead(play: Play) -> None:
    found = discover(node="n", root=play(h20().with_links_down(0, *range(18))))
    assert links_of(found, 0) == (NvLink(target="unknown", count=18, active=0),)
    assert links_of(found, 1) == (NvLink(target="nvswitch", count=18, active=18),)


def test_a_direct_link_that_is_down_leads_nowhere_known(play: Play) -> None:
    machine = dgx1_v100().with_links_down(0, 2).with_links_down(3, 0)
    found = discover(node="n", root=play(machine))
    assert links_of(found, 0) == (
        NvLink(target="GPU1", count=1, active=1),
        NvLink(target="GPU2", count=1, active=1),
        NvLink(target="GPU3", count=1, active=1),
        NvLink(target="GPU4", count=2, active=2),
        NvLink(target="unknown", count=1, active=0),
    )
    assert links_of(found, 3) == (
        NvLink(target="GPU0", count=1, active=1),
        NvLink(target="GPU1", count=1, active=1),
        NvLink(target="GPU2", count=2, active=2),
        NvLink(target="GPU7", count=1, active=1),
        NvLink(target="unknown", count=1, active=0),
    )


def test_a_direct_link_that_is_down_and_tells_its_end_is_one_of_that_bond(play: Play) -> None:
    down = Link(state="down", type="gpu", remote="00000000:65:00.0")
    found = discover(node="n", root=play(a100_pcie_bridged().with_link(0, 4, down)))
    assert links_of(found, 0) == (NvLink(target="GPU1", count=12, active=11),)
    assert links_of(found, 1) == (NvLink(target="GPU0", count=12, active=12),)


def test_a_direct_link_that_only_one_end_reports_gets_an_end_that_carries_nothing(play: Play) -> None:
    found = discover(node="n", root=play(a100_pcie_bridged().with_card(1, links=())))
    assert links_of(found, 0) == (NvLink(target="GPU1", count=12, active=12),)
    assert links_of(found, 1) == (NvLink(target="GPU0", count=12, active=0),)


def test_links_that_do_not_tell_where_they_lead_are_those_that_the_peer_still_lists(play: Play) -> None:
    bridged = discover(node="n", root=play(a100_pcie_bridged().with_links_down(3, *range(12))))
    assert links_of(bridged, 3) == (NvLink(target="GPU2", count=12, active=0),)
    cube = discover(node="n", root=play(dgx1_v100().with_links_down(3, *range(6))))
    assert links_of(cube, 3) == (
        NvLink(target="GPU0", count=2, active=0),
        NvLink(target="GPU1", count=1, active=0),
        NvLink(target="GPU2", count=2, active=0),
        NvLink(target="GPU7", count=1, active=0),
    )


def test_links_of_which_no_peer_knows_stay_without_an_end(play: Play) -> None:
    machine = a100_pcie_bridged().with_links_down(3, *range(12)).with_link(2, 0, None)
    assert links_of(discover(node="n", root=play(machine)), 3) == (
        NvLink(target="GPU2", count=11, active=0),
        NvLink(target="unknown", count=1, active=0),
    )


def test_a_link_in_the_middle_that_the_gpu_does_not_have_does_not_hide_those_after_it(play: Play) -> None:
    found = discover(node="n", root=play(h20().with_link(2, 0, None).with_link(2, 9, None)))
    assert links_of(found, 2) == (NvLink(target="nvswitch", count=16, active=16),)


def test_a_link_that_sleeps_is_up(play: Play) -> None:
    asleep = Link(state="sleep", remote="00000000:07:00.0")
    found = discover(node="n", root=play(h20().with_link(2, 0, asleep)))
    assert links_of(found, 2) == (NvLink(target="nvswitch", count=18, active=18),)


def test_a_link_whose_traffic_is_disabled_is_not_up(play: Play) -> None:
    blocked = Link(state="blocked", remote="00000000:07:00.0")
    found = discover(node="n", root=play(h20().with_link(2, 0, blocked)))
    assert links_of(found, 2) == (NvLink(target="nvswitch", count=18, active=17),)


def test_a_link_that_gpus_may_not_use_for_each_other_is_not_up(play: Play) -> None:
    useless = Link(p2p=False, remote="00000000:C4:00.0")
    found = discover(node="n", root=play(hgx_a100().with_link(2, 0, useless)))
    assert links_of(found, 2) == (NvLink(target="nvswitch", count=12, active=11),)


def test_a_link_to_a_power_cpu_is_none_between_gpus(play: Play) -> None:
    to_cpu = Link(type="cpu", remote="00000004:00:00.0")
    found = discover(node="n", root=play(dgx1_v100().with_card(5, links=(to_cpu,) * 3)))
    assert links_of(found, 5) == (
        NvLink(target="GPU1", count=2, active=0),
        NvLink(target="GPU4", count=1, active=0),
        NvLink(target="GPU6", count=2, active=0),
        NvLink(target="GPU7", count=1, active=0),
    )


def test_a_link_of_a_gpu_to_itself_leads_nowhere(play: Play) -> None:
    own = Link(type="gpu", remote="00000000:17:00.0")
    found = discover(node="n", root=play(a100_pcie_bridged().with_card(0, links=(own,)).with_card(1, links=())))
    assert links_of(found, 0) == (NvLink(target="unknown", count=1, active=0),)
    assert links_of(found, 1) == NO_LINKS


@pytest.mark.parametrize("remote", ["-", "empty", "garbage", "fffffff:ffff:ff"])
@pytest.mark.parametrize("type_", ["switch", "unknown", "-"])
def test_an_active_link_whose_end_is_hidden_leads_to_a_switch(remote: str, type_: str, play: Play) -> None:
    machine = hidden_switches().with_card(0, links=(Link(type=type_, remote=remote),) * 18)
    assert discover(node="h100-vm", root=play(machine)) == topologies.hidden_switches()


def test_an_active_link_to_a_gpu_that_is_hidden_leads_nowhere_known(play: Play) -> None:
    machine = hidden_switches().with_card(0, links=(Link(type="gpu", remote="empty"),) * 4)
    assert links_of(discover(node="n", root=play(machine)), 0) == (NvLink(target="unknown", count=4, active=0),)


def test_a_driver_that_does_not_tell_types_leaves_it_to_the_bus_id(play: Play) -> None:
    machine = dgx1_v100().with_lines("error nvmlDeviceGetNvLinkRemoteDeviceType 13")
    assert discover(node="dgx1-v100", root=play(machine)) == topologies.dgx1_v100()


def test_a_driver_that_tells_states_of_hopper_only_the_old_way_is_asked_that_way(play: Play) -> None:
    machine = h20()
    for index in range(8):
        machine = machine.with_card(index, lines=("field 165 3",))
    assert discover(node="h20-node-1", root=play(machine)) == topologies.h20()


def test_the_state_of_links_of_hopper_is_a_field_value(play: Play) -> None:
    machine = h20().with_lines("error nvmlDeviceGetNvLinkState 3")
    assert discover(node="h20-node-1", root=play(machine)) == topologies.h20()


# Links that are not there


def test_a_driver_that_does_not_count_its_links_is_believed_in_what_answers(play: Play) -> None:
    found = discover(node="n", root=play(hgx_a100().with_slots(18).without_link_count()))
    assert links_of(found, 0) == (NvLink(target="nvswitch", count=18, active=12),)


def test_a_driver_without_field_values_is_believed_in_what_answers(play: Play) -> None:
    machine = hgx_a100().with_slots(18).with_lines("error nvmlDeviceGetFieldValues 13")
    found = discover(node="n", root=play(machine))
    assert links_of(found, 0) == (NvLink(target="nvswitch", count=18, active=12),)


def test_a_link_that_is_down_is_not_taken_for_one_that_is_not_there(play: Play) -> None:
    found = discover(node="n", root=play(hgx_a100().with_slots(18).with_links_down(2, 3)))
    assert links_of(found, 2) == (NvLink(target="nvswitch", count=12, active=11),)
    assert links_of(found, 1) == (NvLink(target="nvswitch", count=12, active=12),)


def test_cards_whose_driver_counts_no_link_have_none(play: Play) -> None:
    machine = l40s().with_slots(18).with_lines_of_each_card("value 91 0 uint 0")
    assert discover(node="l40s", root=play(machine)) == topologies.l40s()


@pytest.mark.parametrize("code", [0, 2, 3])
def test_links_that_are_not_there_may_claim_to_be_able_to_reach_gpus(code: int, play: Play) -> None:
    found = discover(node="hgx-b200", root=play(hgx_b200().with_slots(36, p2p=True, code=code)))
    assert found == topologies.hgx_b200()


def test_a_number_in_the_middle_may_be_the_one_without_a_link(play: Play) -> None:
    found = discover(node="n", root=play(h20().with_link(2, 9, None).with_slots(18)))
    assert links_of(found, 2) == (NvLink(target="nvswitch", count=17, active=17),)
    assert links_of(found, 1) == (NvLink(target="nvswitch", count=18, active=18),)


@pytest.mark.parametrize("count", ["uint 3", "uint 0"])
def test_a_count_that_is_too_low_takes_no_link_away_that_is_up_or_names_its_end(count: str, play: Play) -> None:
    down = Link(state="down", remote="00000000:C4:00.0")
    machine = hgx_a100().with_slots(18).with_link(0, 0, down).with_lines_of_each_card(f"value 91 0 {count}")
    found = discover(node="n", root=play(machine))
    assert links_of(found, 0) == (NvLink(target="nvswitch", count=12, active=11),)
    assert links_of(found, 1) == (NvLink(target="nvswitch", count=12, active=12),)


@pytest.mark.parametrize("value", ["double 12", "double 0", "slonglong -1", "sint -12", "new 12", "uint 4294967295"])
def test_a_count_that_can_be_none_is_as_if_the_driver_did_not_count(value: str, play: Play) -> None:
    machine = hgx_a100().with_slots(18).with_lines_of_each_card(f"value 91 0 {value}")
    assert links_of(discover(node="n", root=play(machine)), 0) == (NvLink(target="nvswitch", count=18, active=12),)


@pytest.mark.parametrize("type_", ["uint", "ulong", "ulonglong", "slonglong", "sint", "ushort"])
def test_a_count_may_come_in_any_type_of_whole_numbers(type_: str, play: Play) -> None:
    machine = hgx_a100().with_slots(18).with_lines_of_each_card(f"value 91 0 {type_} 12")
    assert discover(node="hgx-a100", root=play(machine)) == topologies.hgx_a100()


def test_a_state_of_a_link_that_is_no_number_is_asked_the_other_way(play: Play) -> None:
    machine = h20().with_card(2, lines=("value 165 4 double 0", "value 165 5 slonglong -1"))
    assert discover(node="h20-node-1", root=play(machine)) == topologies.h20()


def test_the_bandwidth_of_a_superchips_link_may_come_in_64_bits(play: Play) -> None:
    lines = tuple(f"value 172 {link} ulonglong 44712" for link in range(10))
    assert discover(node="gb200-tray", root=play(gb200_tray().with_card(1, lines=lines))) == topologies.gb200_tray()


# Links that cannot be read

STATES = ("nvmlDeviceGetNvLinkState", "nvmlDeviceGetFieldValues")


def without_states(machine: Machine, index: int, code: int) -> Machine:
    """One GPU answers with an error whenever it is asked for the state of a link."""
    for function in STATES:
        machine = machine.with_error(index, function, code)
    return machine


@pytest.mark.parametrize(
    ("code", "said"), [(1, "Uninitialized"), (4, "Insufficient Permissions"), (10, "Timeout"), (999, "Unknown Error")]
)
def test_links_whose_states_cannot_be_read_are_not_down(code: int, said: str, play: Play) -> None:
    found = discover(node="h20-node-1", root=play(without_states(h20(), 2, code)))
    unread = topologies.bent(topologies.h20(), 2, nvlinks=(), links_problem=said)
    assert found == replace(unread, problem=f"the NVLinks of GPU2 cannot be read: {said}")


def test_a_node_whose_links_cannot_be_read_says_so_once_for_each_reason(play: Play) -> None:
    machine = without_states(without_states(without_states(a100_pcie_bridged(), 0, 999), 1, 10), 3, 999)
    found = discover(node="n", root=play(machine))
    assert found.problem == (
        "the NVLinks of GPU0, GPU3 cannot be read: Unknown Error; the NVLinks of GPU1 cannot be read: Timeout"
    )
    assert [gpu.links_problem for gpu in found.gpus] == ["Unknown Error", "Timeout", "", "Unknown Error"]


def test_direct_links_that_cannot_be_read_at_one_end_are_as_the_other_end_says(play: Play) -> None:
    found = discover(node="n", root=play(without_states(a100_pcie_bridged(), 1, 10)))
    assert links_of(found, 0) == (NvLink(target="GPU1", count=12, active=12),)
    assert links_of(found, 1) == (NvLink(target="GPU0", count=12, active=12),)


def test_the_state_that_one_way_does_not_tell_is_asked_the_other_way(play: Play) -> None:
    machine = h20().with_card(2, lines=("field 165 10",))
    assert discover(node="h20-node-1", root=play(machine)) == topologies.h20()


@pytest.mark.parametrize("code", [2, 3, 13])
def test_a_gpu_or_driver_that_has_no_link_states_has_no_links(code: int, play: Play) -> None:
    found = discover(node="h20-node-1", root=play(without_states(h20(), 2, code)))
    assert found == topologies.bent(topologies.h20(), 2, nvlinks=())


def test_active_links_whose_ends_cannot_be_read_lead_to_no_hidden_switch(play: Play) -> None:
    machine = dgx1_v100().with_error(2, "nvmlDeviceGetNvLinkRemotePciInfo_v2", 10)
    found = discover(node="dgx1-v100", root=play(machine))
    unread = topologies.bent(topologies.dgx1_v100(), 2, links_problem="Timeout")
    assert found == replace(unread, problem="the NVLinks of GPU2 cannot be read: Timeout")


# MIG


def test_a_gpu_in_mig_mode_has_no_links_and_its_refused_peers_are_no_problem(play: Play) -> None:
    pairs = [f"p2p 2 {other} 5" for other in (0, 1, 3, 4, 5, 6, 7)]
    found = discover(node="h20-node-1", root=play(h20().with_mig(2).with_lines(*pairs)))
    assert found == topologies.bent(topologies.h20(), 2, mig_mode=MigMode.ENABLED, nvlinks=())


# Lost GPUs


def test_a_gpu_that_fell_off_the_bus_is_lost_and_the_others_are_as_before(play: Play) -> None:
    found = discover(node="h20-node-1", root=play(h20().with_lost(3)))
    others = topologies.without(topologies.h20(), 3)
    switches = tuple(switch for switch in others.switches if switch.pci_bus_id != "0000:58:00.0")
    assert found == replace(others, lost=(LostGpu(index=3, problem="GPU is lost"),), switches=switches)


UNSEEN = LostGpu(index=1, problem="GPU is lost")
NAMED = replace(UNSEEN, pci_bus_id="0000:2d:00.0")
KNOWN = replace(NAMED, uuid=topologies.H20_UUIDS[1])


@pytest.mark.parametrize(
    ("function", "code", "lost"),
    [
        ("nvmlDeviceGetHandleByIndex_v2", 15, UNSEEN),
        ("nvmlDeviceGetHandleByIndex_v2", 999, replace(UNSEEN, problem="Unknown Error")),
        (
            "nvmlDeviceGetHandleByIndex_v2",
            4,
            replace(UNSEEN, problem="Insufficient Permissions: this process may not open its device node"),
        ),
        ("nvmlDeviceGetPciInfo_v3", 15, UNSEEN),
        ("nvmlDeviceGetUUID", 15, NAMED),
        ("nvmlDeviceGetUUID", 16, replace(NAMED, problem="GPU requires restart")),
        ("nvmlDeviceGetNvLinkCapability", 15, KNOWN),
        ("nvmlDeviceGetMemoryInfo", 15, KNOWN),
    ],
)
def test_a_gpu_that_cannot_be_reached_is_lost_with_what_nvml_said(
    function: str, code: int, lost: LostGpu, play: Play
) -> None:
    found = discover(node="n", root=play(h20().with_error(1, function, code)))
    assert found.lost == (lost,)
    assert [gpu.index for gpu in found.gpus] == [0, 2, 3, 4, 5, 6, 7]


def test_links_to_a_lost_gpu_lead_nowhere_known(play: Play) -> None:
    found = discover(node="n", root=play(dgx1_v100().with_lost(3)))
    assert links_of(found, 0) == (
        NvLink(target="GPU1", count=1, active=1),
        NvLink(target="GPU2", count=1, active=1),
        NvLink(target="GPU4", count=2, active=2),
        NvLink(target="unknown", count=2, active=0),
    )


def test_links_to_a_lost_gpu_are_no_switch_although_an_old_driver_does_not_tell_their_type(play: Play) -> None:
    old = dgx1_v100().with_lines("error nvmlDeviceGetNvLinkRemoteDeviceType 13")
    expected = (
        NvLink(target="GPU3", count=1, active=1),
        NvLink(target="GPU4", count=2, active=2),
        NvLink(target="GPU5", count=1, active=1),
        NvLink(target="unknown", count=2, active=0),
    )
    without_handle = discover(node="n", root=play(old.with_lost(6)))
    assert links_of(without_handle, 7) == expected  # by its PCI class
    with_handle = discover(node="n", root=play(old.with_error(6, "nvmlDeviceGetUUID", 15)))
    assert links_of(with_handle, 7) == expected  # by its bus id
    assert with_handle.nvswitches == without_handle.nvswitches == ()


def test_a_machine_whose_gpus_are_all_lost_has_none(play: Play) -> None:
    machine = a100_pcie_bridged()
    for index in range(4):
        machine = machine.with_lost(index)
    found = discover(node="n", root=play(machine))
    assert found.gpus == ()
    assert [gpu.index for gpu in found.lost] == [0, 1, 2, 3]


def test_a_gpu_that_is_lost_after_it_was_read_costs_only_what_pairs_tell(play: Play) -> None:
    machine = h20().with_lines("error nvmlDeviceGetP2PStatus 15")
    assert discover(node="h20-node-1", root=play(machine)) == topologies.h20()


# C2C and fabric


def test_c2c_links_that_are_down_do_not_count(play: Play) -> None:
    c2c = (("up", 44712), ("down", 44712), ("up", 44712), ("up", 0))
    found = discover(node="n", root=play(gb200_tray().with_card(2, c2c=c2c)))
    assert gpu_of(found, 2).c2c == C2c(links=2, bandwidth_mbps=44712)


def test_a_gpu_whose_c2c_links_are_all_down_has_none(play: Play) -> None:
    found = discover(node="n", root=play(gb200_tray().with_card(2, c2c=(("down", 44712),))))
    assert gpu_of(found, 2).c2c is None


NO_CLUSTER = "0" * 32
COMPLETED = topologies.COMPLETED
RECOVERS = ("a recovery from an access timeout", "a recovery of routes", "unhealthy routes")
CLUSTER: dict[str, Any] = {"cluster_uuid": "5e3a91c4-70d2-4b6f-8f15-c2a9d4e60b37", "clique_id": 4}


@pytest.mark.parametrize(
    ("fabric", "expected"),
    [
        (f"2 0 0 {NO_CLUSTER}", Fabric(state="in-progress")),
        (f"1 3 0 {NO_CLUSTER}", Fabric(state="not-started")),
        (f"0 0 0 {NO_CLUSTER}", Fabric(state="unsupported")),
        ("3 10 4 5e3a91c470d24b6f8f15c2a9d4e60b37", replace(COMPLETED, status="Timeout", **CLUSTER)),
        (f"3 0 0 {NO_CLUSTER} 1aa", COMPLETED),
        (f"3 0 0 {NO_CLUSTER} 1", replace(COMPLETED, ailments=("degraded bandwidth",))),
        (f"3 0 0 {NO_CLUSTER} 56", replace(COMPLETED, ailments=RECOVERS)),
        (f"3 0 0 {NO_CLUSTER} 500", replace(COMPLETED, ailments=("an incorrect configuration (too few NVLinks)",))),
        (f"3 0 0 {NO_CLUSTER} f00", replace(COMPLETED, ailments=("an incorrect configuration (reason 15)",))),
        (f"2 0 0 {NO_CLUSTER} 1", Fabric(state="in-progress")),
        (f"9 0 0 {NO_CLUSTER}", Fabric(state="state 9")),
    ],
)
def test_the_fabric_is_as_good_as_its_worst_gpu(fabric: str, expected: Fabric, play: Play) -> None:
    found = discover(node="h20-node-1", root=play(h20().with_card(6, fabric=fabric)))
    assert found.fabric == expected


# P2P


def test_a_pair_that_may_not_use_p2p_is_a_problem_of_the_node(play: Play) -> None:
    found = discover(node="l40s", root=play(l40s().with_lines("p2p 0 3 1")))
    assert found == replace(topologies.l40s(), problem="P2P between GPU0 and GPU3 is off: chipset not supported")


def test_a_node_without_p2p_says_so_once(play: Play) -> None:
    pairs = ["p2p 0 1 4", "p2p 0 2 4", "p2p 0 3 4", "p2p 1 2 4", "p2p 1 3 4", "p2p 2 3 4"]
    found = discover(node="n", root=play(a100_pcie_bridged().with_lines(*pairs)))
    assert found.problem == "P2P between all GPUs is off: disabled by a setting of the driver"


def test_many_refused_pairs_are_counted_and_reasons_kept_apart(play: Play) -> None:
    pairs = ["p2p 0 4 3", "p2p 0 5 3", "p2p 0 6 3", "p2p 0 7 3", "p2p 1 4 3", "p2p 2 3 9"]
    found = discover(node="n", root=play(l40s().with_lines(*pairs)))
    assert found.problem == (
        "P2P between GPU0 and GPU4, GPU0 and GPU5, GPU0 and GPU6 and 2 more pairs is off: "
        "topology of the I/O hub not supported; P2P between GPU2 and GPU3 is off: unknown status 9"
    )


# PCI


def test_a_gpu_on_a_domain_of_five_digits_keeps_all_but_its_place(play: Play) -> None:
    machine = a100_pcie_bridged().with_card(3, bus="10000:e3:00.0", links=()).with_card(2, links=())
    found = discover(node="n", root=play(machine.with_lines("ancestor 0 3 50", "ancestor 2 3 40")))
    assert found.problem == (
        "GPU3 has the bus id 10000:e3:00.0, whose domain has more than four digits: "
        "its place among the PCIe devices is unknown"
    )
    assert gpu_of(found, 3) == Gpu(
        index=3,
        uuid="GPU-00000000-0000-0000-0000-000000000003",
        minor=3,
        name="NVIDIA A100 80GB PCIe",
        compute_capability="8.0",
        memory_mib=81920,
        mig_mode=MigMode.DISABLED,
        pcie=Pcie(generation=4, width=16),
        distance=(("GPU0", "SYS"), ("GPU2", "NODE")),
    )


def test_without_sysfs_nvml_tells_paths_and_cpus(play: Play, tmp_path: Path) -> None:
    machine = h20().with_lines("ancestor 0 1 40", "ancestor 0 4 50", "ancestor 2 3 10", "ancestor 4 5 20")
    play(machine.with_lines("ancestor 5 6 30", "ancestor 6 7 0", "ancestor 1 2 77"))
    found = discover(node="n", root=tmp_path / "nothing")
    assert [gpu.distance for gpu in found.gpus] == [
        (("GPU1", "NODE"), ("GPU4", "SYS")),
        (("GPU0", "NODE"),),
        (("GPU3", "PIX"),),
        (("GPU2", "PIX"),),
        (("GPU0", "SYS"), ("GPU5", "PXB")),
        (("GPU4", "PXB"), ("GPU6", "PHB")),
        (("GPU5", "PHB"), ("GPU7", "PIX")),
        (("GPU6", "PIX"),),
    ]
    assert [gpu.cpu_affinity for gpu in found.gpus] == ["0-47,96-143"] * 4 + ["48-95,144-191"] * 4
    assert gpu_of(found, 0).pcie == Pcie(generation=5, width=16)
    assert gpu_of(found, 0).numa_node is None
    assert (found.switches, found.cpus, found.nics) == ((), (), ())
    assert found.problem == (
        f"sysfs below {tmp_path / 'nothing'} does not have the PCI device of "
        "GPU0, GPU1, GPU2, GPU3, GPU4, GPU5, GPU6, GPU7: is the host's /sys mounted?"
    )


def test_where_nvml_does_not_tell_the_pcie_link_sysfs_does(play: Play) -> None:
    machine = h20().with_error(0, "nvmlDeviceGetMaxPcieLinkWidth", 3)
    found = discover(node="n", root=play(machine.with_device("0000:0f:00.0", width="8")))
    assert gpu_of(found, 0).pcie == Pcie(generation=5, width=8)


def test_cpus_of_the_numa_node_are_those_of_the_gpu_where_it_names_none(play: Play) -> None:
    found = discover(node="n", root=play(h20().with_device("0000:87:00.0", cpus="")))
    assert gpu_of(found, 4).cpu_affinity == "48-95,144-191"


def test_a_numa_node_with_only_memory_is_no_cpu(play: Play) -> None:
    found = discover(node="n", root=play(replace(gb200_tray(), numa_nodes=("0-71", "72-143", "", ""))))
    assert found.cpus == (
        Cpu(numa_node=0, affinity="0-71", arch="arm64"),
        Cpu(numa_node=1, affinity="72-143", arch="arm64"),
    )


@pytest.mark.parametrize(("node", "expected"), [(2, 2), (-1, None)])
def test_the_memory_of_a_superchip_may_be_a_numa_node(node: int, expected: int | None, play: Play) -> None:
    found = discover(node="gb200-tray", root=play(gb200_tray().with_card(3, lines=(f"numa {node}",))))
    assert found == topologies.bent(topologies.gb200_tray(), 3, own_numa_node=expected)


# Texts


def test_bytes_that_are_no_text_are_as_if_nvml_did_not_tell(play: Play) -> None:
    machine = h20().with_card(0, name="NVIDIA \udcff").with_card(1, uuid="GPU-\udcfe").with_card(2, bus="\udcfd")
    found = discover(node="n", root=play(machine))
    assert [gpu_of(found, 0).name, gpu_of(found, 1).uuid, gpu_of(found, 2).pci_bus_id] == ["", "", ""]
    assert (len(found.gpus), found.problem) == (8, "")


def test_control_characters_in_names_are_left_out(play: Play) -> None:
    found = discover(node="n", root=play(h20().with_card(0, name="NVIDIA\x1b[2J H20\t")))
    assert gpu_of(found, 0).name == "NVIDIA[2J H20"


def test_two_gpus_that_claim_one_uuid_are_refused_with_the_reason(play: Play) -> None:
    found = discover(node="n", root=play(l40s().with_card(1, uuid="GPU-00000000-0000-0000-0000-000000000000")))
    assert found == NodeTopology(
        node="n",
        source="nvml",
        driver_version="570.133.20",
        cuda_version="12.8",
        problem="the machine contradicts itself: NVML and sysfs: expected each UUID once, "
        'found "GPU-00000000-0000-0000-0000-000000000000 twice"',
    )
