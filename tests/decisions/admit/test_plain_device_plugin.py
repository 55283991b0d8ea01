"""Where only a plain device plugin serves the GPUs, pods are left alone with one warning; else nothing changes."""

from typing import Any

import msgspec
import pytest

from tests.judge import TEAM_A, judge, policy
from tests.pods import Manifest, container, pod
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.words.outcome import Kind, Reason
from webhook.words.version import Version

PLAIN = ClusterFacts(kubernetes=Version(1, 33), lacks_hami=True)
WARNING = "GT181: no HAMi, Volcano or Koordinator serves the GPUs of this cluster"


def reason(manifest: Manifest, facts: ClusterFacts = PLAIN, **settings: Any) -> Reason:
    return judge(manifest, TEAM_A, facts, policy(**settings))[0].reason


def test_a_pod_is_left_alone_with_one_warning() -> None:
    manifest = pod()
    outcome, after = judge(manifest, TEAM_A, PLAIN)
    assert (outcome.kind, outcome.reason, outcome.warnings) == (Kind.SKIP, Reason.PLAIN_DEVICE_PLUGIN, [WARNING])
    assert after == manifest


def test_one_that_asks_for_injection_is_left_alone_as_well() -> None:
    assert reason(pod(annotations={"gpu.topology/profile": "pod-peers"})) is Reason.PLAIN_DEVICE_PLUGIN


def test_its_requirement_is_told_and_with_deny_refused() -> None:
    requiring = {"gpu.topology/require-nvlink": "true"}
    outcome, _ = judge(pod(annotations=requiring), TEAM_A, PLAIN)
    why = "no HAMi, Volcano or Koordinator serves the GPUs of this cluster"
    assert outcome.warnings == [WARNING, f"GT176: gpu.topology/require-nvlink is not kept: {why}"]
    denying = requiring | {"gpu.topology/on-violation": "deny"}
    assert reason(pod(annotations=denying)) is Reason.REQUIREMENT_NOT_KEPT


@pytest.mark.parametrize(
    "fact",
    [
        {"lacks_hami": False},
        {"hami": Version(2, 9)},
    ],
)
def test_where_hami_is_or_may_be_there_the_pod_is_injected(fact: dict[str, Any]) -> None:
    assert reason(pod(), msgspec.structs.replace(PLAIN, **fact)) is Reason.INJECTED


def test_a_device_class_that_serves_the_resource_is_no_plain_device_plugin() -> None:
    served = msgspec.structs.replace(PLAIN, claimed=frozenset({"nvidia.com/gpu"}))
    assert reason(pod(), served) is Reason.SERVED_BY_CLAIMS


@pytest.mark.parametrize("setting", [{"hamiVersion": "2.9.0"}, {"extendedResources": "hami"}])
def test_the_configuration_says_that_hami_is_there(setting: dict[str, str]) -> None:
    assert reason(pod(), cluster=setting) is Reason.INJECTED


def test_the_resource_of_volcano_is_served_by_volcano() -> None:
    asking = container(gpus=None, resources={"limits": {"volcano.sh/vgpu-number": 2}})
    assert reason(pod(asking)) is Reason.INJECTED


def test_what_is_left_alone_anyway_keeps_its_reason() -> None:
    assert reason(pod(container(gpus=None))) is Reason.NO_GPU_REQUEST
    assert reason(pod(container(gpus=1))) is Reason.NOT_REQUESTED
