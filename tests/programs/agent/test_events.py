"""What happened between two looks is told once, in words that people can search for."""

from dataclasses import replace

import pytest

from tests.hardware.topology.machines import (
    a100_pcie_bridged,
    bent,
    dgx1_v100,
    gb200_tray,
    hgx_h100,
    l40s,
    uuid,
    with_switch_links,
    without,
)
from tests.programs.agent.looks import all_links_down, driver_away, look, unlisted
from webhook.hardware.topology.model import UNKNOWN, Fabric, LostGpu, MigMode, NodeTopology, NvLink
from webhook.programs.agent.events import ENTRIES, EventReason, NodeEvent, changes, cordon_events

UUID_0, UUID_2, UUID_3 = (f"GPU-00000000-0000-0000-0000-00000000000{index}" for index in (0, 2, 3))


def told(
    now: NodeTopology, before: NodeTopology | None, *, readable: NodeTopology | None = None
) -> list[tuple[str, str, str]]:
    found = changes(look(now), before=before, readable=readable or before)
    return [("Warning" if event.warning else "Normal", event.reason.value, particulars(event)) for event in found]


def particulars(event: NodeEvent) -> str:
    """The note without what every Event of its reason begins with."""
    beginning = str(ENTRIES[event.reason].say(found=""))
    assert event.note.startswith(beginning)
    return event.note.removeprefix(beginning)


@pytest.mark.parametrize("machine", [hgx_h100, dgx1_v100, gb200_tray, l40s])
def test_a_node_that_stays_as_it_is_has_no_events(machine: object) -> None:
    topology = machine() if callable(machine) else None
    assert isinstance(topology, NodeTopology)
    assert told(topology, topology) == []


def test_a_healthy_node_that_is_seen_for_the_first_time_has_no_events() -> None:
    assert told(hgx_h100(), None) == []


def test_a_pair_that_was_measured_slower_is_told_once() -> None:
    slower = bent(hgx_h100(), 0, slower=(("GPU1", 120_000),))
    expected = [("Warning", "BandwidthBelowExpected", "GPU0-GPU1, 120.0 of 370.8 GB/s")]
    assert told(slower, None) == expected
    assert told(slower, hgx_h100()) == expected
    assert told(slower, slower) == []
    assert told(hgx_h100(), slower) == []
    assert told(bent(hgx_h100(), 0, measured=(("GPU1", 371_000),)), hgx_h100()) == []


def test_links_that_go_down_are_told_with_their_number_before() -> None:
    assert told(with_switch_links(hgx_h100(), 3, 12), hgx_h100()) == [
        ("Warning", "NVLinkDown", f"GPU3 {UUID_3}: 12 of 18 links up, 18 before")
    ]


def test_links_that_come_back_are_told() -> None:
    assert told(hgx_h100(), with_switch_links(hgx_h100(), 3, 12)) == [
        ("Normal", "NVLinkRestored", f"GPU3 {UUID_3}: 18 of 18 links up, 12 before")
    ]


def test_links_that_come_back_in_part_are_told_as_restored() -> None:
    now, before = with_switch_links(hgx_h100(), 3, 16), with_switch_links(hgx_h100(), 3, 12)
    assert told(now, before) == [("Normal", "NVLinkRestored", f"GPU3 {UUID_3}: 16 of 18 links up, 12 before")]


def test_links_that_stay_down_are_not_told_again() -> None:
    broken = with_switch_links(hgx_h100(), 3, 12)
    assert told(broken, broken) == []


def unread(topology: NodeTopology) -> NodeTopology:
    """NVML does not answer when it is asked for the links of GPU3."""
    return bent(topology, 3, nvlinks=(), links_problem="Timeout")


def test_links_that_cannot_be_read_are_not_down() -> None:
    assert told(unread(hgx_h100()), hgx_h100()) == []
    assert told(unread(hgx_h100()), None) == []


def test_links_that_can_be_read_again_are_not_restored() -> None:
    assert told(hgx_h100(), unread(hgx_h100())) == []


def test_links_that_are_down_when_they_can_be_read_again_are_told() -> None:
    assert told(with_switch_links(hgx_h100(), 3, 12), unread(hgx_h100())) == [
        ("Warning", "NVLinkDown", f"GPU3 {UUID_3}: 12 of 18 links up")
    ]


def test_several_gpus_share_one_event() -> None:
    now = with_switch_links(with_switch_links(hgx_h100(), 0, 17), 2, 0)
    assert told(now, hgx_h100()) == [
        (
            "Warning",
            "NVLinkDown",
            f"GPU0 {UUID_0}: 17 of 18 links up, 18 before; GPU2 {UUID_2}: 0 of 18 links up, 18 before",
        )
    ]


def test_all_links_of_a_node_going_down_is_told() -> None:
    (event,) = told(all_links_down(hgx_h100()), hgx_h100())
    assert event[:2] == ("Warning", "NVLinkDown")
    assert event[2].count("0 of 18 links up, 18 before") == 8


