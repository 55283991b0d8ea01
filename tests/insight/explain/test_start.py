"""The start of a pod: what the status of its remap container says, and what to do about it."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from tests.insight.explain.situations import H20, finding, injected, on, told
from tests.judge import HAMI_2_9
from tests.pods import Manifest, container, pod
from webhook.insight.explain.findings import Report
from webhook.programs.remap.verdict import ExitCode
from webhook.words.catalogue.start import remedy

REMAP = "gpu-topology-remap"
AT = datetime(2026, 11, 22, 12, tzinfo=UTC)


def prepared(**status: Any) -> Manifest:
    """A pod that admission prepared and HAMi placed, with that status of its remap container."""
    manifest = on(injected(pod(container(gpus=2))), "h20-node-1", list(H20[:2]))
    return manifest | {"status": {"phase": "Pending", "initContainerStatuses": [{"name": REMAP, **status}]}}


def explained(**status: Any) -> Report:
    return told(prepared(**status), asked_at=AT)


def conditions(report: Report) -> list[str]:
    return [found.condition for found in report.findings]


@pytest.mark.parametrize("reason", ["ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull"])
def test_an_image_that_is_not_there_is_named_with_what_the_kubelet_says(reason: str) -> None:
    waiting = {"reason": reason, "message": 'Back-off pulling image "ghcr.io/acme/remap:0.9"'}
    found = finding(explained(state={"waiting": waiting}), "start")
    assert (found.verdict, found.code, found.stops) == ("fails", "GT365", True)
    assert found.evidence == (
        f"the pod cannot start: the image of container gpu-topology-remap is not there ({reason}): Back-off pulling "
        'image "ghcr.io/acme/remap:0.9"'
    )
    assert found.remedy.startswith("Set remap.image in the values of the chart to an image that the nodes can pull")


@pytest.mark.parametrize("reason", ["CreateContainerConfigError", "CreateContainerError", "RunContainerError"])
def test_a_container_that_cannot_be_created_is_named(reason: str) -> None:
    waiting = {"reason": reason, "message": "container has runAsNonRoot and image will run as root"}
    found = finding(explained(state={"waiting": waiting}), "start")
    assert (found.code, found.stops) == ("GT366", True)
    assert f"gpu-topology-remap cannot be created ({reason}): container has runAsNonRoot" in found.evidence


@pytest.mark.parametrize("reason", ["PodInitializing", "ContainerCreating", ""])
def test_a_container_that_merely_has_not_begun_is_no_trouble(reason: str) -> None:
    assert "start" not in conditions(explained(state={"waiting": {"reason": reason}}))


@pytest.mark.parametrize("code", [1, 2, *range(10, 22), 137])
def test_an_exit_code_is_told_with_what_the_program_said_and_what_helps(code: int) -> None:
    ended = {"terminated": {"exitCode": code, "message": "GPU-7 is not here"}}
    found = finding(explained(state=ended), "start")
    assert (found.verdict, found.code, found.stops) == ("fails", "GT367", True)
    said = f"the pod was stopped: container gpu-topology-remap ended with exit code {code}: GPU-7 is not here"
    assert found.evidence == said
    assert found.remedy == f"For exit code {code}: {remedy(code, REMAP)}"
    assert explained(state=ended).judgement.nvlink == "no"


def test_a_container_that_failed_once_and_then_verified_is_in_order() -> None:
    ended = {"terminated": {"exitCode": 11, "message": "GPU-7 is not here"}}
    for state in ({"state": {"terminated": {"exitCode": 0}}}, {"started": True, "state": {"running": {}}}):
        assert finding(explained(lastState=ended, **state), "start").verdict == "holds"


def test_a_sidecar_that_was_told_to_end_has_not_failed_and_verified_only_a_pod_that_succeeded() -> None:
    ended = {"terminated": {"exitCode": 143}}
    assert "start" not in conditions(explained(state=ended))
    assert "start" not in conditions(explained(started=False, state={"running": {}}, lastState=ended))
    assert finding(explained(started=True, state={"running": {}}, lastState=ended), "start").verdict == "holds"
    manifest = prepared(state=ended)
    manifest["status"]["phase"] = "Succeeded"
    assert finding(told(manifest, asked_at=AT), "start").verdict == "holds"


@pytest.mark.parametrize(("started", "verdict"), [("11:59:00", None), ("11:57:00", "unknown")])
def test_a_program_that_verifies_for_long_is_remarkable(started: str, verdict: str | None) -> None:
    running = {"running": {"startedAt": f"2026-11-22T{started}Z"}}
    report = explained(started=False, state=running)
    found = [(each.verdict, each.code) for each in report.findings if each.condition == "start"]
    assert found == ([(verdict, "GT368")] if verdict else [])


def test_a_pod_without_the_container_that_admission_gave_it_is_told() -> None:
    manifest = prepared()
    spec = manifest["spec"]
    left = [each for each in spec["initContainers"] if each["name"] != REMAP]
    bare = manifest | {"spec": spec | {"initContainers": left}, "status": {"phase": "Running"}}
    assert finding(told(bare), "start").code == "GT369"
    assert "start" not in conditions(told(manifest | {"status": {"phase": "Running"}}))


UNKNOWN = "runc create failed: nvidia-container-cli: device error: GPU-2409b7b6: unknown device: unknown"


@pytest.mark.parametrize(
    "status",
    [
        {"containerStatuses": [{"name": "main", "state": {"waiting": {"message": UNKNOWN}}}]},
        {
            "containerStatuses": [
                {
                    "name": "main",
                    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                    "lastState": {"terminated": {"exitCode": 128, "reason": "StartError", "message": UNKNOWN}},
                }
            ]
        },
        {"initContainerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": 128, "message": UNKNOWN}}}]},
    ],
)
@pytest.mark.parametrize("gpus", [1, 2])
def test_a_gpu_that_the_node_does_not_have_comes_first_whoever_prepared_the_pod(
    status: dict[str, Any], gpus: int
) -> None:
    plain = on(pod(container(gpus=gpus)), "h20-node-1", list(H20[:gpus]))
    report = told(plain | {"status": status})
    assert (report.findings[0].condition, report.findings[0].code) == ("start", "GT370")
    assert (report.judgement.nvlink, report.judgement.code) == ("no", "GT370")
    assert "container main is given a GPU that its node does not have" in report.judgement.reason
    if gpus == 2:
        assert told(injected(plain) | {"status": status}).findings[0].code == "GT370"


@pytest.mark.parametrize(
    "status",
    [
        {"state": {"running": {}}, "lastState": {"terminated": {"exitCode": 128, "message": UNKNOWN}}},
        {"state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 20s"}}},
        {"state": {"terminated": {"exitCode": 1, "message": "the device is unknown to me"}}},
    ],
)
def test_a_container_that_runs_again_or_ends_for_another_reason_lacks_no_gpu(status: dict[str, Any]) -> None:
    plain = on(pod(container(gpus=2)), "h20-node-1", list(H20[:2]))
    report = told(plain | {"status": {"containerStatuses": [{"name": "main", **status}]}})
    assert "start" not in conditions(report)


def test_every_exit_code_of_the_program_has_a_remedy_of_its_own() -> None:
    assert remedy(99, REMAP).startswith("read its log (kubectl logs POD -c gpu-topology-remap --previous)")
    said = [remedy(code, REMAP) for code in ExitCode if code]
    assert not [text for text in said if text.startswith("read its log")]


@pytest.mark.parametrize("is_prepared", [True, False])
@pytest.mark.parametrize("missing", [frozenset({"nvidia"}), frozenset({"other"}), frozenset[str]()])
def test_a_runtime_class_that_is_known_not_to_exist_keeps_any_pod_from_its_start(
    missing: frozenset[str], *, is_prepared: bool
) -> None:
    plain = pod(container(gpus=2), runtimeClassName="nvidia")
    manifest = on(injected(plain) if is_prepared else plain, "h20-node-1", list(H20[:2]))
    report = told(manifest, cluster=msgspec.structs.replace(HAMI_2_9, missing_runtime_classes=missing))
    if "nvidia" in missing:
        found = finding(report, "start")
        assert (found.verdict, found.code, found.stops) == ("fails", "GT816", True)
        assert found.evidence.startswith("RuntimeClass nvidia, which the pod names, does not exist: the kubelet starts")
    else:
        assert "start" not in conditions(report)


def test_what_a_container_says_is_printed_on_one_line_and_bounded() -> None:
    ended = {"terminated": {"exitCode": 12, "message": "\x1b[2J" + "A" * 5000}}
    evidence = finding(explained(state=ended), "start").evidence
    assert "\x1b" not in evidence
    assert len(evidence) < 600
