"""Options on workloads whose pods do not get them: the policies of the chart warn of them, and refuse nothing."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from kubernetes.client import CoreV1Api

from tests.chart.registration import WORKLOADS, installed_policies
from tests.control_plane.accounts import namespace_for_pods
from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.manifests import apply, find, path_of, request
from tests.programs.server.conftest import until

pytestmark = pytest.mark.cluster

Manifest = dict[str, Any]
POLICY = {"gpu.topology/policy": "nvlink"}
GROUP = {"gpu.topology/group": "a"}
READS = "have no effect here, because gpu-topology-webhook reads those of pods. Write them at"
JOBSET: Manifest = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "jobsets.jobset.x-k8s.io"},
    "spec": {
        "group": "jobset.x-k8s.io",
        "scope": "Namespaced",
        "names": {"plural": "jobsets", "singular": "jobset", "kind": "JobSet", "listKind": "JobSetList"},
        "versions": [
            {
                "name": "v1alpha2",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


@pytest.fixture(scope="module", name="opted_in")
def _opted_in(control_plane: ControlPlane) -> Iterator[str]:
    """A namespace in which the policies are in force."""
    with control_plane.client() as client, ExitStack() as stack:
        admin = CoreV1Api(client)
        metadata: Any = {"generateName": "test-", "labels": {"gpu.topology/injection": "enabled"}}
        namespace = namespace_for_pods(admin, metadata)
        for one in (JOBSET, *installed_policies(*WORKLOADS)):
            assert apply(control_plane, one).status_code in {200, 201}
            stack.callback(request, control_plane, "DELETE", path_of(one))
        for probe in (deployment(namespace, POLICY), cron_job(namespace, POLICY), job_set(namespace, POLICY)):
            until(lambda probe=probe: bool(said(control_plane, probe, dry_run=True)), "the policy")  # type: ignore[misc]
        yield namespace


def template(annotations: dict[str, str] | None = None, labels: dict[str, str] | None = None) -> Manifest:
    metadata = {"annotations": annotations or {}, "labels": {"app": "train", **(labels or {})}}
    spec = {"containers": [{"name": "main", "image": "x"}], "restartPolicy": "Always"}
    return {"metadata": metadata, "spec": spec}


def once(annotations: dict[str, str] | None = None) -> Manifest:
    """A template of pods that a Job may have."""
    found = template(annotations)
    return {**found, "spec": {**found["spec"], "restartPolicy": "Never"}}


def workload(api: str, kind: str, namespace: str, annotations: dict[str, str], spec: Manifest) -> Manifest:
    metadata = {"name": "train", "namespace": namespace, "annotations": annotations}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec}


def deployment(
    namespace: str, annotations: dict[str, str], of_pods: Manifest | None = None, kind: str = "Deployment"
) -> Manifest:
    spec: Manifest = {"selector": {"matchLabels": {"app": "train"}}, "template": of_pods or template()}
    if kind == "StatefulSet":
        spec["serviceName"] = "train"
    return workload("apps/v1", kind, namespace, annotations, spec)


def job(namespace: str, annotations: dict[str, str], of_pods: Manifest | None = None) -> Manifest:
    return workload("batch/v1", "Job", namespace, annotations, {"template": of_pods or once()})


def cron_job(
    namespace: str,
    annotations: dict[str, str],
    of_pods: Manifest | None = None,
    of_jobs: dict[str, str] | None = None,
) -> Manifest:
    jobs = {"metadata": {"annotations": of_jobs or {}}, "spec": {"template": of_pods or once()}}
    return workload("batch/v1", "CronJob", namespace, annotations, {"schedule": "0 0 1 1 *", "jobTemplate": jobs})


def job_set(namespace: str, annotations: dict[str, str], *of_pods: Manifest) -> Manifest:
    jobs = [
        {"name": f"of-{number}", "template": {"spec": {"template": each}}}
        for number, each in enumerate(of_pods or (once(),))
    ]
    return workload("jobset.x-k8s.io/v1alpha2", "JobSet", namespace, annotations, {"replicatedJobs": jobs})


def said(control_plane: ControlPlane, manifest: Manifest, *, dry_run: bool = False) -> list[str]:
    """The warnings about an object that is accepted."""
    return warnings(apply(control_plane, manifest, dry_run=dry_run))


def warnings(answer: httpx.Response) -> list[str]:
    assert answer.status_code in {200, 201}, answer.text
    found = answer.headers.get_list("warning")
    return [each.partition(": ")[2].rstrip('"') for each in found if "gpu-topology-workloads" in each]


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet"])
def test_an_option_on_a_workload_that_its_pods_lack_is_warned_of(
    control_plane: ControlPlane, opted_in: str, kind: str
) -> None:
    place = "spec.template.metadata.annotations"
    at = deployment(opted_in, POLICY | {"team": "ml"}, kind=kind)
    assert said(control_plane, at) == [f"annotations gpu.topology/policy {READS} {place}"]
    assert find(control_plane, at)["metadata"]["annotations"]["gpu.topology/policy"] == "nvlink"
    assert said(control_plane, deployment(opted_in, POLICY, template(POLICY), kind=kind)) == []
    assert said(control_plane, deployment(opted_in, {"team": "ml"}, kind=kind)) == []


def test_a_label_on_a_workload_that_its_pods_lack_is_warned_of(control_plane: ControlPlane, opted_in: str) -> None:
    labelled = deployment(opted_in, {})
    labelled["metadata"]["labels"] = GROUP
    place = "spec.template.metadata.labels"
    assert said(control_plane, labelled, dry_run=True) == [f"labels gpu.topology/group {READS} {place}"]
    labelled["spec"]["template"] = template(labels=GROUP)
    assert said(control_plane, labelled, dry_run=True) == []


def test_of_a_cron_job_both_places_above_its_pods_are_looked_at(control_plane: ControlPlane, opted_in: str) -> None:
    place = "spec.jobTemplate.spec.template.metadata.annotations"
    expected = [f"annotations gpu.topology/policy {READS} {place}"]
    assert said(control_plane, cron_job(opted_in, POLICY), dry_run=True) == expected
    assert said(control_plane, cron_job(opted_in, {}, of_jobs=POLICY), dry_run=True) == expected
    assert said(control_plane, cron_job(opted_in, POLICY, once(POLICY), POLICY), dry_run=True) == []


def test_of_a_job_set_an_option_counts_that_no_template_has(control_plane: ControlPlane, opted_in: str) -> None:
    place = "spec.replicatedJobs[].template.spec.template.metadata.annotations"
    expected = [f"annotations gpu.topology/policy {READS} {place}"]
    assert said(control_plane, job_set(opted_in, POLICY, once(), once()), dry_run=True) == expected
    assert said(control_plane, job_set(opted_in, POLICY, once(), once(POLICY)), dry_run=True) == []


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"replicatedJobs": "many"},
        {"replicatedJobs": [{"name": "a"}]},
        {"replicatedJobs": [{"template": {"spec": {"template": []}}}]},
        {"replicatedJobs": {"a": {"template": None}}},
        {"replicatedJobs": [{"template": {"spec": {"template": {"metadata": {"annotations": [1]}}}}}] * 100},
    ],
    ids=["none", "a text", "no template", "a list", "a mapping", "a hundred"],
)
def test_a_strange_job_set_is_never_refused(control_plane: ControlPlane, opted_in: str, spec: Manifest) -> None:
    strange = workload("jobset.x-k8s.io/v1alpha2", "JobSet", opted_in, POLICY, spec)
    assert apply(control_plane, strange, dry_run=True).status_code in {200, 201}


def test_an_object_of_any_size_is_accepted(control_plane: ControlPlane, opted_in: str) -> None:
    many = {f"gpu.topology/x{number}": "" for number in range(5000)}
    assert said(control_plane, deployment(opted_in, many), dry_run=True) == []
    few = {f"gpu.topology/x{number}": "" for number in range(100)}
    assert len(said(control_plane, deployment(opted_in, few), dry_run=True)) == 1
    wide = [once(few) for _ in range(31)]
    assert said(control_plane, job_set(opted_in, few, *wide), dry_run=True) == []


def test_what_another_object_owns_is_not_warned_of(control_plane: ControlPlane, opted_in: str) -> None:
    owned = job(opted_in, POLICY)
    owned["metadata"]["ownerReferences"] = [
        {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": "1", "controller": True}
    ]
    assert said(control_plane, owned, dry_run=True) == []


def test_a_namespace_that_did_not_opt_in_is_not_warned(
    control_plane: ControlPlane, opted_in: str, namespace: str
) -> None:
    assert said(control_plane, deployment(opted_in, POLICY), dry_run=True)
    assert said(control_plane, deployment(namespace, POLICY), dry_run=True) == []
    assert said(control_plane, job_set(namespace, POLICY), dry_run=True) == []
