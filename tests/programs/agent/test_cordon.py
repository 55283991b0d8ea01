"""The agent has HAMi leave ill GPUs alone, and takes back nothing but what it wrote itself."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hardware.topology.machines import (
    a100_pcie_bridged,
    bent,
    dgx1_v100,
    hgx_h100,
    l40s,
    uuid,
    with_switch_links,
    without,
)
from tests.programs.agent.looks import all_links_down, driver_away, look, unlisted
from webhook.hardware.topology.model import UNKNOWN, LostGpu, MigMode, NodeTopology, NvLink
from webhook.programs.agent.cordon import CordonChange, cordon_change

UUID_0, UUID_2, UUID_3 = (f"GPU-00000000-0000-0000-0000-00000000000{index}" for index in (0, 2, 3))
ADMINISTRATORS = "GPU-of-an-admin, GPU-of-another"


def change(
    now: NodeTopology,
    *,
    before: NodeTopology | None = None,
    listed: str | None = None,
    own: str | None = None,
    enabled: bool = True,
) -> CordonChange | None:
    found = {"hami.io/device-cordon": listed, "gpu.topology/cordoned": own, "other": "annotation"}
    annotations = {key: value for key, value in found.items() if value is not None}
    return cordon_change(annotations, look(now), before=before, enabled=enabled)


def test_a_gpu_with_fewer_links_than_its_peers_is_cordoned() -> None:
    assert change(with_switch_links(hgx_h100(), 3, 12)) == CordonChange(
        device_cordon=UUID_3, cordoned=f"{UUID_3}=links", added=(UUID_3,)
    )


def test_a_lost_gpu_is_cordoned() -> None:
    assert change(without(hgx_h100(), 2)) == CordonChange(
        device_cordon=UUID_2, cordoned=f"{UUID_2}=lost", added=(UUID_2,)
    )


def test_both_ends_of_a_broken_link_are_cordoned() -> None:
    topology = dgx1_v100()
    for index, peer in ((0, 3), (3, 0)):
        links = tuple(
            replace(link, active=link.active - 1) if link.target == f"GPU{peer}" else link
            for link in topology.gpus[index].nvlinks
        )
        topology = bent(topology, index, nvlinks=links)
    found = change(topology)
    assert found is not None
    assert found.device_cordon == f"{UUID_0},{UUID_3}"


@pytest.mark.parametrize("topology", [hgx_h100(), l40s(), a100_pcie_bridged(), all_links_down(hgx_h100())])
def test_a_node_without_ill_gpus_is_left_alone(topology: NodeTopology) -> None:
    assert change(topology) is None
    assert change(topology, listed=ADMINISTRATORS) is None


def unread(topology: NodeTopology, *indices: int) -> NodeTopology:
    """NVML does not answer when it is asked for the links of these GPUs."""
    for index in indices:
        topology = bent(topology, index, nvlinks=(), links_problem="Timeout")
    return topology


@pytest.mark.parametrize("indices", [(3,), range(8)])
def test_a_gpu_whose_links_cannot_be_read_is_not_cordoned(indices: tuple[int, ...]) -> None:
    assert change(unread(hgx_h100(), *indices), before=hgx_h100()) is None


def test_a_gpu_whose_links_cannot_be_read_stays_cordoned() -> None:
    assert change(unread(hgx_h100(), 3), listed=UUID_3, own=f"{UUID_3}=links") is None


def test_a_gpu_that_was_lost_is_back_although_its_links_cannot_be_read() -> None:
    found = change(unread(hgx_h100(), 3), listed=UUID_3, own=f"{UUID_3}=lost")
    assert found == CordonChange(device_cordon=None, cordoned=None, removed=(UUID_3,))


def test_links_that_are_all_down_count_if_they_were_up_before() -> None:
    found = change(all_links_down(a100_pcie_bridged()), before=a100_pcie_bridged())
    assert found is not None
    assert found.added == tuple(uuid(index) for index in range(4))


def test_a_gpu_whose_links_are_all_down_stays_cordoned_after_a_restart() -> None:
    down = all_links_down(a100_pcie_bridged())
    assert change(down, before=down, listed=uuid(0), own=f"{uuid(0)}=links") is None


def test_a_lost_gpu_without_links_is_well_when_it_returns() -> None:
    assert change(l40s(), listed=UUID_2, own=f"{UUID_2}=lost") == CordonChange(
        device_cordon=None, cordoned=None, removed=(UUID_2,)
    )


def test_a_gpu_that_the_driver_no_longer_lists_is_cordoned_and_stays_so() -> None:
    assert change(unlisted(hgx_h100(), 2), before=hgx_h100()) == CordonChange(
        device_cordon=UUID_2, cordoned=f"{UUID_2}=lost", added=(UUID_2,)
    )
    assert change(unlisted(hgx_h100(), 2), listed=UUID_2, own=f"{UUID_2}=lost") is None


def test_a_lost_gpu_without_a_uuid_is_known_from_before() -> None:
    now = replace(unlisted(hgx_h100(), 2), lost=(LostGpu(index=2, problem="lost", pci_bus_id="0000:52:00.0"),))
    found = change(now, before=hgx_h100())
    assert found is not None
    assert found.added == (UUID_2,)
    assert change(now) is None


def partner_without_links(topology: NodeTopology) -> NodeTopology:
    """GPU1, whose bridge leads to GPU0 alone."""
    return bent(topology, 1, nvlinks=(NvLink(target=UNKNOWN, count=12, active=0),))


@pytest.mark.parametrize("before", [None, a100_pcie_bridged()], ids=["at the first look", "known from before"])
def test_the_partner_of_a_lost_card_is_not_cordoned(before: NodeTopology | None) -> None:
    now = partner_without_links(without(a100_pcie_bridged(), 0))
    assert change(now, before=before) == CordonChange(device_cordon=UUID_0, cordoned=f"{UUID_0}=lost", added=(UUID_0,))


def test_the_partner_of_a_card_that_is_gone_is_not_cordoned() -> None:
    now = partner_without_links(unlisted(a100_pcie_bridged(), 0))
    assert change(now, before=a100_pcie_bridged()) == CordonChange(
        device_cordon=UUID_0, cordoned=f"{UUID_0}=lost", added=(UUID_0,)
    )


def test_the_partner_of_a_card_in_mig_mode_is_not_cordoned() -> None:
    now = partner_without_links(bent(a100_pcie_bridged(), 0, mig_mode=MigMode.ENABLED, nvlinks=()))
    assert change(now, before=a100_pcie_bridged()) is None


def test_a_gpu_on_switches_is_cordoned_although_another_one_is_lost() -> None:
    now = with_switch_links(without(hgx_h100(), 2), 3, 12)
    assert change(now) == CordonChange(
        device_cordon=f"{UUID_3},{UUID_2}", cordoned=f"{UUID_3}=links,{UUID_2}=lost", added=(UUID_3, UUID_2)
    )


def test_entries_of_administrators_stay_in_their_order() -> None:
    assert change(with_switch_links(hgx_h100(), 3, 12), listed=ADMINISTRATORS) == CordonChange(
        device_cordon=f"GPU-of-an-admin,GPU-of-another,{UUID_3}", cordoned=f"{UUID_3}=links", added=(UUID_3,)
    )
    healed = change(hgx_h100(), listed=f"GPU-of-an-admin,{UUID_3},GPU-of-another", own=f"{UUID_3}=links")
    assert healed == CordonChange(device_cordon="GPU-of-an-admin,GPU-of-another", cordoned=None, removed=(UUID_3,))


def test_a_gpu_that_an_administrator_cordoned_is_never_taken_for_our_own() -> None:
    assert change(with_switch_links(hgx_h100(), 3, 12), listed=UUID_3) is None
    assert change(hgx_h100(), listed=UUID_3) is None


def test_a_healed_gpu_leaves_the_others_cordoned() -> None:
    found = change(
        with_switch_links(hgx_h100(), 3, 12),
        listed=f"{UUID_0},{UUID_3}",
        own=f"{UUID_0}=links,{UUID_3}=links",
    )
    assert found == CordonChange(device_cordon=UUID_3, cordoned=f"{UUID_3}=links", removed=(UUID_0,))


def test_an_entry_that_somebody_took_out_stays_out_while_the_gpu_is_ill() -> None:
    assert change(with_switch_links(hgx_h100(), 3, 12), own=f"{UUID_3}=links") is None
    assert change(with_switch_links(hgx_h100(), 3, 12), listed="GPU-of-an-admin", own=f"{UUID_3}=links") is None


def test_once_such_a_gpu_is_well_it_may_be_cordoned_again() -> None:
    assert change(hgx_h100(), listed="GPU-of-an-admin", own=f"{UUID_3}=links") == CordonChange(
        device_cordon="GPU-of-an-admin", cordoned=None
    )


def test_an_uncordoned_card_that_is_gone_is_forgotten() -> None:
    assert change(hgx_h100(), own="GPU-replaced=lost") == CordonChange(device_cordon=None, cordoned=None)


def test_a_gpu_that_is_lost_after_its_links_failed_stays_cordoned() -> None:
    assert change(without(hgx_h100(), 2), listed=UUID_2, own=f"{UUID_2}=links") == CordonChange(
        device_cordon=UUID_2, cordoned=f"{UUID_2}=lost"
    )


def test_without_a_driver_nothing_changes() -> None:
    away = driver_away(hgx_h100())
    assert change(away, before=hgx_h100()) is None
    assert change(away, before=hgx_h100(), listed=UUID_2, own=f"{UUID_2}=links") is None


def test_mig_mode_heals() -> None:
    mig = bent(with_switch_links(hgx_h100(), 3, 0), 3, mig_mode=MigMode.ENABLED)
    found = change(mig, listed=UUID_3, own=f"{UUID_3}=links")
    assert found is not None
    assert found.removed == (UUID_3,)


def test_who_may_not_cordon_does_not() -> None:
    assert change(with_switch_links(hgx_h100(), 3, 12), enabled=False) is None
    assert change(without(hgx_h100(), 2), listed=ADMINISTRATORS, enabled=False) is None


@pytest.mark.parametrize("topology", [with_switch_links(hgx_h100(), 3, 12), driver_away(hgx_h100())])
def test_who_may_no_longer_cordon_takes_its_entries_back(topology: NodeTopology) -> None:
    found = change(topology, listed=f"GPU-of-an-admin,{UUID_3}", own=f"{UUID_3}=links", enabled=False)
    assert found == CordonChange(device_cordon="GPU-of-an-admin", cordoned=None, removed=(UUID_3,))


@pytest.mark.parametrize("own", ["", " , ,", f"{UUID_3}", f"{UUID_3}=nonsense", f" {UUID_3}=links , "])
def test_a_record_that_somebody_edited_is_read_kindly(own: str) -> None:
    found = change(hgx_h100(), listed=f"GPU-of-an-admin,{UUID_3}", own=own)
    if UUID_3 in own:
        assert found == CordonChange(device_cordon="GPU-of-an-admin", cordoned=None, removed=(UUID_3,))
    else:
        assert found is None


def test_a_gpu_without_links_and_without_a_uuid_is_nobody() -> None:
    nameless = bent(bent(hgx_h100(), 3, uuid=""), 3, nvlinks=(NvLink(target="nvswitch", count=18, active=2),))
    assert change(nameless) is None


ENTRIES = st.lists(st.sampled_from([uuid(index) for index in range(8)] + ["GPU-x", "MIG-y"]), max_size=6)


@given(listed=ENTRIES, own=ENTRIES, active=st.lists(st.sampled_from([0, 12, 18]), min_size=8, max_size=8))
def test_no_entry_of_others_is_lost_and_a_second_look_changes_nothing(
    listed: list[str], own: list[str], active: list[int]
) -> None:
    topology = hgx_h100()
    for index, links in enumerate(active):
        topology = with_switch_links(topology, index, links)
    record = ",".join(f"{entry}=links" for entry in own)
    found = change(topology, listed=",".join(listed), own=record)
    if found is None:
        return
    after = (found.device_cordon or "").split(",")
    others = [entry for entry in dict.fromkeys(listed) if entry not in own]
    assert [entry for entry in after if entry in others] == others
    assert set(after) - {""} <= {*listed, *found.added}
    assert change(topology, listed=found.device_cordon, own=found.cordoned) is None
