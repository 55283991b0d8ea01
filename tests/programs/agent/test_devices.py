"""What ResourceSlices say of a node: the newest complete generation of each pool, and nothing that is not sure."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.programs.agent.slices import HAMI, NVIDIA, a_device, a_slice
from webhook.programs.agent.devices import Device, DeviceId, NodeDevices, Pool, node_devices, normal_bus_id

POOL = Pool(NVIDIA, "n1")


def names(*slices: Any) -> list[str]:
    return [device.id.device for device in node_devices(slices, "n1").devices]


def test_a_slice_as_nvidias_driver_publishes_it() -> None:
    published = a_slice(a_device("gpu-0", type="gpu", uuid="GPU-01000100", productName="H100", bus="0000:1a:00.0"))
    assert node_devices([published], "n1") == NodeDevices(
        devices=(Device(id=DeviceId(NVIDIA, "n1", "gpu-0"), uuid="GPU-01000100", bus_id="0000:1a:00.0"),),
        pools=frozenset({POOL}),
        complete=frozenset({POOL}),
    )


def test_a_slice_as_hamis_driver_publishes_it() -> None:
    published = a_slice(a_device("hami-gpu-0", uuid="GPU-1", pcieBusID="00000000:4A:00.0"), driver=HAMI)
    (device,) = node_devices([published], "n1").devices
    assert (device.uuid, device.bus_id) == ("GPU-1", "0000:4a:00.0")


def test_an_attribute_may_spell_out_the_domain_of_its_driver() -> None:
    (device,) = node_devices([a_slice(a_device("gpu-0", **{f"{NVIDIA}/uuid": "GPU-1"}))], "n1").devices
    assert device.uuid == "GPU-1"


def test_the_attribute_of_another_domain_is_not_taken() -> None:
    (device,) = node_devices([a_slice(a_device("gpu-0", **{"example.com/uuid": "GPU-1"}))], "n1").devices
    assert device.uuid == ""


def test_an_instance_names_its_gpu() -> None:
    mig = a_device("gpu-0-mig-1g24gb-19-0", type="mig", parentUUID="GPU-1")
    (device,) = node_devices([a_slice(mig)], "n1").devices
    assert (device.parent, device.is_instance) == ("GPU-1", True)


def test_only_the_newest_generation_counts() -> None:
    assert names(a_slice(a_device("old")), a_slice(a_device("new"), generation=2)) == ["new"]


def test_while_the_newest_generation_is_incomplete_nothing_is_known() -> None:
    found = node_devices([a_slice(a_device("old")), a_slice(a_device("new"), generation=2, count=2)], "n1")
    assert found == NodeDevices(devices=(), pools=frozenset({POOL}), complete=frozenset())


def test_the_slices_of_a_pool_belong_together() -> None:
    assert names(a_slice(a_device("a"), count=2), a_slice(a_device("b"), count=2)) == ["a", "b"]


def test_a_slice_with_counters_alone_is_a_part_of_its_pool() -> None:
    counters = a_slice(count=2)
    del counters["spec"]["devices"]
    assert names(counters, a_slice(a_device("a"), count=2)) == ["a"]


def test_pools_are_complete_each_for_itself() -> None:
    assert names(a_slice(a_device("a"), count=2), a_slice(a_device("b"), driver=HAMI)) == ["b"]


def test_slices_of_other_nodes_do_not_count() -> None:
    assert node_devices([a_slice(a_device("a"), node="n2")], "n1") == NodeDevices()


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("00000000:4A:00.0", "0000:4a:00.0"),
        ("0000:4a:00.0", "0000:4a:00.0"),
        ("00010000:01:00.0", "10000:01:00.0"),
        ("", ""),
        ("4a", ""),
    ],
)
def test_bus_ids_are_written_as_sysfs_does(text: str, normal: str) -> None:
    assert normal_bus_id(text) == normal


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["spec", "driver", "pool", "name", "generation", "devices", "attributes", "uuid", "string"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.lists(st.dictionaries(st.sampled_from(["spec", "metadata"]), ANYTHING, max_size=2), max_size=4))
def test_no_slice_is_too_odd_and_every_device_has_a_whole_name(slices: list[Any]) -> None:
    assert all(all(device.id) for device in node_devices(slices, "n1").devices)
