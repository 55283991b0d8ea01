"""ResourceSlices in memory: which devices are found, and what is kept of slices that change, or are too many."""

import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest

from tests.cluster.state.test_cluster import Live
from tests.pods import Manifest
from webhook.cluster.state.cache import Limit
from webhook.cluster.state.cluster import ClusterState
from webhook.cluster.state.slices import POOLS_KEPT, DriverSlices, MirroredPools
from webhook.decisions.claims.slices import MissingDevice
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.decisions.configuration import ClaimSettings
from webhook.words.errors import StateUnknown

DRIVER = "gpu.nvidia.com"
ENOUGH = Limit(1000, 1_000_000)


class Seen(NamedTuple):
    name: str
    version: int
    document: bytes


def manifest(*devices: str, node: str | None = "n1", pool: str = "n1", generation: int = 1, **spec: Any) -> Manifest:
    """A slice of whole GPUs, whose UUIDs are GPU- and the name of the device."""
    return {
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": pool, "generation": generation, "resourceSliceCount": 1},
            "devices": [
                {"name": name, "attributes": {"type": {"string": "gpu"}, "uuid": {"string": f"GPU-{name}"}}}
                for name in devices
            ],
            **spec,
        }
    }


@dataclass
class Site:
    """The slices of one driver."""

    limit: Limit = ENOUGH
    of_node: Limit = ENOUGH
    said: list[str] = field(default_factory=list)
    version: int = 0
    slices: DriverSlices = field(init=False)

    def __post_init__(self) -> None:
        self.slices = DriverSlices(
            DRIVER,
            ClaimSettings(),
            tell=self.said.append,
            clock=lambda: 0.0,
            limit=self.limit,
            of_node=self.of_node,
        )

    def put(self, name: str, document: Manifest) -> bool:
        self.version += 1
        return self.slices.cache.put(Seen(name, self.version, json.dumps(document).encode()))

    def drop(self, name: str) -> None:
        self.version += 1
        self.slices.cache.drop(Seen(name, self.version, b"{}"))

    def uuid(self, device: str, *, pool: str = "n1", node: str = "n1") -> str:
        return MirroredPools({DRIVER: self.slices}).device(DRIVER, pool, device, node=node).uuid

    def missing(self, device: str, **where: str) -> str:
        with pytest.raises(MissingDevice, match=r"pool") as caught:
            self.uuid(device, **where)
        return caught.value.message.code


def test_a_device_is_found_by_its_name() -> None:
    site = Site()
    site.put("a", manifest("gpu-0", "gpu-1"))
    assert site.uuid("gpu-1") == "GPU-gpu-1"
    assert site.missing("gpu-2") == "GT271"


def test_what_is_published_anew_is_found_at_once() -> None:
    site = Site()
    site.put("a", manifest("gpu-0"))
    assert site.missing("gpu-1") == "GT271"
    site.put("a", manifest("gpu-0", "gpu-1", generation=2))
    assert site.uuid("gpu-1") == "GPU-gpu-1"
    site.drop("a")
    assert site.missing("gpu-1") == "GT269"


def test_a_slice_that_moves_to_another_pool_is_found_there_alone() -> None:
    site = Site()
    site.put("a", manifest("gpu-0"))
    assert site.uuid("gpu-0") == "GPU-gpu-0"
    site.put("a", manifest("gpu-0", pool="n2", node="n2"))
    assert site.missing("gpu-0") == "GT269"
    assert site.uuid("gpu-0", pool="n2", node="n2") == "GPU-gpu-0"


def test_a_slice_of_another_node_cannot_take_a_pool_away() -> None:
    """Each node's driver may write slices of its own node, under any name of a pool."""
    site = Site()
    site.put("a", manifest("gpu-0"))
    site.put("forged", manifest("gpu-0", node="n2", generation=99))
    assert site.uuid("gpu-0") == "GPU-gpu-0"


