"""What keeps HAMi from a pod is named."""

from typing import Any

import pytest

from tests.insight.explain.situations import H20, UNKNOWN_HAMI, injected, on, told
from tests.judge import HAMI_2_9
from tests.pods import Manifest, container, pod
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.insight.explain.findings import Report
from webhook.words.version import Version


def found(report: Report) -> list[tuple[str, str]]:
    return [(one.code, str(one.verdict)) for one in report.findings if one.condition == "treated-by-hami"]


@pytest.mark.parametrize(
    ("fields", "cluster", "findings"),
    [
        ({"schedulerName": "my-scheduler"}, HAMI_2_9, [("GT250", "fails")]),
        ({"schedulerName": "my-scheduler"}, UNKNOWN_HAMI, [("GT250", "unknown")]),
        ({"nodeName": "h20-node-1"}, HAMI_2_9, [("GT252", "fails")]),
        ({"runtimeClassName": "kata"}, HAMI_2_9, [("GT253", "fails")]),
        ({"schedulerName": "hami-scheduler", "runtimeClassName": "nvidia"}, HAMI_2_9, []),
        ({}, HAMI_2_9, []),
    ],
)
def test_each_cause_is_a_finding(
    fields: dict[str, Any], cluster: ClusterFacts, findings: list[tuple[str, str]]
) -> None:
    assert found(told(pod(**fields), cluster=cluster)) == findings


def existing(scheduler: str) -> Manifest:
    manifest = pod(schedulerName=scheduler)
    manifest["metadata"]["uid"] = "2f1c"
    return manifest


def test_a_pod_that_exists_without_the_name_of_hamis_scheduler_was_not_taken() -> None:
    assert found(told(existing("default-scheduler"))) == [("GT254", "fails")]
    assert found(told(existing("hami-scheduler"))) == []
    assert found(told(pod(schedulerName="default-scheduler"))) == []


def test_a_node_that_another_scheduler_chose_is_not_said_to_be_preset() -> None:
    manifest = existing("default-scheduler")
    manifest["spec"]["nodeName"] = "h20-node-1"
    assert found(told(manifest)) == [("GT254", "fails")]
    manifest["spec"]["schedulerName"] = "my-scheduler"
    assert found(told(manifest)) == [("GT250", "fails")]


def test_a_pod_that_hami_has_given_gpus_was_treated() -> None:
    assert found(told(on(injected(existing("default-scheduler")), "h20-node-1", [H20[2], H20[3]]))) == []


def test_of_another_family_or_served_by_claims_it_is_not_asked() -> None:
    volcano = container(gpus=None, resources={"limits": {"volcano.sh/vgpu-number": 2}})
    assert found(told(pod(volcano, schedulerName="volcano"))) == []
    explained = told(pod(container(gpus=4), schedulerName="volcano"), cluster=HAMI_2_9)
    assert [(one.condition, one.code) for one in explained.findings if one.fails][:1] == [("opted-in", "GT185")]
    claimed = ClusterFacts(claimed=frozenset({"nvidia.com/gpu"}))
    assert found(told(pod(schedulerName="default-scheduler"), cluster=claimed)) == []


@pytest.mark.parametrize(("lacks_hami", "control"), [(True, "not-needed"), (False, "fails")])
def test_no_library_is_preloaded_where_there_is_no_hami(*, lacks_hami: bool, control: str) -> None:
    cluster = ClusterFacts(kubernetes=Version(1, 33), lacks_hami=lacks_hami)
    report = told(pod(), cluster=cluster)
    assert [one.verdict for one in report.findings if one.condition == "control"] == [control]
    codes = {one.code for one in report.findings}
    assert ("GT181" in codes, "GT210" in codes) == (lacks_hami, not lacks_hami)
