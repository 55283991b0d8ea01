"""The runtime class of the configuration, where it exists and where it does not, and GPUs asked of the NRI plugin."""

import msgspec
import pytest

from tests.judge import HAMI_2_9, TEAM_A, judge, policy
from tests.pods import ALL_ALLOWED, container, pod
from webhook.words.outcome import Reason

GONE = msgspec.structs.replace(HAMI_2_9, missing_runtime_classes=frozenset({"nvidia"}))
CONFIGURED = policy(remap={"runtimeClassName": "nvidia"})
REMAP = "nvidia.cdi.k8s.io/container.gpu-topology-remap"


def test_a_configured_class_is_set_and_left_out_where_it_does_not_exist() -> None:
    for cluster, found, warned in ((HAMI_2_9, "nvidia", False), (GONE, None, True)):
        outcome, after = judge(pod(container(gpus=2)), cluster=cluster, rules=CONFIGURED)
        assert outcome.reason == "injected"
        assert after["spec"].get("runtimeClassName") == found
        assert any(text.startswith('GT815: RuntimeClass "nvidia" ') for text in outcome.warnings) == warned


@pytest.mark.parametrize("own", ["nvidia", "mine"])
def test_of_a_class_that_the_pod_names_nothing_is_said(own: str) -> None:
    """The API server asks for it before it asks webhooks, and again after them."""
    outcome, after = judge(pod(container(gpus=2), runtimeClassName=own), cluster=GONE, rules=CONFIGURED)
    assert after["spec"]["runtimeClassName"] == own
    assert not [text for text in outcome.warnings if text.startswith("GT815")]


def test_without_a_configured_class_a_missing_one_is_no_matter() -> None:
    outcome, after = judge(pod(container(gpus=2)), cluster=GONE)
    assert "runtimeClassName" not in after["spec"]
    assert not [text for text in outcome.warnings if text.startswith("GT815")]


@pytest.mark.parametrize(
    ("key", "devices", "is_allowed"),
    [
        (REMAP, "management.nvidia.com/gpu=all", False),
        (REMAP, "nvidia.com/gpu=0,nvidia.com/gpu=1", False),
        ("nvidia.cdi.k8s.io/container.main", "k8s.device-plugin.nvidia.com/gpu=GPU-1", False),
        ("nvidia.cdi.k8s.io/pod", "nvidia.com/gpu=all", False),
        ("nvidia.cdi.k8s.io", "nvidia.com/gpu=all", False),
        (REMAP, "nvidia.com/imex=0", True),
        (REMAP, "", True),
        ("nvidia.cdi.k8s.io/note", "nvidia.com/gpu=all", True),
        ("example.com/container.main", "nvidia.com/gpu=all", True),
    ],
)
def test_gpus_asked_of_the_nri_plugin_need_the_label_of_the_namespace(key: str, devices: str, is_allowed: bool) -> None:
    asking = pod(container(gpus=2), annotations={key: devices})
    outcome, _ = judge(asking, TEAM_A)
    assert outcome.reason == ("injected" if is_allowed else Reason.MISSING_PERMISSION)
    if not is_allowed:
        assert f'annotation "{key}" asks NVIDIA\'s NRI plugin for GPUs' in outcome.message
    outcome, after = judge(asking, ALL_ALLOWED)
    assert outcome.reason == "injected"
    assert after["metadata"]["annotations"][key] == devices