@pytest.mark.parametrize(
    "place",
    [{"allNodes": True}, {"nodeSelector": {"nodeSelectorTerms": []}}, {"perDeviceNodeSelection": True}],
    ids=lambda place: next(iter(place)),
)
@pytest.mark.parametrize("is_first", [True, False])
def test_a_slice_without_a_node_cannot_take_the_pool_of_a_node_away(place: Manifest, is_first: bool) -> None:
    """With a newer generation that is never complete: kube-scheduler reads no other slices of the pool then."""
    site = Site()
    forged = manifest("gpu-0", node=None, **place)
    forged["spec"] |= {"pool": {"name": "n1", "generation": 2**63 - 1, "resourceSliceCount": 2**31}}
    own = manifest("gpu-0")
    for name, document in (("a", forged), ("b", own)) if is_first else (("b", own), ("a", forged)):
        site.put(name, document)
    assert site.uuid("gpu-0") == "GPU-gpu-0"
    assert site.missing("gpu-0", node="n2") == "GT270"
    site.drop("b")
    assert site.missing("gpu-0") == "GT270"


def test_devices_that_every_node_reaches_are_found_from_each() -> None:
    site = Site()
    site.put("a", manifest("gpu-0", node=None, pool="shared", allNodes=True))
    assert site.uuid("gpu-0", pool="shared", node="n7") == "GPU-gpu-0"


def test_the_devices_of_an_unknown_node_are_those_of_all() -> None:
    site = Site()
    site.put("a", manifest("gpu-0"))
    assert site.uuid("gpu-0", node="") == "GPU-gpu-0"


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"spec": 7}, "expected a ResourceSlice"),
        (manifest("gpu-0", driver="nic.example.com"), "expected gpu.nvidia.com"),
        (manifest("gpu-0", generation=2**70), "expected numbers of 64 bits"),
    ],
    ids=["no slice", "another driver", "a great number"],
)
def test_a_slice_that_cannot_be_read_is_told_of_and_takes_nothing_with_it(document: Manifest, problem: str) -> None:
    site = Site()
    site.put("a", manifest("gpu-0"))
    site.put("b", document)
    assert site.uuid("gpu-0") == "GPU-gpu-0"
    (said,) = site.said
    assert said.startswith(f"resourceslices/{DRIVER}: b: ResourceSlice b")
    assert problem in said


def test_slices_beyond_the_limit_are_left_out_and_counted() -> None:
    site = Site(limit=Limit(2, 1_000_000))
    for number in range(4):
        site.put(f"s{number}", manifest("gpu-0", pool=f"p{number}"))
    assert site.slices.cache.report().left_out == 2
    assert site.uuid("gpu-0", pool="p1") == "GPU-gpu-0"
    assert site.missing("gpu-0", pool="p3") == "GT269"


def test_a_node_with_very_many_slices_takes_no_room_of_others() -> None:
    """The token of a node's driver may write as many as it likes."""
    site = Site(limit=Limit(10, 1_000_000), of_node=Limit(3, 1_000_000))
    site.put("own", manifest("gpu-0"))
    for number in range(20):
        site.put(f"many-{number}", manifest("gpu-0", node="n2", pool=f"p{number}"))
    site.put("late", manifest("gpu-0", node="n3", pool="n3"))
    assert site.uuid("gpu-0", pool="n3", node="n3") == site.uuid("gpu-0") == "GPU-gpu-0"
    report = site.slices.cache.report()
    assert (report.objects, report.left_out) == (5, 17)
    expected = "node n2: expected at most 3 objects and 1000000 bytes, found more; what is beyond is left out"
    assert site.said == [f"resourceslices/{DRIVER}: {expected}"]


def test_a_node_whose_slices_are_removed_has_its_room_again() -> None:
    site = Site(of_node=Limit(2, 1_000_000))
    for round_ in range(3):
        for number in range(2):
            assert site.put(f"s{number}", manifest(f"gpu-{round_}", pool=f"p{number}"))
        assert not site.put("more", manifest("gpu-0"))
        site.put("s1", manifest("gpu-0", node="n2", pool="p1"))
        assert site.put("more", manifest("gpu-0"))
        for name in ("s0", "s1", "more"):
            site.drop(name)
    assert site.slices.cache.weight == 0


def test_the_slices_of_one_node_have_a_limit_of_bytes() -> None:
    site = Site(of_node=Limit(100, 4000))
    site.put("a", manifest("gpu-0"))
    many = [f"gpu-{number}-{number * 7919 % 1013}" for number in range(3000)]
    assert not site.put("b", manifest(*many))
    assert not site.put("a", manifest(*many))
    assert site.missing("gpu-0") == "GT269"
    assert site.put("a", manifest("gpu-0"))
    assert site.uuid("gpu-0") == "GPU-gpu-0"


