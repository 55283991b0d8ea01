"""What the webhook would do with the workloads of a namespace, before and after a change to it."""

import json
from typing import Any

import pytest

from tests.insight.analyze.clusters import Cluster
from tests.judge import TEAM_A, judge
from tests.pods import ALL_ALLOWED, Manifest, container, pod
from webhook.cluster.snapshot.model import KnownPod
from webhook.cluster.snapshot.template_pods import FoundTemplate, pod_of, template_pods
from webhook.insight.namespace.new_pod import as_new
from webhook.insight.namespace.workloads import Trial, Workload, of_pods, of_templates, trials
from webhook.objects.manifest.templates import find_templates
from webhook.objects.pod import Namespace
from webhook.words.outcome import Kind, Reason

NEW = Namespace("team-a")
PEERS = Namespace("team-a", TEAM_A.labels, {"gpu.topology/profile": "node-peers"})


def deployment(name: str, *containers: Manifest, **spec: Any) -> Manifest:
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": list(containers), **spec}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {"template": template}}


def workloads(*manifests: Manifest) -> list[Workload]:
    found = [FoundTemplate(each, "all.yaml", "team-a") for every in manifests for each in find_templates(every)]
    return list(of_templates(template_pods(found)))


def tried(workload: Workload, now: Namespace, then: Namespace) -> Trial:
    (found,) = trials([workload], now, then, Cluster().snapshot())
    return found


def known(manifest: Manifest, name: str = "train-0", owner: tuple[str, str] | None = None) -> KnownPod:
    metadata = {**manifest["metadata"], "name": name, "uid": name}
    if owner:
        metadata["ownerReferences"] = [{"kind": owner[0], "name": owner[1], "uid": "u", "controller": True}]
    return pod_of({**manifest, "metadata": metadata})


def test_a_workload_is_injected_only_after_the_opt_in() -> None:
    found = tried(workloads(deployment("train", container()))[0], NEW, TEAM_A)
    assert (found.workload.label, found.pods) == ("Deployment train", 0)
    assert (found.now.reason, found.then.reason) == (Reason.NAMESPACE_NOT_ENABLED, Reason.INJECTED)
    assert not found.is_alike
    assert not found.is_newly_refused


def test_a_change_that_takes_a_permission_away_refuses_what_was_allowed() -> None:
    allowed = Namespace("team-a", ALL_ALLOWED.labels, PEERS.annotations)
    (workload,) = workloads(deployment("train", container()))
    found = tried(workload, allowed, PEERS)
    assert found.is_newly_refused
    assert "allow-host-ipc" in found.then.message
    back = tried(workload, PEERS, allowed)
    assert not back.is_newly_refused
    assert back.then.kind is Kind.PATCH


def test_a_slice_stays_as_it_is_and_a_workload_without_gpus_is_not_told() -> None:
    limits = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1000}
    slices = workloads(deployment("slice", {"name": "a", "resources": {"limits": limits}}))
    found = tried(slices[0], TEAM_A, PEERS)
    assert found.is_alike
    assert found.then.reason is Reason.VGPU_SLICE
    web = workloads(deployment("web", container(gpus=None)))
    assert trials(web, NEW, NEW, Cluster().snapshot()) == []
    assert trials(web, NEW, TEAM_A, Cluster().snapshot()) == []


def test_the_pods_of_a_known_workload_are_not_told_beside_it() -> None:
    job = known(pod(), "train-0", ("Job", "train"))
    other = known(pod(), "master-0", ("PyTorchJob", "master"))
    found = of_pods([job, other], "team-a", {"Job train"})
    assert [each.label for each in found] == ["PyTorchJob master"]
    assert list(of_pods([job, other], "team-b", ())) == []


def test_pods_of_one_owner_are_one_row_where_they_are_judged_alike() -> None:
    alike = [known(pod(), f"worker-{number}", ("PyTorchJob", "train")) for number in range(3)]
    other = known(pod(annotations={"gpu.topology/inject": "false"}), "worker-9", ("PyTorchJob", "train"))
    found = trials(of_pods([*alike, other], "team-a", ()), NEW, TEAM_A, Cluster().snapshot())
    assert sorted((each.workload.label, each.pods, each.then.kind) for each in found) == [
        ("PyTorchJob train", 1, Kind.SKIP),
        ("PyTorchJob train", 3, Kind.PATCH),
    ]


@pytest.mark.parametrize("profile", ["exclusive", "pod-peers", "node-peers"])
@pytest.mark.parametrize("other", ["exclusive", "pod-peers", "node-peers"])
def test_an_injected_pod_is_judged_as_the_one_that_was_created(profile: str, other: str) -> None:
    original = pod(container(), container("second"))
    _, running = judge(original, Namespace("team-a", ALL_ALLOWED.labels, {"gpu.topology/profile": profile}))
    running["metadata"]["annotations"] |= {"hami.io/vgpu-node": "h20", "gpu.topology/link": "NVSwitch"}
    running["spec"]["nodeName"] = "h20"
    wanted = Namespace("team-a", ALL_ALLOWED.labels, {"gpu.topology/profile": other})
    seen, expected = (
        tried(next(of_pods([known(each)], "team-a", ())), NEW, wanted).then for each in (running, original)
    )
    assert (seen.kind, seen.reason, seen.profile) == (expected.kind, expected.reason, expected.profile)
    assert set(expected.steps) - set(seen.steps) <= {"whole-cards", "scheduler-policy"}
    assert seen.warnings == expected.warnings


def test_what_a_user_wrote_stays_in_a_pod_that_was_not_injected() -> None:
    own = pod(
        container(env=[{"name": "NCCL_HOSTID", "value": "me"}]),
        annotations={"gpu.topology/profile": "exclusive"},
        hostIPC=True,
    )
    found = as_new(json.dumps(own).encode())
    assert found.spec is not None
    assert found.spec.host_ipc
    assert found.annotations == {"gpu.topology/profile": "exclusive"}
