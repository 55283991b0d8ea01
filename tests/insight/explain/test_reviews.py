"""Is the webhook asked when HAMi's scheduler binds the pod?"""

from typing import Any

import pytest

from tests.hardware.topology import machines
from tests.insight.explain.situations import H20, decoded, failing, finding, injected, known, on
from tests.judge import HAMI_2_9, TEAM_A, policy
from tests.pods import Manifest, pod
from webhook.decisions.request.assigned_node import node_of
from webhook.insight.explain.evidence import BindingReviews, Evidence
from webhook.insight.explain.explain import explain
from webhook.insight.explain.findings import Reach, Report

HERE = "system:serviceaccount:hami-system:hami-scheduler"
ELSEWHERE = "system:serviceaccount:system-gpu:hami-scheduler"
UNREGISTERED = BindingReviews(configuration="gpu-topology-webhook", is_registered=False)


def told(manifest: Manifest, reviews: BindingReviews | None) -> Report:
    found = decoded(manifest)
    return explain(
        Evidence(
            pod=found,
            namespace=TEAM_A,
            policy=policy(),
            cluster=HAMI_2_9,
            sources=known(machines.h20()),
            node=node_of(found),
            others=(),
            reviews=reviews,
        )
    )


def reviews(**found: Any) -> BindingReviews:
    return BindingReviews(configuration="gpu-topology-webhook", **found)


def prepared() -> Manifest:
    return on(injected(pod(), TEAM_A), "h20-node-1", list(H20[:2]))


@pytest.mark.parametrize(
    ("found", "verdict", "code"),
    [
        (reviews(asked=(HERE,)), "holds", ""),
        (reviews(passed_by=(ELSEWHERE,)), "fails", "GT820"),
        (reviews(asked=(HERE,), passed_by=(ELSEWHERE,)), "unknown", "GT821"),
        (reviews(unclear=(HERE,)), "unknown", "GT822"),
        (UNREGISTERED, "unknown", "GT823"),
        (reviews(), "unknown", "GT824"),
        (reviews(problem="list Deployments: you may not (403)"), "unknown", "GT825"),
    ],
)
def test_the_registration_and_the_accounts_of_hamis_schedulers_decide(
    found: BindingReviews, verdict: str, code: str
) -> None:
    said = finding(told(prepared(), found), "binding-reviewed")
    assert (said.verdict, said.code) == (verdict, code)


def test_a_scheduler_elsewhere_is_named_as_the_chart_wants_it() -> None:
    remedy = finding(told(prepared(), reviews(passed_by=(ELSEWHERE,))), "binding-reviewed").remedy
    assert "admission.bindings.schedulers of the webhook's chart: system-gpu/hami-scheduler." in remedy


def test_it_does_not_count_for_what_nvlink_reaches() -> None:
    """What the Binding wrote into the pod is a condition of its own."""
    report = told(prepared(), reviews(passed_by=(ELSEWHERE,)))
    assert (failing(report), report.reach) == (["binding-reviewed"], Reach.ALL)
    assert "binding-reviewed" not in told(prepared(), reviews()).conclusion


@pytest.mark.parametrize(
    "manifest",
    [
        pytest.param(on(pod(), "h20-node-1", list(H20[:2])), id="not prepared"),
        pytest.param(
            injected(
                pod({"name": "train", "image": "x", "resources": {"limits": {"volcano.sh/vgpu-number": 2}}}), TEAM_A
            ),
            id="of Volcano",
        ),
    ],
)
def test_it_does_not_matter_to_other_pods(manifest: Manifest) -> None:
    said = finding(told(manifest, reviews(passed_by=(ELSEWHERE,))), "binding-reviewed")
    assert said.verdict == "not-needed"
