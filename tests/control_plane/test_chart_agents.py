"""Roles and policy of the chart at a real API server: an agent writes what is of its own node, and nothing else."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import ApiClient, ApiException, CoordinationV1Api, CoreV1Api, EventsV1Api, V1Node, V1ObjectMeta

from tests.chart.helm import Helm
from tests.control_plane.accounts import wait_until_granted
from tests.control_plane.agents import agent_of, opened
from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.manifests import apply, path_of, request
from tests.hardware.topology.machines import hgx_h100, with_switch_links
from tests.hardware.traffic.windows import both, steady
from tests.programs.agent.waking import wake
from tests.programs.server.conftest import until
from webhook.cluster.api.permissions import AGENT
from webhook.hardware.topology.model import NodeTopology
from webhook.programs.agent.publication import PublishOptions
from webhook.programs.agent.rounds import Agent

pytestmark = pytest.mark.cluster

ACCOUNT = "gpu-topology-agent"
MERGE = "application/merge-patch+json"
KINDS = frozenset(
    {
        "Namespace",
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
        "Role",
        "RoleBinding",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    }
)
POLICY = frozenset({"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"})


@dataclass
class Nodes:
    """Two nodes, and the token that the kubelet of the first one has for the agent there."""

    control_plane: ControlPlane
    namespace: str
    own: str
    other: str
    kubeconfig: Path
    log: int

    @property
    def topologies(self) -> str:
        """Where agents publish."""
        return topologies(self.namespace)

    def agent(self, node: str, topology: NodeTopology) -> Agent:
        """The real agent, with the token of the first node, that says it is on ``node``."""
        options = PublishOptions(namespace=self.topologies, cordon=True)
        return agent_of(node, options, self.kubeconfig, self.log, lambda: topology, traffic=lambda: both(steady()))

    def creates(self, kind: str, body: Any) -> str:
        """Why the agent may not create this ConfigMap or Lease; empty if it may. Nothing is stored."""
        with self.control_plane.client(self.kubeconfig) as client:
            create: Any = {
                "configmap": CoreV1Api(client).create_namespaced_config_map,
                "lease": CoordinationV1Api(client).create_namespaced_lease,
            }[kind]
            return refusal(lambda: create(self.topologies, body, dry_run="All"))

    @property
    def own_name(self) -> str:
        """Of what the agent publishes."""
        return f"gpu-topology-{self.own}"


@pytest.fixture(scope="module")
def installed(
    helm: Helm,
    control_plane: ControlPlane,
    admin: CoreV1Api,
    shared_namespace: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Nodes]:
    """With roles and policy of the chart."""
    with ExitStack() as stack:
        apply_roles(stack, helm, control_plane, shared_namespace, KINDS)
        log = tmp_path_factory.mktemp("agent") / "log"
        found = nodes_with_agent(stack, control_plane, admin, shared_namespace, log)
        with control_plane.client(found.kubeconfig) as client:
            until(lambda: refusal(lambda: label(client, found.other, {"team": "x"})) != "", "the policy in force")
        yield found


@pytest.fixture
def nodes(installed: Nodes, admin: CoreV1Api) -> Iterator[Nodes]:
    """About which nothing is published, before and afterwards."""
    yield installed
    admin.delete_collection_namespaced_config_map(installed.topologies)
    CoordinationV1Api(admin.api_client).delete_collection_namespaced_lease(installed.topologies)


def apply_roles(
    stack: ExitStack,
    helm: Helm,
    control_plane: ControlPlane,
    namespace: str,
    kinds: frozenset[str],
) -> None:
    for one in helm.objects(namespace=namespace):
        if one["kind"] in kinds:
            stack.callback(request, control_plane, "DELETE", path_of(one))
            assert apply(control_plane, one).status_code == 201


def topologies(namespace: str) -> str:
    """Where the agents of that release publish."""
    return f"{namespace}-nodes"


def nodes_with_agent(
    stack: ExitStack,
    control_plane: ControlPlane,
    admin: CoreV1Api,
    namespace: str,
    log_file: Path,
) -> Nodes:
    own, other = f"own-{namespace}", f"other.{namespace}"
    for node in (own, other):
        labels = {"kubernetes.io/os": "linux", "team": "ml"}
        admin.create_node(V1Node(metadata=V1ObjectMeta(name=node, labels=labels, annotations={"note": "x"})))
    kubeconfig = control_plane.kubeconfig_for(namespace, ACCOUNT, pod=pod_on(admin, namespace, own))
    wait_until_granted(control_plane, kubeconfig, topologies(namespace), AGENT)
    return Nodes(control_plane, namespace, own, other, kubeconfig, stack.enter_context(opened(log_file)))


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
    names = [one.metadata.name for one in admin.list_namespaced_config_map(nodes.topologies).items if one.metadata]
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
    assert admin.list_namespaced_config_map(nodes.topologies).items == []


@pytest.mark.parametrize("kind", ["configmap", "lease"])
def test_objects_of_other_nodes_are_out_of_reach(nodes: Nodes, kind: str) -> None:
    own = nodes.own_name
    assert nodes.creates(kind, {"metadata": {"name": own}}) == ""
    for name in (f"gpu-topology-{nodes.other}", f"{own}x", "gpu-topology-webhook"):
        said = nodes.creates(kind, {"metadata": {"name": name}})
        assert f"the agent of node {nodes.own} may write {own}, not {name}" in said


def test_a_node_that_is_called_like_the_webhook_reaches_nothing_of_it(nodes: Nodes, admin: CoreV1Api) -> None:
    node = f"webhook-{nodes.namespace}"
    admin.create_node(V1Node(metadata=V1ObjectMeta(name=node)))
    pod = pod_on(admin, nodes.namespace, node)
    theirs = replace(nodes, kubeconfig=nodes.control_plane.kubeconfig_for(nodes.namespace, ACCOUNT, pod=pod))
    said = theirs.creates("configmap", {"metadata": {"name": f"gpu-topology-{node}"}})
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


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"data": {"topology.json": "x" * 262144, "nccl-topo.xml": "x"}}, ""),
        ({"data": {"topology.json": "x" * 262145}}, "each of at most 262144 characters"),
        ({"data": {"other": "x"}}, "an agent may publish topology.json and nccl-topo.xml"),
        ({"binaryData": {"topology.json": "eA=="}}, "an agent may publish topology.json and nccl-topo.xml"),
        ({"labels": {"gpu.topology/node": "x"}}, ""),
        ({"labels": {"gpu.topology/injection": "enabled"}}, "no other label"),
        ({"annotations": {"x": "y"}}, "no other label, annotation"),
        ({"finalizers": ["example.com/never"]}, "no other label, annotation, finalizer"),
        ({"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "OWN", "uid": "1"}]}, ""),
        ({"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "x", "uid": "1"}]}, "its own Node as owner"),
    ],
)
def test_what_an_agent_publishes_is_bounded(nodes: Nodes, fields: dict[str, Any], said: str) -> None:
    data = {key: fields[key] for key in ("data", "binaryData") if key in fields}
    metadata = {key: value for key, value in fields.items() if key not in data}
    for owner in metadata.get("ownerReferences", []):
        metadata = {"ownerReferences": [owner | {"name": owner["name"].replace("OWN", nodes.own)}]}
    found = nodes.creates("configmap", {"metadata": {"name": nodes.own_name} | metadata} | data)
    assert said in found
    assert bool(said) is bool(found)


@pytest.mark.parametrize(
    ("annotations", "holder", "said"),
    [
        ({"gpu.topology/traffic": "x" * 16384}, "x" * 253, ""),
        ({"gpu.topology/traffic": "x" * 16385}, "x", "gpu.topology/traffic of at most 16384 characters"),
        ({"gpu.topology/traffic": "{}", "x": "y"}, "x", "gpu.topology/traffic of at most 16384 characters"),
        ({}, "x" * 254, "253 characters"),
        ({}, "x" * 2**20, "253 characters"),
    ],
    ids=["the longest", "longer", "more", "a long holder", "a very long holder"],
)
def test_a_lease_of_an_agent_may_say_what_moved_and_nothing_else(
    nodes: Nodes, annotations: dict[str, str], holder: str, said: str
) -> None:
    metadata = {"name": nodes.own_name, "annotations": annotations}
    found = nodes.creates("lease", {"metadata": metadata, "spec": {"holderIdentity": holder}})
    assert said in found
    assert bool(said) is bool(found)
    assert not annotations or "no other label, annotation" in nodes.creates("configmap", {"metadata": metadata})


APPLY = "application/apply-patch+yaml"


def test_what_the_agent_of_another_node_published_is_changed_in_no_way(nodes: Nodes, admin: CoreV1Api) -> None:
    """Patches of each form, replacements, deletions, names that the API server makes, and the status of nodes."""
    there, name, own = nodes.topologies, f"gpu-topology-{nodes.other}", f"gpu-topology-{nodes.own}"
    node: Any = {"gpu.topology/node": nodes.other}
    published: Any = {"metadata": {"name": name, "labels": node}, "data": {"topology.json": "{}"}}
    alive: Any = {"metadata": {"name": name, "labels": node}, "spec": {"holderIdentity": nodes.other}}
    admin.create_namespaced_config_map(there, published)
    CoordinationV1Api(admin.api_client).create_namespaced_lease(there, alive)
    places = {"configmaps": f"/api/v1/namespaces/{there}", "leases": f"/apis/coordination.k8s.io/v1/namespaces/{there}"}
    theirs = {"data": {"topology.json": "[]"}, "spec": {"holderIdentity": nodes.own}}

    def ask(method: str, path: str, body: Any = None, kind: str = "application/json", **query: str) -> int:
        return request(
            nodes.control_plane,
            method,
            path,
            kubeconfig=nodes.kubeconfig,
            content=json.dumps(body),
            headers={"Content-Type": kind},
            params=query,
        ).status_code

    for resource, field in (("configmaps", "data"), ("leases", "spec")):
        place, changed = f"{places[resource]}/{resource}", {field: theirs[field]}
        whole: Any = {"metadata": {"name": name}, **changed}
        kind = {"configmaps": ("v1", "ConfigMap"), "leases": ("coordination.k8s.io/v1", "Lease")}[resource]
        whole |= {"apiVersion": kind[0], "kind": kind[1]}
        said = [
            ask("PATCH", f"{place}/{name}", changed, MERGE),
            ask("PATCH", f"{place}/{name}", changed, "application/strategic-merge-patch+json"),
            ask(
                "PATCH",
                f"{place}/{name}",
                [{"op": "remove", "path": "/metadata/labels"}],
                "application/json-patch+json",
            ),
            ask("PATCH", f"{place}/{name}", whole, APPLY, fieldManager="x", force="true"),
            ask("PUT", f"{place}/{name}", whole),
            ask("DELETE", f"{place}/{name}"),
            ask("DELETE", place),
            ask("POST", place, whole | {"metadata": {"generateName": f"{own}-"}}),
            ask("GET", place),
        ]
        assert [each for each in said if each not in (403, 422)] == [], (resource, said)
    node_path = f"/api/v1/nodes/{nodes.other}"
    status = {"status": {"capacity": {"nvidia.com/gpu": "0"}}}
    labels = {"metadata": {"labels": {"gpu.topology/nvlink": "degraded"}}}
    said = [
        ask("PATCH", node_path, labels, MERGE),
        ask("PATCH", node_path, {"apiVersion": "v1", "kind": "Node"} | labels, APPLY, fieldManager="x", force="true"),
        ask("PATCH", f"{node_path}/status", status, MERGE),
        ask("PATCH", f"/api/v1/nodes/{nodes.own}/status", status, MERGE),
        ask("DELETE", node_path),
        ask("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"new-{nodes.own}"}}),
        ask("GET", f"{node_path}/proxy/metrics"),
    ]
    assert set(said) <= {403, 422}, said
    assert admin.read_namespaced_config_map(name, there).data == {"topology.json": "{}"}
    lease = CoordinationV1Api(admin.api_client).read_namespaced_lease(name, there)
    assert lease.spec is not None
    assert lease.spec.holder_identity == nodes.other
    assert ask("PATCH", f"/api/v1/nodes/{nodes.own}", labels, MERGE) == 200, "the way is open for its own"


def objects_of_others(nodes: Nodes, client: ApiClient) -> dict[str, str]:
    """By what an agent with a stolen token tries: what the API server says to it; empty where it is allowed."""
    core, coordination = CoreV1Api(client), CoordinationV1Api(client)
    data: Any = {"data": {"ca.crt": "x"}}
    body: Any = {"metadata": {"name": "more"}}
    of_another: Any = {"metadata": {"name": f"gpu-topology-{nodes.other}"}}
    of_its_own: Any = {"metadata": {"name": f"gpu-topology-{nodes.own}"}}
    dry: Any = {"dry_run": "All", "_content_type": MERGE}
    here, there = nodes.namespace, nodes.topologies
    return {
        "patch kube-root-ca.crt of the webhook": refusal(
            lambda: core.patch_namespaced_config_map("kube-root-ca.crt", here, data, **dry)
        ),
        "patch a ConfigMap of the webhook": refusal(lambda: core.patch_namespaced_config_map("own", here, data, **dry)),
        "create ConfigMaps there": refusal(lambda: core.create_namespaced_config_map(here, body, dry_run="All")),
        "patch the Lease of the leader": refusal(
            lambda: coordination.patch_namespaced_lease("gpu-topology-webhook-tls", here, {"spec": {}}, **dry)
        ),
        "read the configuration": refusal(lambda: core.read_namespaced_secret("gpu-topology-webhook", here)),
        "patch kube-root-ca.crt of the topologies": refusal(
            lambda: core.patch_namespaced_config_map("kube-root-ca.crt", there, data, **dry)
        ),
        "create ConfigMaps among the topologies": refusal(
            lambda: core.create_namespaced_config_map(there, body, dry_run="All")
        ),
        "publish another node": refusal(lambda: core.create_namespaced_config_map(there, of_another, dry_run="All")),
        "publish its own node": refusal(lambda: core.create_namespaced_config_map(there, of_its_own, dry_run="All")),
    }


def of_others(admin: CoreV1Api, nodes: Nodes) -> None:
    """What a whole cluster has beside the topologies."""
    for namespace in (nodes.namespace, nodes.topologies):
        admin.create_namespaced_config_map(namespace, {"metadata": {"name": "kube-root-ca.crt"}})  # type: ignore[arg-type]  # no model
    admin.create_namespaced_config_map(nodes.namespace, {"metadata": {"name": "own"}})  # type: ignore[arg-type]  # no model
    lease: Any = {"metadata": {"name": "gpu-topology-webhook-tls"}}
    CoordinationV1Api(admin.api_client).create_namespaced_lease(nodes.namespace, lease)


IN_THE_NAMESPACE_OF_THE_WEBHOOK = {
    "patch kube-root-ca.crt of the webhook",
    "patch a ConfigMap of the webhook",
    "create ConfigMaps there",
    "patch the Lease of the leader",
    "read the configuration",
}


def test_a_stolen_token_of_an_agent_reaches_nothing_but_its_own_topology(nodes: Nodes, admin: CoreV1Api) -> None:
    of_others(admin, nodes)
    with nodes.control_plane.client(nodes.kubeconfig) as client:
        said = objects_of_others(nodes, client)
    assert {what for what, why in said.items() if not why} == {"publish its own node"}
    assert {what for what in said if "is forbidden: User" in said[what]} == IN_THE_NAMESPACE_OF_THE_WEBHOOK


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
