"""Pods that get their GPUs by resource claims: what is known is said, and not that there is nothing to join."""

from typing import Any

import pytest

from tests.insight.explain.situations import failing, finding, said, told
from tests.judge import HAMI_2_9
from tests.pods import ALL_ALLOWED, Manifest, container, pod
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.insight.explain.findings import Reach
from webhook.objects.pod import Namespace

CLAIMED = ClusterFacts(hami=HAMI_2_9.hami, kubernetes=HAMI_2_9.kubernetes, claimed=frozenset({"nvidia.com/gpu"}))
HAMI_DRA = ClusterFacts(claimed=frozenset({"nvidia.com/gpu"}), has_hami_dra=True)


def with_claims(*names: str, **metadata: Any) -> Manifest:
    referring = container(gpus=None, resources={"claims": [{"name": name} for name in names]})
    manifest = pod(referring, resourceClaims=[{"name": name, "resourceClaimName": name} for name in names])
    manifest["metadata"] |= metadata
    return manifest


def test_a_pod_with_claims_is_not_said_to_have_nothing_to_join() -> None:
    report = told(with_claims("gpus"))
    assert report.reach is Reach.UNKNOWN
    found = finding(report, "resource-claims")
    assert (found.code, found.verdict) == ("GT164", "unknown")
    assert 'resource claim "gpus"' in found.evidence
    assert report.conclusion.endswith("not known: resource-claims.")
    assert failing(report) == []


def test_a_pod_without_claims_has_nothing_to_join() -> None:
    report = told(pod(container(gpus=None)))
    assert report.reach is Reach.NOTHING_TO_JOIN
    assert [one for one in report.findings if one.condition == "resource-claims"] == []


def test_claims_that_hami_dra_made_are_served_by_a_driver_that_preloads() -> None:
    report = told(with_claims("rc", labels={"hami.io/dra": "true"}))
    assert [(one.code, str(one.verdict)) for one in report.findings if one.condition == "resource-claims"] == [
        ("GT164", "unknown"),
        ("GT255", "fails"),
    ]
    assert said(report, "prepared")[0] == "not-needed"
    assert report.reach is Reach.SOME


@pytest.mark.parametrize(
    ("annotations", "namespace", "verdict"),
    [
        ({"gpu.topology/profile": "exclusive"}, ALL_ALLOWED, "fails"),
        ({"gpu.topology/inject": "true"}, ALL_ALLOWED, "fails"),
        ({"gpu.topology/profile": "observe"}, ALL_ALLOWED, "not-needed"),
        ({"gpu.topology/inject": "false"}, ALL_ALLOWED, "not-needed"),
        ({"gpu.topology/profile": "exclusive"}, Namespace("team-a"), "not-needed"),
    ],
)
def test_the_refusal_of_admission_is_told(annotations: dict[str, str], namespace: Namespace, verdict: str) -> None:
    manifest = with_claims("rc", labels={"hami.io/dra": "true"}, annotations=annotations)
    assert said(told(manifest, namespace), "prepared")[0] == verdict


def test_where_claims_serve_the_count_the_gpus_will_not_be_known_and_hamis_plugin_does_not_matter() -> None:
    report = told(pod(), cluster=CLAIMED)
    assert finding(report, "resource-claims").code == "GT163"
    assert said(report, "control")[0] == "not-needed"
    assert said(told(pod()), "control")[0] == "fails"


def test_the_status_of_a_pod_says_that_a_claim_served_it() -> None:
    manifest = pod() | {"status": {"extendedResourceClaimStatus": {"resourceClaimName": "train-extended-resources-x"}}}
    assert finding(told(manifest), "resource-claims").code == "GT165"


def test_hamis_dra_driver_refuses_exclusive_there_too() -> None:
    report = told(pod(), cluster=HAMI_DRA)
    assert said(report, "prepared")[0] == "fails"
    assert "GT255" in [one.code for one in report.findings]
