"""What the webhook would do with the workloads of a namespace, before and after a change to it."""

from collections.abc import Iterable
from typing import Any

import pytest

from tests.insight.analyze.clusters import Cluster
from tests.judge import TEAM_A, judge
from tests.pods import ALL_ALLOWED, Manifest, container, pod
from webhook.cluster.snapshot.model import KnownPod
from webhook.cluster.snapshot.template_pods import FoundTemplate, pod_of, template_pods
from webhook.insight.namespace.workloads import Group, Workload, groups, of_pods, of_templates
from webhook.objects.manifest.templates import find_templates
from webhook.objects.pod import Namespace

NEW = Namespace("team-a")
PEERS = Namespace("team-a", TEAM_A.labels, {"gpu.topology/profile": "node-peers"})


def deployment(name: str, *containers: Manifest, **spec: Any) -> Manifest:
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": list(containers), **spec}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {"template": template}}


def workloads(*manifests: Manifest) -> list[Workload]:
    found = [FoundTemplate(each, "all.yaml", "team-a") for every in manifests for each in find_templates(every)]
    return list(of_templates(template_pods(found)))


def grouped(found: Iterable[Workload], now: Namespace, then: Namespace) -> list[Group]:
    return groups(found, now, then, Cluster().snapshot())


def known(manifest: Manifest, name: str = "train-0", owner: tuple[str, str] | None = None) -> KnownPod:
    metadata = {**manifest["metadata"], "name": name, "uid": name}
    if owner:
        metadata["ownerReferences"] = [{"kind": owner[0], "name": owner[1], "uid": "u", "controller": True}]
    return pod_of({**manifest, "metadata": metadata})


def test_like_workloads_are_one_group_with_what_changes() -> None:
    slices = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1000}
    found = workloads(
        deployment("train", container()),
        deployment("serve", container()),
        deployment("slice", {"name": "a", "resources": {"limits": slices}}),
        deployment("web", container(gpus=None)),
    )
    left_alone = "left as they are: The namespace has not opted in."
    first, second = grouped(found, NEW, TEAM_A)
    assert first[:3] == (("Deployment serve", "Deployment train"), left_alone, "injected with profile exclusive")
    assert second.labels == ("Deployment slice",)
    assert second.then.startswith("left as they are: The pod asks for a vGPU slice")


def test_a_change_that_takes_a_permission_away_refuses_what_was_allowed() -> None:
    allowed = Namespace("team-a", ALL_ALLOWED.labels, PEERS.annotations)
    (found,) = grouped(workloads(deployment("train", container())), allowed, PEERS)
    assert found.now == "injected with profile node-peers"
    assert found.then.startswith("refused: ")
    assert "allow-host-ipc" in found.then


@pytest.mark.parametrize(("inject", "lacks"), [({}, True), ({"gpu.topology/inject": "true"}, False)])
def test_pods_with_one_gpu_need_inject(inject: dict[str, str], lacks: bool) -> None:
    namespace = Namespace("team-a", TEAM_A.labels, inject)
    (found,) = grouped(workloads(deployment("ddp", container(gpus=1))), NEW, namespace)
    assert found.lacks_inject is lacks


def test_the_pods_of_a_known_workload_are_not_told_beside_it() -> None:
    job = known(pod(), "train-0", ("Job", "train"))
    other = known(pod(), "master-0", ("PyTorchJob", "master"))
    found = of_pods([job, other], "team-a", {"Job train"})
    assert [each.label for each in found] == ["PyTorchJob master"]
    assert list(of_pods([job, other], "team-b", ())) == []


def test_pods_of_one_owner_that_are_judged_alike_are_named_once() -> None:
    alike = [known(pod(), f"worker-{number}", ("PyTorchJob", "train")) for number in range(3)]
    other = known(pod(annotations={"gpu.topology/inject": "false"}), "worker-9", ("PyTorchJob", "train"))
    found = grouped(of_pods([*alike, other], "team-a", ()), NEW, TEAM_A)
    assert sorted((each.labels, each.then) for each in found) == [
        (("PyTorchJob train",), "injected with profile exclusive"),
        (("PyTorchJob train",), "left as they are: The pod has opted out."),
    ]


@pytest.mark.parametrize("profile", ["exclusive", "pod-peers", "node-peers"])
@pytest.mark.parametrize("other", ["exclusive", "pod-peers", "node-peers"])
def test_an_injected_pod_is_judged_as_the_one_that_was_created(profile: str, other: str) -> None:
    original = pod(container(), container("second"))
    _, running = judge(original, Namespace("team-a", ALL_ALLOWED.labels, {"gpu.topology/profile": profile}))
    running["metadata"]["annotations"] |= {"hami.io/vgpu-node": "h20", "gpu.topology/link": "NVSwitch"}
    running["spec"]["nodeName"] = "h20"
    wanted = Namespace("team-a", ALL_ALLOWED.labels, {"gpu.topology/profile": other})
    (seen,), (expected,) = (grouped(of_pods([known(each)], "team-a", ()), NEW, wanted) for each in (running, original))
    assert seen == expected
