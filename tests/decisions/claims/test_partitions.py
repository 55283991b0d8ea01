"""Partitions of the NVSwitches: what slices say of them, and which claims NVIDIA's driver then refuses to prepare."""

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.decisions.claims.cases import SETTINGS, case
from webhook.decisions.claims.slices import Pools, PublishedDevice, are_one_partition, slice_part
from webhook.objects.claims import decode_slice

HALVES = ("0123", "01", "23", "0", "1", "2", "3")


def device(attributes: Mapping[str, Any], kind: str = "gpu") -> PublishedDevice:
    every = {"type": {"string": kind}, "uuid": {"string": "GPU-0"}, "parentUUID": {"string": "GPU-0"}, **attributes}
    spec = {"driver": "gpu.nvidia.com", "pool": {"name": "n"}, "devices": [{"name": "d", "attributes": every}]}
    found = slice_part(decode_slice(json.dumps({"spec": spec}).encode(), "slice"), SETTINGS)
    assert found
    return found.devices["d"]


@pytest.mark.parametrize(
    ("attributes", "partitions"),
    [
        ({}, None),
        ({"gpuModuleID": {"int": 1}}, {}),
        ({"gpuModuleID": {"int": 1}, "partition4": {"int": 2}, "partition8": {"int": 0}}, {4: 2, 8: 0}),
        ({"gpu.nvidia.com/gpuModuleID": {"int": 1}, "gpu.nvidia.com/partition2": {"int": 9}}, {2: 9}),
        ({"gpuModuleID": {"string": "1"}, "partition4": {"string": "2"}}, None),
        ({"partition4": {"bool": True}, "other.example.com/partition2": {"int": 1}}, None),
        (
            {"partition": {"int": 1}, "partition0": {"int": 1}, "partition04": {"int": 1}, "partition-1": {"int": 1}},
            None,
        ),
        (
            {"partition100": {"int": 1}, "partition٤": {"int": 1}, "partition4 ": {"int": 1}, "Partition4": {"int": 1}},
            None,
        ),
    ],
)
def test_partitions_are_read_by_their_size(attributes: Mapping[str, Any], partitions: Mapping[int, int] | None) -> None:
    assert device(attributes).partitions == partitions
    assert device(attributes, "mig").partitions is None


@given(st.permutations(range(8)), st.sets(st.integers(0, 7), min_size=1), st.sampled_from([(8, 4, 2, 1), (8, 3), (2,)]))
def test_a_set_is_one_partition_where_the_driver_finds_one_with_just_these_members(
    order: list[int], chosen: set[int], sizes: tuple[int, ...]
) -> None:
    """The driver compares members; the slices tell only numbers. Not every GPU is in a partition of each size."""
    partitions = [set(order[at : at + size]) for size in sizes for at in range(0, 9 - size, size)]
    gpus = [
        PublishedDevice(
            f"GPU-{gpu}", True, {}, {len(each): number for number, each in enumerate(partitions) if gpu in each}
        )
        for gpu in sorted(chosen)
    ]
    assert are_one_partition(gpus) is (chosen in partitions)


@pytest.mark.parametrize(
    ("name", "partitions", "code"),
    [  # The devices of these claims: 0 and 1; 1 and 2 and, by another request, 0; 1.
        ("first-available", None, None),
        ("first-available", (), None),
        ("first-available", HALVES, None),
        ("first-available", ("0123", "23"), "GT276"),
        ("first-available", ("0123", "02", "13"), "GT276"),
        ("two-containers-one-claim", HALVES, "GT276"),
        ("two-requests-one-claim", HALVES, "GT276"),
        ("two-requests-one-claim", ("012",), None),
        ("template-one", HALVES, None),
        ("template-one", ("0123", "01", "23"), "GT276"),
        ("admin-access", ("0123",), None),
        ("mig", ("0123",), None),
    ],
)
def test_a_claim_has_to_be_exactly_one_partition_where_slices_carry_them(
    name: str, partitions: tuple[str, ...] | None, code: str | None
) -> None:
    given = case(name, partitions).given
    assert (given.no_partition.code if given.no_partition else None) == code
    assert msgspec.structs.replace(given, no_partition=None) == case(name).given


def test_a_claim_that_looks_at_gpus_of_others_too_is_prepared() -> None:
    it = case("two-requests-one-claim", HALVES)
    [(name, claim)] = it.claims.items()
    allocation = claim.allocation
    assert allocation
    assert allocation.results
    first, *others = allocation.results
    looking = msgspec.structs.replace(first, admin_access=True)
    changed = msgspec.structs.replace(allocation, results=[looking, *others])
    assert claim.status
    assert claim.status.allocation
    whole = msgspec.structs.replace(claim.status.allocation, devices=changed)
    status = msgspec.structs.replace(claim.status, allocation=whole)
    found = it._replace(claims={name: msgspec.structs.replace(claim, status=status)})
    assert it.given.no_partition
    assert found.given.no_partition is None


def test_gpus_of_a_node_are_known_only_where_its_pool_is_complete() -> None:
    def gpus(name: str, node: str = "a100-bridged") -> list[PublishedDevice] | None:
        return case(name).pools.whole_gpus("gpu.nvidia.com", node)

    assert len(gpus("template-one") or ()) == 4
    assert len(gpus("two-slices") or ()) == 4
    assert len(gpus("mig") or ()) == 3
    assert gpus("incomplete-generation") is None
    assert gpus("template-one", "other") is None
    assert Pools().whole_gpus("gpu.nvidia.com", "") is None
