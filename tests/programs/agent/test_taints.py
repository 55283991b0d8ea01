"""Rules are made for the devices of ill GPUs alone, and nothing but an own rule is ever changed or deleted."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hardware.topology.machines import bent, hgx_h100, uuid, with_switch_links, without
from tests.programs.agent.looks import look, node_object
from tests.programs.agent.slices import HAMI, NVIDIA, a_device, a_slice, gpus
from webhook.hardware.topology.model import NodeTopology
from webhook.programs.agent.devices import DeviceId, NodeDevices, node_devices
from webhook.programs.agent.illness import Cause, ill_gpus
from webhook.programs.agent.taints import (
    MOST_RULES,
    IllGpu,
    OwnRule,
    Taint,
    TaintChange,
    ill_with_links,
    known_causes,
    own_rules,
    rule_manifest,
    taint_change,
)
from webhook.words.node_names import NAME_LIMIT, taint_rule_name

NODE = node_object("n1")
ILL = IllGpu(uuid=uuid(3), cause=Cause.LINKS, bus_id="0000:61:00.0", links_down=6)
LOST = IllGpu(uuid=uuid(2), cause=Cause.LOST, bus_id="0000:52:00.0")
EIGHT = node_devices([a_slice(*gpus([uuid(index) for index in range(8)]))], "n1")


def stored(manifest: Any, *, version: str = "41") -> Any:
    """A rule as the API server sends it in a list."""
    metadata = manifest["metadata"] | {"uid": "u-1", "resourceVersion": version}
    return {"metadata": metadata, "spec": manifest["spec"]}


def own(gpu: IllGpu, device: DeviceId, **changes: Any) -> OwnRule:
    rule = stored(rule_manifest(device, gpu, NODE))
    rule["spec"]["taint"] |= changes
    (found,) = own_rules([rule], "n1", EIGHT)
    return found


def devices_of(change: TaintChange) -> list[Any]:
    return [rule["spec"]["deviceSelector"]["device"] for rule in change.create]


def test_the_rule_for_a_card_with_links_down() -> None:
    change = taint_change([ILL], [], EIGHT, NODE)
    assert change == TaintChange(
        create=(
            {
                "kind": "DeviceTaintRule",
                "metadata": {
                    "name": "gpu-topology-gpu-4-bb00c5f63e.n1",
                    "labels": {"gpu.topology/node": "n1"},
                    "annotations": {"gpu.topology/gpu-uuid": "GPU-00000000-0000-0000-0000-000000000003"},
                    "ownerReferences": [
                        {
                            "apiVersion": "v1",
                            "kind": "Node",
                            "name": "n1",
                            "uid": "c0ffee00-0000-4000-8000-000000000001",
                        }
                    ],
                },
                "spec": {
                    "deviceSelector": {"driver": "gpu.nvidia.com", "pool": "n1", "device": "gpu-4"},
                    "taint": {"key": "gpu.topology/nvlink-down", "value": "6", "effect": "NoSchedule"},
                },
            },
        )
    )


def test_a_lost_card_has_a_taint_of_another_key() -> None:
    (rule,) = taint_change([LOST], [], EIGHT, NODE).create
    assert rule["spec"]["taint"] == {"key": "gpu.topology/gpu-lost", "value": "", "effect": "NoSchedule"}


def test_without_ill_cards_there_is_nothing_to_do() -> None:
    assert taint_change([], [], EIGHT, NODE) == TaintChange()


def test_the_rule_of_a_card_that_is_well_again_is_deleted() -> None:
    rule = own(ILL, DeviceId(NVIDIA, "n1", "gpu-4"))
    assert taint_change([], [rule], EIGHT, NODE) == TaintChange(delete=(rule,))


def test_a_right_rule_is_not_written_again() -> None:
    assert taint_change([ILL], [own(ILL, DeviceId(NVIDIA, "n1", "gpu-4"))], EIGHT, NODE) == TaintChange()


@pytest.mark.parametrize("effect", ["None", "NoExecute"])
def test_an_effect_that_a_person_set_is_no_reason_to_write(effect: str) -> None:
    rule = own(ILL, DeviceId(NVIDIA, "n1", "gpu-4"), effect=effect)
    assert taint_change([ILL], [rule], EIGHT, NODE) == TaintChange()


def test_a_changed_number_of_links_is_patched_on_the_version_that_was_read_and_leaves_the_effect() -> None:
    rule = own(ILL, DeviceId(NVIDIA, "n1", "gpu-4"))
    worse = IllGpu(uuid=uuid(3), cause=Cause.LINKS, links_down=8)
    (change,) = taint_change([worse], [rule], EIGHT, NODE).change
    assert change.patch == {
        "metadata": {"resourceVersion": "41", "annotations": {"gpu.topology/gpu-uuid": uuid(3)}},
        "spec": {"taint": {"key": "gpu.topology/nvlink-down", "value": "8"}},
    }


def test_links_that_cannot_be_counted_now_leave_the_number() -> None:
    rule = own(ILL, DeviceId(NVIDIA, "n1", "gpu-4"))
    unread = IllGpu(uuid=uuid(3), cause=Cause.LINKS)
    assert taint_change([unread], [rule], EIGHT, NODE) == TaintChange()


def test_a_card_that_is_lost_after_its_links_has_its_key_changed() -> None:
    rule = own(ILL, DeviceId(NVIDIA, "n1", "gpu-4"))
    (change,) = taint_change([IllGpu(uuid=uuid(3), cause=Cause.LOST)], [rule], EIGHT, NODE).change
    assert change.patch["spec"] == {"taint": {"key": "gpu.topology/gpu-lost", "value": ""}}


def test_a_card_that_two_drivers_publish_is_tainted_at_both() -> None:
    both = [a_slice(a_device("gpu-3", uuid=uuid(3))), a_slice(a_device("hami-gpu-3", uuid=uuid(3)), driver=HAMI)]
    assert devices_of(taint_change([ILL], [], node_devices(both, "n1"), NODE)) == ["gpu-3", "hami-gpu-3"]


def test_a_device_without_a_uuid_is_known_by_its_place() -> None:
    slices = [a_slice(a_device("gpu-9", bus="0000:61:00.0"), a_device("gpu-8", bus="0000:62:00.0"))]
    assert devices_of(taint_change([ILL], [], node_devices(slices, "n1"), NODE)) == ["gpu-9"]


def test_another_card_at_the_place_of_the_ill_one_is_not_tainted() -> None:
    found = taint_change(
        [ILL], [], node_devices([a_slice(a_device("gpu-3", uuid="GPU-new", bus="0000:61:00.0"))], "n1"), NODE
    )
    assert found == TaintChange(unmatched=(uuid(3),))


def test_instances_have_no_links_to_lose_and_are_lost_with_their_card() -> None:
    slices = [a_slice(a_device("gpu-0-mig", type="mig", parentUUID=uuid(3), uuid="MIG-1"))]
    devices = node_devices(slices, "n1")
    assert taint_change([ILL], [], devices, NODE).create == ()
    assert devices_of(taint_change([IllGpu(uuid=uuid(3), cause=Cause.LOST)], [], devices, NODE)) == ["gpu-0-mig"]


def test_while_a_pool_is_incomplete_the_rule_of_an_ill_card_stays_and_that_of_a_well_one_goes() -> None:
    rule = own(ILL, DeviceId(NVIDIA, "n1", "gpu-4"))
    incomplete = node_devices([a_slice(a_device("gpu-4", uuid="GPU-new"), generation=2, count=2)], "n1")
    assert taint_change([ILL], [rule], incomplete, NODE) == TaintChange()
    assert taint_change([], [rule], incomplete, NODE).delete == (rule,)


def test_a_card_that_got_another_name_has_its_rule_moved() -> None:
    rule = own(ILL, DeviceId(NVIDIA, "n1", "gpu-6"))
    change = taint_change([ILL], [rule], EIGHT, NODE)
    assert (change.delete, devices_of(change)) == ((rule,), ["gpu-4"])


def test_a_node_has_a_bounded_number_of_rules() -> None:
    many = a_slice(*(a_device(f"d-{number}", uuid=uuid(3)) for number in range(MOST_RULES + 7)))
    change = taint_change([ILL], [], node_devices([many], "n1"), NODE)
    assert (len(change.create), change.left_out) == (MOST_RULES, 7)


@pytest.mark.parametrize(
    "device", [DeviceId("", "n1", "gpu-3"), DeviceId(NVIDIA, "", "gpu-3"), DeviceId(NVIDIA, "n1", "")]
)
def test_no_rule_is_made_that_would_taint_more_than_one_device(device: DeviceId) -> None:
    with pytest.raises(ValueError, match="expected driver, pool and name of a device, found"):
        rule_manifest(device, ILL, NODE)


def forged(case: str) -> Any:
    """A rule that the agent would have made, but for one thing."""
    rule = stored(rule_manifest(DeviceId(NVIDIA, "n1", "gpu-4"), ILL, NODE))
    selector = rule["spec"]["deviceSelector"]
    if case == "name":
        rule["metadata"]["name"] = "of-an-admin"
    elif case == "label":
        rule["metadata"]["labels"] = {"gpu.topology/node": "n2"}
    elif case == "no label":
        del rule["metadata"]["labels"]
    elif case == "key":
        rule["spec"]["taint"]["key"] = "example.com/x"
    elif case == "no selector":
        rule["spec"]["deviceSelector"] = {}
    elif case == "another device":
        selector["device"] = "gpu-5"
    elif case == "pool of another node":
        selector["pool"] = "n2"
        rule["metadata"]["name"] = taint_rule_name("n1", NVIDIA, "n2", "gpu-4")
    elif case in selector:
        del selector[case]
    return rule


@pytest.mark.parametrize(
    "case",
    [
        "name",
        "label",
        "no label",
        "key",
        "no selector",
        "driver",
        "pool",
        "device",
        "another device",
        "pool of another node",
    ],
)
def test_a_rule_that_differs_in_what_makes_it_the_agents_is_not_its_own(case: str) -> None:
    assert own_rules([forged(case)], "n1", EIGHT) == ()
    assert len(own_rules([forged("nothing")], "n1", EIGHT)) == 1


def test_a_rule_is_its_own_although_its_driver_is_away_where_the_pool_is_called_like_the_node() -> None:
    assert len(own_rules([forged("nothing")], "n1", NodeDevices())) == 1


def test_rules_remember_which_cards_were_ill() -> None:
    rules = [own(ILL, DeviceId(NVIDIA, "n1", "gpu-4")), own(LOST, DeviceId(NVIDIA, "n1", "gpu-5"))]
    assert known_causes(rules, EIGHT) == {uuid(3): Cause.LINKS, uuid(2): Cause.LOST}


def test_where_a_rule_no_longer_names_its_card_its_device_does() -> None:
    rule = stored(rule_manifest(DeviceId(NVIDIA, "n1", "gpu-4"), ILL, NODE))
    del rule["metadata"]["annotations"]
    assert known_causes(own_rules([rule], "n1", EIGHT), EIGHT) == {uuid(3): Cause.LINKS}


def ill(topology: NodeTopology) -> tuple[IllGpu, ...]:
    return ill_with_links(ill_gpus(look(topology), None, known={}, kept=()), topology)


def test_what_is_ill_is_what_a_cordon_would_list() -> None:
    topology = with_switch_links(without(hgx_h100(), 2), 3, 12)
    assert ill(topology) == (ILL, LOST)
    assert ill(hgx_h100()) == ()


def test_links_that_cannot_be_read_are_not_counted() -> None:
    unread = bent(hgx_h100(), 3, nvlinks=(), links_problem="Timeout")
    (gpu,) = ill_with_links({uuid(3): Cause.LINKS}, unread, hgx_h100())
    assert gpu == IllGpu(uuid=uuid(3), cause=Cause.LINKS, bus_id="0000:61:00.0", links_down=None)


def test_names_of_rules_are_those_of_one_device_and_fit() -> None:
    assert taint_rule_name("a-b", "d", "p", "c") != taint_rule_name("a", "d", "p", "b-c")
    assert taint_rule_name("n1", "d", "p", "c") != taint_rule_name("n1", "e", "p", "c")
    assert taint_rule_name("rack.n1", "d", "p", "c").partition(".")[2] == "rack.n1"
    long = taint_rule_name("n" * 250 + ".x", "d", "p", "d" * 63)
    assert len(long) == NAME_LIMIT
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", long)


CARDS = st.sampled_from([uuid(index) for index in range(4)])
OTHERS = st.builds(
    lambda name, label, selector, key: {
        "metadata": {"name": name, "uid": "x", "resourceVersion": "1", "labels": {"gpu.topology/node": label}},
        "spec": {"deviceSelector": selector, "taint": {"key": key, "value": "", "effect": "NoSchedule"}},
    },
    st.sampled_from(
        ["of-an-admin", taint_rule_name("n1", NVIDIA, "n1", "gpu-0"), taint_rule_name("n2", NVIDIA, "n2", "gpu-0")]
    ),
    st.sampled_from(["n1", "n2", ""]),
    st.dictionaries(st.sampled_from(["driver", "pool", "device"]), st.sampled_from([NVIDIA, "n1", "n2", "gpu-0", ""])),
    st.sampled_from(["gpu.topology/nvlink-down", "gpu.topology/gpu-lost", "example.com/x"]),
)


@given(
    published=st.dictionaries(st.sampled_from(["gpu-0", "gpu-1", "gpu-2", "gpu-3"]), CARDS),
    before=st.dictionaries(CARDS, st.sampled_from(list(Cause))),
    now=st.dictionaries(CARDS, st.sampled_from(list(Cause))),
    count=st.sampled_from([1, 2]),
    others=st.lists(OTHERS, max_size=3),
)
def test_exactly_the_devices_of_ill_cards_are_tainted_each_by_a_whole_selector_and_others_are_left_alone(
    published: dict[str, str], before: dict[str, Cause], now: dict[str, Cause], count: int, others: list[Any]
) -> None:
    full = [a_slice(*(a_device(name, uuid=card) for name, card in published.items()))]
    cluster = {
        rule["metadata"]["name"]: stored(rule)
        for rule in taint_change(ill_of(before), [], node_devices(full, "n1"), NODE).create
    }
    cluster |= {rule["metadata"]["name"]: rule for rule in others if rule["metadata"]["name"] not in cluster}
    devices = node_devices([a_slice(*full[0]["spec"]["devices"], count=count)], "n1")
    mine = {rule.name for rule in own_rules(cluster.values(), "n1", devices)}
    change = taint_change(ill_of(now), own_rules(cluster.values(), "n1", devices), devices, NODE)
    assert {rule.name for rule in change.delete} | {each.rule.name for each in change.change} <= mine
    for rule in change.create:
        assert all(rule["spec"]["deviceSelector"][part] for part in ("driver", "pool", "device"))
    if count == 1:
        after = {name: rule for name, rule in cluster.items() if name in mine}
        for gone in change.delete:
            del after[gone.name]
        tainted = {rule["spec"]["deviceSelector"]["device"] for rule in (*after.values(), *change.create)}
        assert tainted == {name for name, card in published.items() if card in now}


def ill_of(causes: dict[str, Cause]) -> list[IllGpu]:
    return [IllGpu(uuid=card, cause=cause, links_down=2) for card, cause in causes.items()]


def test_the_taint_of_a_lost_card_has_no_number() -> None:
    assert LOST.taint(Taint("gpu.topology/nvlink-down", "3")) == Taint("gpu.topology/gpu-lost", "")
