"""The policy of the chart at a real API server: an agent writes what belongs to its own node, and nothing else."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import ApiClient, ApiException, CoordinationV1Api, CoreV1Api, EventsV1Api, V1Node, V1ObjectMeta

from tests.agent.waking import wake
from tests.chart.helm import Helm
from tests.cluster.accounts import wait_until_granted
from tests.cluster.control_plane import ControlPlane
from tests.cluster.manifests import apply, path_of, request
from tests.server.conftest import until
from tests.topology.machines import hgx_h100, with_switch_links
from webhook.agent.log import AgentLog
from webhook.agent.publication import Terms
from webhook.agent.rounds import Agent, Nature
from webhook.kube.api_server import connect_objects
from webhook.kube.permissions import AGENT
from webhook.topology.model import NodeTopology

pytestmark = pytest.mark.cluster

ACCOUNT = "gpu-topology-agent"
MERGE = "application/merge-patch+json"
KINDS = frozenset(
    {
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
        "Role",
        "RoleBinding",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    }
)


@dataclass
class Nodes:
    """Two nodes, and the token that the kubelet of the first one has for the agent there."""

    control_plane: ControlPlane
    namespace: str
    own: str
    other: str
    kubeconfig: Path
    log: int

    def agent(self, node: str, topology: NodeTopology) -> Agent:
        """The real agent, with the token of the first node, that says it is on ``node``."""
        return Agent(
            node,
            Terms(namespace=self.namespace, cordon=True),
            interval=60.0,
            discover=lambda: replace(topology, node=node),
            connect=partial(connect_objects, self.kubeconfig, user_agent="test"),
            log=AgentLog(self.log, node=node),
            nature=Nature(clock=lambda: 0.0, now=lambda: datetime.now(UTC), chance=lambda: 0.5),
        )


@pytest.fixture
def nodes(helm: Helm, control_plane: ControlPlane, admin: CoreV1Api, namespace: str, tmp_path: Path) -> Iterator[Nodes]:
    """With roles and policy of the chart."""
    with ExitStack() as stack:
        for one in helm.objects(namespace=namespace):
            if one["kind"] in KINDS:
                stack.callback(request, control_plane, "DELETE", path_of(one))
                assert apply(control_plane, one).status_code == 201
        yield _nodes(stack, control_plane, admin, namespace, tmp_path / "log")


def _nodes(stack: ExitStack, control_plane: ControlPlane, admin: CoreV1Api, namespace: str, log_file: Path) -> Nodes:
    own, other = f"own-{namespace}", f"other.{namespace}"
    for node in (own, other):
        labels = {"kubernetes.io/os": "linux", "team": "ml"}
        admin.create_node(V1Node(metadata=V1ObjectMeta(name=node, labels=labels, annotations={"note": "x"})))
    kubeconfig = control_plane.kubeconfig_for(namespace, ACCOUNT, pod=pod_on(admin, namespace, own))
    wait_until_granted(control_plane, kubeconfig, namespace, AGENT)
    log = os.open(log_file, os.O_WRONLY | os.O_CREAT)
    stack.callback(os.close, log)
    found = Nodes(control_plane, namespace, own, other, kubeconfig, log)
    with control_plane.client(kubeconfig) as client:
        until(lambda: refusal(lambda: label(client, other, {"team": "x"})) != "", "the policy in force")
    return found


def pod_on(admin: CoreV1Api, namespace: str, node: str) -> V1ObjectMeta:
    """A pod of the agent on that node."""
    spec = {"serviceAccountName": ACCOUNT, "nodeName": node, "containers": [{"name": "agent", "image": "x"}]}
    body: Any = {"metadata": {"name": f"agent-{node}"}, "spec": spec}
    created = admin.create_namespaced_pod(namespace, body).metadata
    assert created is not None
    return created


def refusal(ask: Callable[[], object]) -> str:
    """Why the API server refuses; empty if it does not."""
    try:
        ask()
    except ApiException as error:
        return str(error.body)
    return ""


def label(client: ApiClient, node: str, labels: dict[str, str | None]) -> None:
    CoreV1Api(client).patch_node(node, {"metadata": {"labels": labels}}, dry_run="All", _content_type=MERGE)


def test_the_agent_itself_publishes_its_node(nodes: Nodes, admin: CoreV1Api) -> None:
    agent = nodes.agent(nodes.own, hgx_h100())
    wake(agent)
    assert agent.status.failure == ""
    again = nodes.agent(nodes.own, with_switch_links(hgx_h100(), 3, 12))
    wake(again)
    assert again.status.failure == ""
    node = admin.read_node(nodes.own).metadata
    assert node is not None
    assert (node.labels or {})["gpu.topology/nvlink"] == "degraded"
    assert "gpu.topology/cordoned" in (node.annotations or {})
    names = [one.metadata.name for one in admin.list_namespaced_config_map(nodes.namespace).items if one.metadata]
    assert names == [f"gpu-topology-{nodes.own}"]
    events = EventsV1Api(admin.api_client).list_namespaced_event("default").items
    assert [one.reason for one in events if one.regarding and one.regarding.name == nodes.own] != []


def test_the_agent_of_one_node_cannot_publish_another(nodes: Nodes, admin: CoreV1Api) -> None:
    agent = nodes.agent(nodes.other, hgx_h100())
    wake(agent)
    assert f"the agent of node {nodes.own} may write gpu-topology-{nodes.own}, not" in agent.status.failure
    with nodes.control_plane.client(nodes.kubeconfig) as client:
        said = refusal(lambda: label(client, nodes.other, {"gpu.topology/nvlink": "healthy"}))
    assert f"the agent of node {nodes.own} may not write node {nodes.other}" in said
    assert admin.list_namespaced_config_map(nodes.namespace).items == []


@pytest.mark.parametrize("kind", ["configmap", "lease"])
def test_objects_of_other_nodes_are_out_of_reach(nodes: Nodes, kind: str) -> None:
    def create(name: str) -> str:
        body: Any = {"metadata": {"name": name}}
        with nodes.control_plane.client(nodes.kubeconfig) as client:
            if kind == "configmap":
                return refusal(
                    lambda: CoreV1Api(client).create_namespaced_config_map(nodes.namespace, body, dry_run="All")
                )
            return refusal(
                lambda: CoordinationV1Api(client).create_namespaced_lease(nodes.namespace, body, dry_run="All")
            )

    own = f"gpu-topology-{nodes.own}"
    assert create(own) == ""
    for name in (f"gpu-topology-{nodes.other}", f"{own}x", "gpu-topology-webhook"):
        assert f"the agent of node {nodes.own} may write {own}, not {name}" in create(name)


def test_a_node_that_is_called_like_the_webhook_reaches_nothing_of_it(nodes: Nodes, admin: CoreV1Api) -> None:
    node = f"webhook-{nodes.namespace}"
    admin.create_node(V1Node(metadata=V1ObjectMeta(name=node)))
    pod = pod_on(admin, nodes.namespace, node)
    body: Any = {"metadata": {"name": f"gpu-topology-{node}"}}
    with nodes.control_plane.client(nodes.control_plane.kubeconfig_for(nodes.namespace, ACCOUNT, pod=pod)) as client:
        said = refusal(lambda: CoreV1Api(client).create_namespaced_config_map(nodes.namespace, body, dry_run="All"))
    assert "names that begin with gpu-topology-webhook are those of the webhook; rename the node" in said


@pytest.mark.parametrize(
    ("patch", "allowed"),
    [
        ({"metadata": {"labels": {"gpu.topology/nvlink": "healthy"}}}, True),
        ({"metadata": {"annotations": {"hami.io/device-cordon": "GPU-1", "gpu.topology/cordoned": "GPU-1"}}}, True),
        ({"metadata": {"labels": {"gpu": "on"}}}, False),
        ({"metadata": {"labels": {"team": "web"}}}, False),
        ({"metadata": {"labels": {"team": None}}}, False),
        ({"metadata": {"annotations": {"hami.io/node-nvidia-register": "[]"}}}, False),
        ({"metadata": {"annotations": {"note": None}}}, False),
        ({"metadata": {"finalizers": ["example.com/never"]}}, False),
        ({"spec": {"unschedulable": True}}, False),
        ({"spec": {"taints": [{"key": "x", "effect": "NoExecute"}]}}, False),
    ],
)
def test_of_its_own_node_an_agent_changes_what_is_its_business(
    nodes: Nodes, patch: dict[str, Any], *, allowed: bool
) -> None:
    with nodes.control_plane.client(nodes.kubeconfig) as client:
        said = refusal(lambda: CoreV1Api(client).patch_node(nodes.own, patch, dry_run="All", _content_type=MERGE))
    assert ("an agent may change the label gpu.topology/nvlink" in said) is not allowed
    assert (said == "") is allowed


def test_an_agent_tells_of_its_own_node_only(nodes: Nodes) -> None:
    def tell(node: str) -> str:
        event: Any = {
            "metadata": {"name": f"e-{node}", "namespace": "default"},
            "eventTime": "2026-11-21T10:00:00.000001Z",
            "reportingController": "x",
            "reportingInstance": "x",
            "action": "x",
            "reason": "x",
            "type": "Normal",
            "regarding": {"kind": "Node", "name": node, "apiVersion": "v1"},
        }
        with nodes.control_plane.client(nodes.kubeconfig) as client:
            create = EventsV1Api(client).create_namespaced_event
            return refusal(lambda: create("default", event, dry_run="All", _preload_content=False))

    assert tell(nodes.own) == ""
    assert "an agent may write Events about its own node only" in tell(nodes.other)


def test_a_token_that_belongs_to_no_pod_writes_nothing(nodes: Nodes) -> None:
    stolen = nodes.control_plane.kubeconfig_for(nodes.namespace, ACCOUNT)
    with nodes.control_plane.client(stolen) as client:
        said = refusal(lambda: label(client, nodes.own, {"gpu.topology/nvlink": "healthy"}))
    assert "the token of an agent must be that of a pod on a node" in said


def test_others_are_not_concerned(nodes: Nodes, admin: CoreV1Api) -> None:
    label(admin.api_client, nodes.other, {"team": "web"})