def test_one_gpu_may_lose_links_while_another_gets_them_back() -> None:
    now, before = with_switch_links(hgx_h100(), 0, 17), with_switch_links(hgx_h100(), 2, 17)
    assert [event[:2] for event in told(now, before)] == [("Warning", "NVLinkDown"), ("Normal", "NVLinkRestored")]


def test_links_that_were_down_at_the_first_look_are_told() -> None:
    assert told(with_switch_links(hgx_h100(), 3, 12), None) == [
        ("Warning", "NVLinkDown", f"GPU3 {UUID_3}: 12 of 18 links up")
    ]


def test_links_that_nobody_wired_are_not_told() -> None:
    wired = (NvLink(target="nvswitch", count=12, active=12), NvLink(target="unknown", count=6, active=0))
    topology = hgx_h100()
    for gpu in topology.gpus:
        topology = bent(topology, gpu.index, nvlinks=wired)
    assert told(topology, None) == []


def test_the_partner_of_a_card_that_goes_into_mig_mode_is_not_told_of_links() -> None:
    now = bent(a100_pcie_bridged(), 0, mig_mode=MigMode.ENABLED, nvlinks=())
    now = bent(now, 1, nvlinks=(NvLink(target=UNKNOWN, count=12, active=0),))
    assert told(now, a100_pcie_bridged()) == []
    assert told(a100_pcie_bridged(), now) == []


@pytest.mark.parametrize("modes", [(MigMode.DISABLED, MigMode.ENABLED), (MigMode.ENABLED, MigMode.DISABLED)])
def test_who_switches_mig_on_or_off_is_not_told_of_links(modes: tuple[MigMode, MigMode]) -> None:
    before, now = modes
    down = with_switch_links(hgx_h100(), 3, 0)
    topologies = {MigMode.ENABLED: bent(down, 3, mig_mode=MigMode.ENABLED), MigMode.DISABLED: hgx_h100()}
    assert told(topologies[now], topologies[before]) == []


def test_a_gpu_that_is_lost_is_told_with_what_nvml_said() -> None:
    assert told(without(hgx_h100(), 2), hgx_h100()) == [("Warning", "GpuLost", f"GPU2 {UUID_2}: GPU is lost")]


def test_a_gpu_that_stays_lost_is_not_told_again() -> None:
    assert told(without(hgx_h100(), 2), without(hgx_h100(), 2)) == []


def test_a_gpu_that_was_lost_at_the_first_look_is_told() -> None:
    assert told(without(hgx_h100(), 2), None) == [("Warning", "GpuLost", f"GPU2 {UUID_2}: GPU is lost")]


def test_a_gpu_that_returns_is_told() -> None:
    assert told(hgx_h100(), without(hgx_h100(), 2)) == [("Normal", "GpuReturned", f"GPU2 {UUID_2}")]


def test_a_gpu_that_the_driver_no_longer_lists_is_lost() -> None:
    assert told(unlisted(hgx_h100(), 2), hgx_h100()) == [
        ("Warning", "GpuLost", f"GPU2 {UUID_2}: the driver no longer lists it")
    ]


def test_a_lost_gpu_that_the_driver_stops_listing_is_not_lost_twice() -> None:
    assert told(unlisted(hgx_h100(), 2), without(hgx_h100(), 2)) == []


@pytest.mark.parametrize(
    "lost",
    [
        LostGpu(index=2, problem="Unknown Error", pci_bus_id="0000:52:00.0"),
        LostGpu(index=2, problem="Unknown Error"),
    ],
)
def test_a_lost_gpu_without_a_uuid_is_found_again_by_its_place(lost: LostGpu) -> None:
    now = replace(unlisted(hgx_h100(), 2), lost=(lost,))
    assert told(now, hgx_h100()) == [("Warning", "GpuLost", "GPU2: Unknown Error")]
    assert told(now, without(hgx_h100(), 2)) == []
    assert told(hgx_h100(), now) == [("Normal", "GpuReturned", f"GPU2 {UUID_2}")]


def test_a_replaced_card_is_one_lost_and_one_returned() -> None:
    now = bent(hgx_h100(), 2, uuid="GPU-ffffffff-0000-0000-0000-000000000000")
    assert told(now, hgx_h100()) == [
        ("Warning", "GpuLost", f"GPU2 {UUID_2}: the driver no longer lists it"),
        ("Normal", "GpuReturned", "GPU2 GPU-ffffffff-0000-0000-0000-000000000000"),
    ]


def test_gpus_that_only_change_their_index_are_the_same() -> None:
    swapped = {0: uuid(1), 1: uuid(0)}
    now = hgx_h100()
    for index, other in swapped.items():
        now = bent(now, index, uuid=other)
    assert told(now, hgx_h100()) == []


def test_the_state_of_the_fabric_is_told() -> None:
    now = replace(hgx_h100(), fabric=Fabric(state="in-progress"))
    assert told(now, hgx_h100()) == [
        (
            "Warning",
            "FabricStateChanged",
            "in-progress, before completed (success)",
        )
    ]


