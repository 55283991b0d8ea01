"""The chart's policy about DeviceTaintRules at a real API server: an agent taints devices of its own node alone."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import CoreV1Api, V1Node, V1ObjectMeta

from tests.chart.helm import Helm
from tests.control_plane.accounts import namespace_for_pods, wait_until_granted
from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.manifests import apply, path_of, request
from tests.control_plane.taint_rules import RULES, Rules, rule_manifest
from tests.programs.server.conftest import until
from webhook.cluster.api.permissions import AGENT_TAINTS
from webhook.words.node_names import node_label, taint_rule_name

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("without_proxy")]

ACCOUNT, DRIVER = "gpu-topology-agent", "gpu.nvidia.com"
ROLES = frozenset({"Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding"})
POLICY = frozenset({"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"})


@dataclass(frozen=True)
class Nodes:
    """Two nodes, and the rules as the agent of the first and as an administrator see them."""

    namespace: str
    own: str
    other: str
    agent: Rules
    admin: Rules

    def on(self, node: str) -> "Nodes":
        """The same with the agent of another node as the first."""
        plane = self.admin.control_plane
        return replace(self, own=node, agent=Rules(plane, kubeconfig_of_agent(plane, self.namespace, node)))

    def manifest(self, *, node: str = "", pool: str | None = None, device: str = "gpu-3", **changes: Any) -> Any:
        """The rule of the agent for a device of ``node``, by default its own."""
        node = node or self.own
        pool = node if pool is None else pool
        parts = {"driver": DRIVER, "pool": pool, "device": device}
        return rule_manifest(taint_rule_name(node, DRIVER, pool, device), label=node_label(node), **parts) | changes


def kubeconfig_of_agent(plane: ControlPlane, namespace: str, node: str) -> Path:
    """With the token that the kubelet of a node, which this creates, has for the agent there."""
    with plane.client() as client:
        admin = CoreV1Api(client)
        admin.create_node(V1Node(metadata=V1ObjectMeta(name=node)))
        spec = {"serviceAccountName": ACCOUNT, "nodeName": node, "containers": [{"name": "agent", "image": "x"}]}
        body: Any = {"metadata": {"name": f"agent-{node}"}, "spec": spec}
        pod = admin.create_namespaced_pod(namespace, body).metadata
    return plane.kubeconfig_for(namespace, ACCOUNT, pod=pod)


@contextmanager
def at_nodes(helm: Helm, plane: ControlPlane) -> Iterator[Nodes]:
    """With roles and policy of the chart."""
    with ExitStack() as stack:
        admin = CoreV1Api(stack.enter_context(plane.client()))
        namespace = namespace_for_pods(admin, V1ObjectMeta(generate_name="test-"))
        for one in helm.objects("taints", namespace=namespace):
            if one["kind"] in ROLES | POLICY:
                stack.callback(request, plane, "DELETE", path_of(one))
                assert apply(plane, one).status_code in {200, 201}
        own, other = f"own-{namespace}", f"other-{namespace}"
        kubeconfig = kubeconfig_of_agent(plane, namespace, own)
        wait_until_granted(plane, kubeconfig, namespace, AGENT_TAINTS)
        found = Nodes(namespace, own, other, Rules(plane, kubeconfig), Rules(plane))
        until(lambda: refusal(found, found.manifest(node=other)) != "", "the policy in force")
        yield found


@pytest.fixture(scope="module")
def installed(helm: Helm, plane: ControlPlane) -> Iterator[Nodes]:
    with at_nodes(helm, plane) as found:
        yield found


@pytest.fixture
def nodes(installed: Nodes) -> Iterator[Nodes]:
    """Without a rule, before and afterwards."""
    yield installed
    for rule in installed.admin.all():
        installed.admin.delete(rule["metadata"]["name"])


def refusal(nodes: Nodes, manifest: Any) -> str:
    """Why the agent may not create it; empty if it may."""
    answer = nodes.agent.ask("POST", f"{RULES}?dryRun=All", manifest)
    return "" if answer.status_code == 201 else str(answer.json()["message"])


def test_an_agent_taints_a_device_of_its_own_node(nodes: Nodes) -> None:
    assert refusal(nodes, nodes.manifest()) == ""
    assert refusal(nodes, nodes.manifest(pool=f"{nodes.own}/gpus")) == ""


def test_an_agent_taints_no_device_of_another_node(nodes: Nodes) -> None:
    assert f"the agent of node {nodes.own} may write" in refusal(nodes, nodes.manifest(node=nodes.other))
    of_other = nodes.manifest()
    of_other["spec"]["deviceSelector"]["pool"] = nodes.other
    assert f"the pool is {nodes.own}" in refusal(nodes, of_other)


@pytest.mark.parametrize("other", ["{own}-1", "1-{own}", "rack.{own}", "{own}.rack"])
def test_an_agent_takes_no_name_of_a_node_that_is_called_alike(nodes: Nodes, other: str) -> None:
    """Its rule would tell of a device of its own, and keep the other agent from writing one of that name."""
    name = taint_rule_name(other.format(own=nodes.own), DRIVER, "pool", "gpu-3")
    manifest = nodes.manifest()
    manifest["metadata"]["name"] = name
    assert f"the agent of node {nodes.own} may write" in refusal(nodes, manifest)


def test_an_agent_of_a_node_with_a_long_name_writes_its_rules(nodes: Nodes) -> None:
    long = nodes.on("n" * 200)
    assert refusal(long, long.manifest()) == ""
    assert f"the agent of node {long.own} may write" in refusal(long, long.manifest(node=nodes.other))


@pytest.mark.parametrize("part", ["driver", "pool", "device", "all"])
def test_an_agent_taints_no_more_than_one_device_by_a_rule(nodes: Nodes, part: str) -> None:
    wide = nodes.manifest()
    selector = wide["spec"]["deviceSelector"]
    wide["spec"]["deviceSelector"] = {} if part == "all" else {key: selector[key] for key in selector if key != part}
    assert "names driver, pool and device" in refusal(nodes, wide)


@pytest.mark.parametrize(
    ("taint", "allowed"),
    [
        ({"key": "gpu.topology/gpu-lost", "effect": "NoSchedule"}, True),
        ({"key": "gpu.topology/nvlink-down", "value": "2", "effect": "NoExecute"}, False),
        ({"key": "example.com/x", "effect": "NoSchedule"}, False),
    ],
)
def test_an_agent_evicts_no_pods_and_has_keys_of_its_own(nodes: Nodes, taint: dict[str, str], *, allowed: bool) -> None:
    manifest = nodes.manifest()
    manifest["spec"]["taint"] = taint
    assert (refusal(nodes, manifest) == "") is allowed


def test_an_agent_changes_and_deletes_rules_of_its_own_node_alone(nodes: Nodes) -> None:
    own, other = nodes.manifest(), nodes.manifest(node=nodes.other)
    everything = rule_manifest("of-an-admin", label=nodes.own)
    for rule in (own, other, everything):
        nodes.admin.create(rule)
    patch = {"spec": {"taint": {"value": "7"}}}
    for rule, status in ((own, 200), (other, 422), (everything, 422)):
        path = f"{RULES}/{rule['metadata']['name']}"
        assert nodes.agent.ask("PATCH", path, patch).status_code == status
        assert nodes.agent.ask("DELETE", path).status_code == status
    assert len(nodes.admin.all()) == 2


def test_an_effect_that_a_person_set_stays_through_a_patch_of_the_agent(nodes: Nodes) -> None:
    nodes.admin.create(nodes.manifest())
    name = nodes.manifest()["metadata"]["name"]
    path = f"{RULES}/{name}"
    nodes.admin.patch(name, {"spec": {"taint": {"effect": "None"}}})
    assert nodes.agent.ask("PATCH", path, {"spec": {"taint": {"value": "7"}}}).status_code == 200
    assert nodes.agent.ask("PATCH", path, {"spec": {"taint": {"effect": "NoExecute"}}}).status_code == 422


def test_others_are_not_concerned(nodes: Nodes) -> None:
    nodes.admin.create(nodes.manifest(node=nodes.other))
