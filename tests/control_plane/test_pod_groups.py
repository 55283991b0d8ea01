"""PodGroups of Kubernetes itself, at an API server that has them: what the planner reads of a pod and of its group."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import CoreV1Api, V1ObjectMeta

from tests.control_plane.accounts import namespace_for_pods, permitted
from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.manifests import request
from tests.programs.planner.site import until
from webhook.cluster.api.permissions import PLANNER
from webhook.cluster.api.session import connect
from webhook.cluster.api.verbs import Api
from webhook.decisions.place.group import pod_group_of
from webhook.objects.pod import decode_stored_pod
from webhook.objects.workload import MISSING, Workload, WorkloadKind, WorkloadRef
from webhook.programs.planner.clock import Clock
from webhook.programs.planner.workload_reader import WorkloadReader

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("without_proxy")]

API = "scheduling.k8s.io/v1alpha2"


def ask(plane: ControlPlane, path: str, body: dict[str, Any]) -> bytes:
    answer = request(plane, "POST", path, json=body)
    answer.raise_for_status()
    return answer.content


def read(kubeconfig: Path, ref: WorkloadRef) -> Workload | None:
    """With the planner's account."""

    async def reading() -> Workload | None:
        session = connect(kubeconfig, user_agent="test", seconds=10.0)
        news: list[None] = []
        reader = WorkloadReader(Api(session), read=lambda: news.append(None), errors=Counter(), clock=Clock())
        work = asyncio.create_task(reader.run())
        try:
            assert not [*reader.known([ref])]
            await until(lambda: news)
            return dict(reader.known([ref]))[ref]
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            await session.close()

    return asyncio.run(reading())


def test_the_number_of_pods_is_that_of_the_group_which_a_stored_pod_names(plane: ControlPlane) -> None:
    with plane.client() as client:
        admin = CoreV1Api(client)
        namespace = namespace_for_pods(admin, V1ObjectMeta(generate_name="test-"))
        kubeconfig = permitted(admin, plane, namespace, "planner", PLANNER)
    for name, policy in (("gang", {"gang": {"minCount": 3}}), ("loose", {"basic": {}})):
        metadata = {"name": name, "namespace": namespace}
        manifest = {"apiVersion": API, "kind": "PodGroup", "metadata": metadata, "spec": {"schedulingPolicy": policy}}
        ask(plane, f"/apis/{API}/namespaces/{namespace}/podgroups", manifest)
    spec = {"containers": [{"name": "main", "image": "x"}], "schedulingGroup": {"podGroupName": "gang"}}
    stored = ask(
        plane,
        f"/api/v1/namespaces/{namespace}/pods",
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, "spec": spec},
    )
    ref = pod_group_of(decode_stored_pod(stored), namespace)
    assert ref == WorkloadRef(WorkloadKind.POD_GROUP, namespace, "gang")
    found = read(kubeconfig, ref)
    assert found is not None
    assert found.pods == 3
    loose = read(kubeconfig, ref._replace(name="loose"))
    assert loose is not None
    assert loose.pods == 1
    assert read(kubeconfig, ref._replace(name="nothing")) == MISSING
    assert read(kubeconfig, ref._replace(kind=WorkloadKind.VOLCANO)) is None
