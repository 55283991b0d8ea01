"""A RuntimeClass that is there and one that is not, at a real API server: what it refuses, and what admission does."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kubernetes.client import CoreV1Api, NodeV1Api, V1ObjectMeta, V1RuntimeClass

from tests.control_plane.accounts import permitted
from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.registration import create_pod, gpu_pod
from tests.control_plane.replicas import replica
from tests.judge import HAMI_2_9, TEAM_A, judge, policy
from webhook.cluster.api.permissions import WEBHOOK
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.objects.failed_creation import Cause, failed_creation

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("without_proxy")]

Detect = Callable[[str], ClusterFacts]


@pytest.fixture
def name(namespace: str) -> str:
    """Of a class that no other test makes."""
    return f"nvidia-{namespace}"


@contextmanager
def runtime_class(admin: CoreV1Api, name: str) -> Iterator[None]:
    """What the GPU Operator creates, and removes where its NRI plugin is switched on."""
    api = NodeV1Api(admin.api_client)
    api.create_runtime_class(V1RuntimeClass(handler="nvidia", metadata=V1ObjectMeta(name=name)))
    try:
        yield
    finally:
        api.delete_runtime_class(name)


@pytest.fixture
def detect(admin: CoreV1Api, control_plane: ControlPlane, namespace: str) -> Detect:
    """What a replica with exactly its permissions finds, whose configuration names a class."""
    kubeconfig = permitted(admin, control_plane, namespace, "webhook", WEBHOOK)

    async def detected(name: str) -> ClusterFacts:
        async with replica(kubeconfig, namespace, policy(remap={"runtimeClassName": name})) as found:
            await found.ready()
            assert found.caches.errors == {}
            return found.caches.state.cluster()

    return lambda name: asyncio.run(detected(name))


def test_a_pod_of_a_class_that_does_not_exist_is_refused_and_understood(
    admin: CoreV1Api, control_plane: ControlPlane, namespace: str, name: str
) -> None:
    asking = gpu_pod("train", {})
    asking["spec"]["runtimeClassName"] = name
    refused = create_pod(control_plane, namespace, asking, dry_run=True)
    said = failed_creation(refused.message)
    assert refused.status == 403
    assert said is not None
    assert (said.cause, said.said) == (Cause.RUNTIME_CLASS, name)
    with runtime_class(admin, name):
        assert create_pod(control_plane, namespace, asking, dry_run=True).status == 201


def test_an_injected_pod_is_not_refused_for_a_configured_class_that_is_gone(
    admin: CoreV1Api, control_plane: ControlPlane, namespace: str, name: str, detect: Detect
) -> None:
    rules = policy(remap={"runtimeClassName": name})

    def created(cluster: ClusterFacts) -> tuple[int, Any, list[str]]:
        """The API server's answer to the pod after admission, its class, and the codes of what was told."""
        outcome, after = judge(gpu_pod("train", {}), TEAM_A, cluster, rules)
        answer = create_pod(control_plane, namespace, after, dry_run=True)
        return answer.status, after["spec"].get("runtimeClassName"), [text[:5] for text in outcome.warnings]

    assert created(HAMI_2_9)[:2] == (403, name)  # what happens where admission does not know
    gone = detect(name)
    assert gone.missing_runtime_classes == {name}
    status, found, told = created(gone)
    assert (status, found, "GT815" in told) == (201, None, True)
    with runtime_class(admin, name):
        there = detect(name)
        assert there.missing_runtime_classes == frozenset()
        status, found, told = created(there)
        assert (status, found, "GT815" in told) == (201, name, False)