def test_a_fabric_that_is_complete_again_is_no_warning() -> None:
    before = replace(hgx_h100(), fabric=Fabric(state="in-progress"))
    (event,) = told(hgx_h100(), before)
    assert event[:2] == ("Normal", "FabricStateChanged")


def test_a_fabric_whose_bandwidth_is_degraded_is_a_warning_until_it_is_not() -> None:
    well = Fabric(state="completed", status="success")
    ill = replace(hgx_h100(), fabric=replace(well, ailments=("degraded bandwidth",)))
    (event,) = told(ill, replace(hgx_h100(), fabric=well))
    assert event[:2] == ("Warning", "FabricStateChanged")
    assert "completed (success, degraded bandwidth)" in event[2]
    (event,) = told(replace(hgx_h100(), fabric=well), ill)
    assert event[:2] == ("Normal", "FabricStateChanged")


def test_a_fabric_that_completed_with_an_error_is_a_warning() -> None:
    now = replace(hgx_h100(), fabric=Fabric(state="completed", status="Insufficient Resources"))
    (event,) = told(now, hgx_h100())
    assert event[:2] == ("Warning", "FabricStateChanged")


def test_a_node_that_moves_to_another_clique_is_told() -> None:
    before, now = (
        gb200_tray(),
        replace(gb200_tray(), fabric=replace(gb200_tray().fabric or Fabric(state=""), clique_id=9)),
    )
    (event,) = told(now, before)
    assert event[:2] == ("Normal", "FabricStateChanged")
    assert "completed (success) in clique 9 of cluster 5e3a91c4" in event[2]
    assert "before completed (success) in clique 7 of" in event[2]


def test_a_faulty_fabric_at_the_first_look_is_told() -> None:
    assert told(replace(hgx_h100(), fabric=Fabric(state="not-started")), None) == [
        ("Warning", "FabricStateChanged", "not-started")
    ]


def test_a_fabric_that_nvml_no_longer_tells_of_is_not_told() -> None:
    assert told(replace(hgx_h100(), fabric=None), hgx_h100()) == []


def test_a_driver_that_goes_away_is_one_event_and_no_lost_gpus() -> None:
    assert told(driver_away(hgx_h100()), hgx_h100()) == [
        ("Warning", "TopologyUnreadable", "libnvidia-ml.so.1 is not here")
    ]


def test_a_driver_that_stays_away_is_not_told_again() -> None:
    assert told(driver_away(hgx_h100()), driver_away(hgx_h100()), readable=hgx_h100()) == []


def test_a_node_that_never_had_a_driver_is_not_told() -> None:
    assert told(driver_away(hgx_h100()), None) == []


def test_a_driver_that_returns_is_told() -> None:
    assert told(hgx_h100(), driver_away(hgx_h100()), readable=hgx_h100()) == [("Normal", "TopologyReadable", "8")]


def test_what_a_new_driver_does_not_find_any_more_is_told() -> None:
    now = with_switch_links(unlisted(hgx_h100(), 2), 3, 12)
    assert told(now, driver_away(hgx_h100()), readable=hgx_h100()) == [
        ("Normal", "TopologyReadable", "7"),
        ("Warning", "NVLinkDown", f"GPU3 {UUID_3}: 12 of 18 links up, 18 before"),
        ("Warning", "GpuLost", f"GPU2 {UUID_2}: the driver no longer lists it"),
    ]


def test_after_a_restart_without_a_driver_only_what_is_wrong_is_told() -> None:
    found = changes(look(with_switch_links(hgx_h100(), 3, 12)), before=driver_away(hgx_h100()), readable=None)
    assert [event.reason for event in found] == [EventReason.TOPOLOGY_READABLE, EventReason.NVLINK_DOWN]


def test_a_note_is_never_longer_than_the_api_server_takes() -> None:
    problem = "the driver fell over: é " * 200
    now = replace(driver_away(hgx_h100()), problem=problem)
    ((_, _, note),) = told(now, hgx_h100())
    assert len(note.encode()) == 1024 - len("GT706: the GPUs cannot be read: ")
    assert note.startswith("the driver fell over: ? the driver")
    assert note.endswith("...")


def test_a_cordon_is_told_with_the_uuids() -> None:
    assert cordon_events(["GPU-a", "GPU-b"], ["GPU-c"]) == (
        NodeEvent(EventReason.GPU_CORDONED, "GT708: HAMi allocates no more of these GPUs: GPU-a; GPU-b", True),
        NodeEvent(EventReason.GPU_UNCORDONED, "GT709: HAMi may allocate these GPUs: GPU-c", False),
    )


@pytest.mark.parametrize("reason", list(EventReason))
def test_reasons_are_words_in_camel_case(reason: EventReason) -> None:
    assert reason.value.isalnum()
    assert reason.value[0].isupper()
