"""What Kubernetes has written when a pod with claims is bound: the facts that reading at bind relies on."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.control_plane.claims.bindings import State
from tests.control_plane.claims.cluster import SCHEDULER, ClaimsCluster, ClaimsNamespace, reserved_for, results
from tests.control_plane.claims.drivers import NVIDIA, nvidia_slices
from tests.control_plane.claims.objects import (
    claim,
    claim_pod,
    container,
    exactly,
    first_available,
    of_claim,
    of_template,
    template,
)
from tests.hardware.topology.machines import a100_pcie_bridged

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("node"), pytest.mark.long]

NODE = "a100-bridged"
CARDS = nvidia_slices(replace(a100_pcie_bridged(), node=NODE))
FIRST = [device["name"] for device in CARDS[0]["spec"]["devices"]]
"""The cards in the order in which the scheduler takes them."""


@pytest.fixture
def node(claims_cluster: ClaimsCluster) -> Iterator[None]:
    with claims_cluster.node(NODE, CARDS):
        yield


def at_binding(place: ClaimsNamespace, name: str) -> State:
    return place.cluster.observer.binding(place.name, name)


def test_a_claim_of_a_template_is_allocated_and_named_in_the_status(observed: ClaimsNamespace) -> None:
    observed.apply(template("two", exactly(count=2)))
    observed.creates(claim_pod("train", [of_template("g", "two")]))
    state = at_binding(observed, "train")
    (one,) = state.claims
    assert state.user == SCHEDULER
    assert state.pod["status"]["resourceClaimStatuses"] == [{"name": "g", "resourceClaimName": one["metadata"]["name"]}]
    assert reserved_for(one) == ["train"]
    assert [(each["request"], each["driver"], each["pool"], each["device"]) for each in results(one)] == [
        ("gpus", NVIDIA, NODE, device) for device in FIRST[:2]
    ]


def test_a_claim_named_directly_is_not_in_the_status_and_reserved_for_both_pods(observed: ClaimsNamespace) -> None:
    observed.apply(claim("shared"))
    for name in ("one", "other"):
        observed.creates(claim_pod(name, [of_claim("g", "shared")]))
        state = at_binding(observed, name)
        assert "resourceClaimStatuses" not in state.pod["status"]
    assert sorted(reserved_for(state.claims[0])) == ["one", "other"]


def test_an_alternative_is_named_behind_its_request(observed: ClaimsNamespace) -> None:
    observed.apply(claim("either", first_available([("eight", 8, ""), ("two", 2, "")])))
    observed.creates(claim_pod("train", [of_claim("g", "either")]))
    assert [each["request"] for each in results(at_binding(observed, "train").claims[0])] == ["gpus/two"] * 2


def test_an_extended_resource_has_a_claim_that_the_pod_does_not_name(observed: ClaimsNamespace) -> None:
    first = container("first", gpus=2)
    sidecar = container("sidecar", gpus=1, restartPolicy="Always")
    observed.creates(claim_pod("train", (), container("main", gpus=2), initContainers=[first, sidecar]))
    state = at_binding(observed, "train")
    (one,) = state.claims
    said = state.pod["status"]["extendedResourceClaimStatus"]
    assert said["resourceClaimName"] == one["metadata"]["name"]
    assert one["metadata"]["annotations"] == {"resource.kubernetes.io/extended-resource-claim": "true"}
    # An init container that ends gets cards of later ones; a sidecar has its own.
    assert {each["containerName"]: each["requestName"] for each in said["requestMappings"]} == {
        "first": "container-2-request-0",
        "sidecar": "container-1-request-0",
        "main": "container-2-request-0",
    }
    assert sorted(each["request"] for each in results(one)) == [
        "container-1-request-0",
        "container-2-request-0",
        "container-2-request-0",
    ]


def test_a_denied_binding_meets_the_same_cards_again(observed: ClaimsNamespace, claims_cluster: ClaimsCluster) -> None:
    claims_cluster.observer.denied.add("denied")
    observed.apply(claim("mine"))
    observed.creates(claim_pod("denied", [of_claim("g", "mine")]))
    first = at_binding(observed, "denied")
    claims_cluster.observer.denied.clear()
    observed.bound("denied")
    last = claims_cluster.observer.bindings(observed.name, "denied")[-1]
    assert results(last.claims[0]) == results(first.claims[0])


def test_after_a_denied_binding_an_extended_resource_has_a_new_claim(
    observed: ClaimsNamespace, claims_cluster: ClaimsCluster
) -> None:
    claims_cluster.observer.denied.add("denied")
    observed.creates(claim_pod("denied", (), container(gpus=1)))
    first = at_binding(observed, "denied")
    claims_cluster.observer.denied.clear()
    observed.bound("denied")
    last = claims_cluster.observer.bindings(observed.name, "denied")[-1]
    names = [state.pod["status"]["extendedResourceClaimStatus"]["resourceClaimName"] for state in (first, last)]
    assert len(set(names)) == 2
    assert names[1] in [each["metadata"]["name"] for each in last.claims if results(each)]


def test_the_administrator_s_access_is_refused_where_the_namespace_does_not_allow_it(observed: ClaimsNamespace) -> None:
    with pytest.raises(AssertionError, match="admin access to devices requires the"):
        observed.apply(claim("all", exactly(adminAccess=True)))


def test_more_cards_than_there_are_leave_the_claim_unallocated(observed: ClaimsNamespace) -> None:
    observed.apply(claim("many", exactly(count=5)))
    observed.creates(claim_pod("train", [of_claim("g", "many")]))
    assert "cannot allocate all claims" in observed.waits("train")
    assert results(observed.claim("many")) == []
