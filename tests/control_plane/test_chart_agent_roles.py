"""Roles of the chart at a real API server: what they withhold from an agent where no policy does, as before 1.30."""

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import CoordinationV1Api, CoreV1Api

from tests.chart.helm import Helm, pick
from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.manifests import apply
from tests.control_plane.registration import create_pod, gpu_pod
from tests.control_plane.test_chart_agents import (
    IN_THE_NAMESPACE_OF_THE_WEBHOOK,
    KINDS,
    MERGE,
    POLICY,
    Nodes,
    apply_roles,
    label,
    nodes_with_agent,
    objects_of_others,
    of_others,
    refusal,
)
from tests.hardware.topology.machines import hgx_h100
from tests.programs.agent.waking import wake
from tests.programs.server.conftest import until

pytestmark = pytest.mark.cluster


@pytest.fixture
def without_policy(
    helm: Helm, control_plane: ControlPlane, admin: CoreV1Api, namespace: str, tmp_path: Path
) -> Iterator[Nodes]:
    """With the roles of the chart alone."""
    with ExitStack() as stack:
        apply_roles(stack, helm, control_plane, namespace, KINDS - POLICY)
        yield nodes_with_agent(stack, control_plane, admin, namespace, tmp_path / "log")


@pytest.mark.parametrize(
    ("option", "account"), [("fullnameOverride=zz", "zz-agent"), ("agent.serviceAccount.name=node", "node")]
)
def test_roles_and_policy_are_for_the_account_that_the_values_name(
    helm: Helm,
    control_plane: ControlPlane,
    admin: CoreV1Api,
    namespace: str,
    tmp_path: Path,
    *,
    option: str,
    account: str,
) -> None:
    with ExitStack() as stack:
        apply_roles(stack, helm, control_plane, namespace, KINDS, (f"--set={option}",))
        renamed = nodes_with_agent(stack, control_plane, admin, namespace, tmp_path / "log", account)
        with control_plane.client(renamed.kubeconfig) as client:
            until(lambda: refusal(lambda: label(client, renamed.other, {"team": "x"})) != "", "the policy in force")
            said = refusal(lambda: label(client, renamed.other, {"gpu.topology/nvlink": "healthy"}))
        assert f"the agent of node {renamed.own} may not write node {renamed.other}" in said
        agent = renamed.agent(renamed.own, hgx_h100())
        wake(agent)
        assert agent.status.failure == ""


def test_without_the_policy_a_stolen_token_of_an_agent_reaches_topologies_alone(
    without_policy: Nodes, admin: CoreV1Api
) -> None:
    of_others(admin, without_policy)
    with without_policy.control_plane.client(without_policy.kubeconfig) as client:
        said = objects_of_others(without_policy, client)
        assert (
            refusal(lambda: label(client, without_policy.other, {"team": "x"})) == ""
        )  # what remains: docs/security.md
    assert {what for what, why in said.items() if why} == IN_THE_NAMESPACE_OF_THE_WEBHOOK


def test_without_the_policy_the_quota_bounds_what_agents_create_and_keeps_pods_away(
    helm: Helm, without_policy: Nodes, admin: CoreV1Api
) -> None:
    there = without_policy.topologies
    quota = pick(helm.objects(namespace=without_policy.namespace, options=["--set=agent.maxNodes=1"]), "ResourceQuota")
    assert apply(without_policy.control_plane, quota).status_code == 201
    hard = quota["spec"]["hard"]
    assert hard == {"pods": "0", "count/configmaps": "2", "count/leases.coordination.k8s.io": "1"}
    # In a whole cluster the controller manager does it.
    status: Any = {"status": {"hard": hard, "used": dict.fromkeys(hard, "0") | {"count/configmaps": "1"}}}
    admin.patch_namespaced_resource_quota_status("gpu-topology-agent", there, status, _content_type=MERGE)
    admin.create_namespaced_service_account(there, {"metadata": {"name": "default"}})  # type: ignore[arg-type]  # no model

    def create(name: str) -> str:
        body: Any = {"metadata": {"name": name}}
        with without_policy.control_plane.client(without_policy.kubeconfig) as client:
            return refusal(lambda: CoreV1Api(client).create_namespaced_config_map(there, body))

    numbers = count()
    until(lambda: "exceeded quota" in create(f"more-{next(numbers)}"), "the quota in force")
    names = [one.metadata.name for one in admin.list_namespaced_config_map(there).items if one.metadata]
    assert names[0] == "more-0"
    assert "exceeded quota" in create_pod(without_policy.control_plane, there, gpu_pod("pod", {})).message
    lease: Any = {"metadata": {"name": "one"}}
    leases = CoordinationV1Api(admin.api_client)
    leases.create_namespaced_lease(there, lease)
    assert "exceeded quota" in refusal(
        lambda: leases.create_namespaced_lease(there, {"metadata": {"name": "two"}})  # type: ignore[arg-type]  # no model
    )
