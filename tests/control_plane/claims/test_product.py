"""Bindings of the plain kube-scheduler reach the webhook."""

import pytest

from tests.control_plane.claims.objects import claim_pod, of_template, template
from tests.control_plane.claims.product import ClaimsProduct

pytestmark = pytest.mark.cluster


def bindings(product: ClaimsProduct) -> float:
    """Bindings that the replicas have answered."""
    lines = [line for replica in product.ours.metrics() for line in replica]
    return sum(float(line.split()[-1]) for line in lines if line.startswith("gpu_topology_bindings_total{"))


def test_the_binding_of_a_claim_pod_reaches_the_webhook(claims_product: ClaimsProduct) -> None:
    before = bindings(claims_product)
    with claims_product.team() as team:
        team.apply(template("one"))
        team.creates(claim_pod("train", [of_template("gpu", "one")]))
        team.bound("train")
        assert bindings(claims_product) == before + 1


def test_that_of_a_namespace_that_has_not_opted_in_does_not(claims_product: ClaimsProduct) -> None:
    before = bindings(claims_product)
    with claims_product.cluster.namespace() as place:
        place.apply(template("one"))
        place.creates(claim_pod("train", [of_template("gpu", "one")]))
        place.bound("train")
        assert bindings(claims_product) == before
