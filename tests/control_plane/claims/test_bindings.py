"""Pods with claims are told which GPUs they were given, when the plain kube-scheduler binds them."""

import re
from typing import Any

import pytest

from tests.control_plane.claims.cluster import ClaimsNamespace
from tests.control_plane.claims.drivers import NVIDIA, VERSION, Manifest, with_partitions
from tests.control_plane.claims.objects import claim, claim_pod, container, exactly, of_claim, of_template, template
from tests.control_plane.claims.product import ClaimsProduct
from tests.control_plane.hami.cluster import BRIDGED, H20
from tests.programs.server.conftest import until

pytestmark = pytest.mark.cluster

ASKS = {"gpu.topology/inject": "true"}
BY_BRIDGE = "device.attributes['resource.kubernetes.io'].pciBusID in ['{}', '{}']"
MARKED = [
    {"name": "GPU_TOPOLOGY_PROFILE", "value": "exclusive"},
    {"name": "NCCL_P2P_LEVEL", "value": "auto"},
    {"name": "NCCL_NVLS_ENABLE", "value": "2"},
]
"""What admission writes into a container with GPUs by claims."""


def claiming(name: str, *entries: Manifest, **options: Any) -> Manifest:
    """A pod that is prepared, with one container that uses all these claims."""
    prepared = container(claims=[entry["name"] for entry in entries], env=MARKED)
    return claim_pod(name, entries, prepared, **options)


def outputs(pod: Manifest) -> dict[str, str]:
    """Our annotations, without the prefix."""
    found: dict[str, str] = pod["metadata"].get("annotations", {})
    return {key.removeprefix("gpu.topology/"): value for key, value in found.items() if key.startswith("gpu.topology/")}


def bus_ids(product: ClaimsProduct, *devices: str) -> list[str]:
    """Where these cards of the bridged node are."""
    slices = product.cluster.get("/apis/resource.k8s.io/v1/resourceslices")["items"]
    found = {
        device["name"]: device["attributes"]["resource.kubernetes.io/pciBusID"]["string"]
        for one in slices
        if one["spec"].get("nodeName") == BRIDGED
        for device in one["spec"]["devices"]
    }
    return [found[device] for device in devices]


def counted(product: ClaimsProduct, metric: str) -> float:
    """The sum of a counter over the replicas."""
    lines = [line for replica in product.ours.metrics() for line in replica]
    return sum(float(line.split()[-1]) for line in lines if re.match(rf"{metric}[ {{]", line))


def claimed(place: ClaimsNamespace, name: str) -> list[str]:
    """The UUIDs that bind wrote down for the container of the pod."""
    text = outputs(place.bound(name))["claimed-gpus"]
    return sorted(text.removeprefix("main=").split(","))


def test_a_pod_is_told_the_link_of_the_cards_that_its_claim_was_given(claims_product: ClaimsProduct) -> None:
    before = counted(claims_product, "gpu_topology_bindings_total")
    with claims_product.team() as team:
        team.apply(template("two", exactly(count=2)))
        team.creates(claiming("train", of_template("gpus", "two"), node=H20))
        assert outputs(team.bound("train"))["link"] == "NVSwitch"
        assert len(claimed(team, "train")) == 2
    assert counted(claims_product, "gpu_topology_bindings_total") == before + 1


def test_a_binding_of_a_namespace_that_has_not_opted_in_does_not_reach_the_webhook(
    claims_product: ClaimsProduct,
) -> None:
    before = counted(claims_product, "gpu_topology_bindings_total")
    with claims_product.cluster.namespace() as place:
        place.apply(template("one"))
        place.creates(claim_pod("train", [of_template("gpu", "one")]))
        place.bound("train")
        assert counted(claims_product, "gpu_topology_bindings_total") == before


