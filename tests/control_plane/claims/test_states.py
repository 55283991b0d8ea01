"""What Kubernetes has written when a pod with claims is bound: the facts that reading at bind relies on."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.control_plane.claims.bindings import State
from tests.control_plane.claims.cluster import ClaimsCluster, ClaimsNamespace, results
from tests.control_plane.claims.drivers import nvidia_slices
from tests.control_plane.claims.objects import (
    claim,
    claim_pod,
    container,
    exactly,
    of_claim,
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