def test_pools_without_a_node_have_a_limit_each() -> None:
    site = Site(of_node=Limit(1, 1_000_000))
    everywhere: Manifest = {"node": None, "allNodes": True}
    assert site.put("a", manifest("gpu-0", pool="p", **everywhere))
    assert not site.put("b", manifest("gpu-1", pool="p", **everywhere))
    assert site.put("c", manifest("gpu-0", pool="q", **everywhere))


def test_an_enormous_slice_is_left_out() -> None:
    site = Site(limit=Limit(1000, 4000))
    site.put("a", manifest("gpu-0"))
    assert not site.put("b", manifest(*(f"gpu-{number}-{number * 7919 % 1013}" for number in range(3000))))
    assert site.uuid("gpu-0") == "GPU-gpu-0"


def test_a_slice_that_says_the_same_again_is_the_same_value() -> None:
    site = Site()
    site.put("a", manifest("gpu-0"))
    before = site.slices.cache.get("a")
    site.put("a", manifest("gpu-0") | {"metadata": {"annotations": {"x": "y"}}})
    assert site.slices.cache.get("a") is before


def test_a_bounded_number_of_pools_is_kept_as_read() -> None:
    site = Site()
    pools = POOLS_KEPT + 10
    for number in range(pools):
        site.put(f"s{number}", manifest("gpu-0", pool=f"p{number}"))
    for _ in range(2):
        for number in range(pools):
            assert site.uuid("gpu-0", pool=f"p{number}") == "GPU-gpu-0"
    assert site.slices.pool("p0", "n1") is site.slices.pool("p0", "n1")


def test_a_node_without_slices_of_its_own_takes_no_room() -> None:
    """A forged Binding may name any node."""
    site = Site()
    site.put("a", manifest("gpu-0", node=None, pool="shared", allNodes=True))
    shared = site.slices.pool("shared", "n1")
    assert all(site.slices.pool("shared", f"forged-{number}") is shared for number in range(POOLS_KEPT))
    nothing = site.slices.pool("p0", "n1")
    assert all(site.slices.pool(f"p{number}", "n1") is nothing for number in range(POOLS_KEPT))
    assert site.slices.pool("shared", "n1") is shared


def state(**claims: Any) -> ClusterState:
    found = ClusterState(Live(), max_age=600, tell=lambda _: None, claims=ClaimSettings(**claims))
    for cache in (found.namespaces, found.nodes, found.topologies, found.leases):
        cache.listed(1, frozenset())
    found.detected(ClusterFacts())
    return found


def test_with_claims_nothing_is_answered_before_the_slices_of_each_driver_are_known() -> None:
    found = state(enabled=True)
    assert found.waiting_for.startswith("resourceslices/gpu.nvidia.com, resourceslices/")
    with pytest.raises(StateUnknown, match="resourceslices"):
        found.pools()
    for slices in found.slices.values():
        slices.cache.listed(1, frozenset())
    assert found.ready
    with pytest.raises(MissingDevice, match="publishes no pool n1"):
        found.pools().device(DRIVER, "n1", "gpu-0")


def test_without_claims_no_slices_are_waited_for() -> None:
    assert state().ready
    assert state().slices == {}


def test_partitions_are_those_of_the_slices_of_the_node() -> None:
    site, number = Site(), {"string": "GPU-a"}
    parted = {"type": {"string": "gpu"}, "uuid": number, "gpuModuleID": {"int": 1}, "partition4": {"int": 2}}
    site.put("n1", manifest(devices=[{"name": "a", "attributes": parted}]))
    site.put("n2", manifest("a", node="n2", pool="n2"))
    pools = MirroredPools({DRIVER: site.slices})
    assert pools.device(DRIVER, "n1", "a", node="n1").partitions == {4: 2}
    used = [pools.uses_partitions(DRIVER, name, node=name) for name in ("n1", "n2", "n3")]
    assert used == [True, False, False]
    assert not pools.uses_partitions("other.example.com", "n1", node="n1")