@pytest.mark.long
@pytest.mark.parametrize("expected", [1, 2**31], ids=["complete", "never complete"])
def test_whoever_publishes_for_all_nodes_changes_nothing_of_what_a_node_has(
    claims_product: ClaimsProduct, expected: int
) -> None:
    """The API server takes a newer generation of the pool of a node from each account that may write ResourceSlices."""
    devices = [
        {"name": f"gpu-{n}", "attributes": {"type": {"string": "gpu"}, "uuid": {"string": f"GPU-forged-{n}"}}}
        for n in range(4)
    ]
    forged = {
        "apiVersion": VERSION,
        "kind": "ResourceSlice",
        "metadata": {"name": "forged"},
        "spec": {
            "driver": NVIDIA,
            "allNodes": True,
            "pool": {"name": BRIDGED, "generation": 2**60, "resourceSliceCount": expected},
            "devices": devices,
        },
    }
    metric = f'gpu_topology_cache_objects{{cache="resourceslices/{NVIDIA}"}}'

    def known() -> list[str]:
        return [line for replica in claims_product.ours.metrics() for line in replica if line.startswith(metric)]

    with claims_product.team() as team:
        team.apply(claim("pair", exactly(count=2)))
        team.creates(claiming("before", of_claim("gpus", "pair"), node=BRIDGED))
        told, there = claimed(team, "before"), known()
        claims_product.cluster.apply(forged)
        try:
            until(lambda: all(now != then for now, then in zip(known(), there, strict=True)), "the forged slice known")
            team.creates(claiming("after", of_claim("gpus", "pair"), node=BRIDGED))
            assert claimed(team, "after") == told
        finally:
            claims_product.cluster.withdraw(forged)
            until(lambda: known() == there, "the forged slice gone")


def variables(pod: Manifest) -> dict[str, Any]:
    """Of the first container, by their names."""
    return {variable["name"]: variable.get("value") for variable in pod["spec"]["containers"][0].get("env", ())}


@pytest.mark.long
@pytest.mark.parametrize(("other", "link"), [("gpu-1", "NVLink"), ("gpu-2", "SYS")])
def test_a_pod_is_prepared_by_what_it_claims_and_told_what_it_was_given(
    claims_product: ClaimsProduct, other: str, link: str
) -> None:
    wish = exactly(count=2, cel=BY_BRIDGE.format(*bus_ids(claims_product, "gpu-0", other)))
    with claims_product.team() as team:
        team.apply(template("pair", wish))
        pod = claim_pod("train", [of_template("gpus", "pair")], node=BRIDGED, annotations=ASKS)
        created = team.creates(pod)
        assert variables(created)["GPU_TOPOLOGY_PROFILE"] == "exclusive"
        assert outputs(team.bound("train"))["link"] == link


@pytest.mark.long
@pytest.mark.parametrize(("cards", "codes"), [(2, []), (3, ["GT276"])])
def test_gpus_that_are_no_partition_are_told_at_the_binding(
    claims_product: ClaimsProduct, cards: int, codes: list[str]
) -> None:
    slices = claims_product.cluster.get("/apis/resource.k8s.io/v1/resourceslices")["items"]
    (one,) = [each for each in slices if each["spec"].get("nodeName") == BRIDGED]
    devices = one["spec"]["devices"]
    first = {int(device["name"].removeprefix("gpu-")) for device in devices[:2]}
    parted = with_partitions(devices, range(4), sorted(first), sorted({*range(4)} - first))
    kept = {"apiVersion": VERSION, "kind": "ResourceSlice", "metadata": {"name": one["metadata"]["name"]}}
    pool = one["spec"]["pool"]

    def publish(published: list[Manifest], generation: int) -> None:
        of = {"driver": NVIDIA, "nodeName": BRIDGED, "pool": pool | {"generation": generation}, "devices": published}
        claims_product.cluster.apply(kept | {"spec": of})

    publish(parted, pool["generation"] + 1)
    try:
        with claims_product.team() as team:
            team.apply(template("some", exactly(count=cards)))
            team.creates(claiming("train", of_template("gpus", "some"), node=BRIDGED))
            assert outputs(team.bound("train"))["link"]

            def told() -> list[str]:
                return [message[:5] for message in team.events("train") if message.startswith("GT")]

            until(lambda: len(told()) >= len(codes), "the Event of the webhook")
            assert told() == codes
    finally:
        publish(devices, pool["generation"] + 2)
