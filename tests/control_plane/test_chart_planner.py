"""Roles and policies of the chart at a real API server: what the accounts of planner and webhook may change on a pod.

Each test of a refusal has its opposite: the same change, one step back, is allowed.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx
import msgspec
import pytest
from kubernetes.client import CoordinationV1Api, CoreV1Api, V1ObjectMeta, V1ServiceAccount

from tests.chart.helm import Helm
from tests.chart.rendered import PLACES
from tests.control_plane.accounts import namespace_for_pods, wait_until_granted
from tests.control_plane.control_plane import REQUEST_TIMEOUT_S, ControlPlane
from tests.control_plane.manifests import apply, path_of, request
from tests.programs.server.conftest import until
from webhook.cluster.api.leader_lease import LeaderLease
from webhook.cluster.api.permissions import PLANNER, WEBHOOK
from webhook.cluster.api.session import Session, connect
from webhook.cluster.api.verbs import Api, PatchForm
from webhook.cluster.kinds import POD
from webhook.decisions.place.gate import find_gate, open_gate
from webhook.objects.pod import Metadata, Pod
from webhook.programs.server.waiting_pods import WaitingPods
from webhook.words.choices import Placement
from webhook.words.names import PLACE_GATE, PLACED, PLACED_CONDITION, PLACEMENT, PLANNER_LEASE, USE_GPU_UUID
from webhook.words.patch import pointer

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("without_proxy")]

KINDS = ("Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
POLICIES = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
LABEL = pointer("metadata", "labels", PLACEMENT)
PIN = pointer("metadata", "annotations", USE_GPU_UUID)
SAID = pointer("metadata", "annotations", PLACED)
GATES = "/spec/schedulingGates"
OTHER_GATE = "example.com/wait"
HOSTNAMES = [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-1"]}]
Operations = list[dict[str, Any]]


def add(path: str, value: Any) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}


def remove(path: str) -> dict[str, Any]:
    return {"op": "remove", "path": path}


RELEASES: Operations = [add(LABEL, "released"), remove(f"{GATES}/0")]
"""What lets a waiting pod go."""
PINS: Operations = [add(PIN, "GPU-1,GPU-2"), add(SAID, "{}"), add(LABEL, "pinned"), remove(f"{GATES}/0")]
TERMS = [{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}]


@dataclass(frozen=True)
class Account:
    """A service account of the chart, and the namespace of a team whose pods it may try to change."""

    control_plane: ControlPlane
    admin: CoreV1Api
    name: str
    release: str
    team: str

    def tries(self, pod: str, operations: Operations, *, namespace: str = "", dry_run: bool = False) -> httpx.Response:
        """What the API server says to this JSON patch."""
        return self.sends(
            "PATCH", f"/api/v1/namespaces/{namespace or self.team}/pods/{pod}", operations, dry_run=dry_run
        )

    def sets_status(self, pod: str, *conditions: dict[str, Any], **more: Any) -> httpx.Response:
        """What it says to this patch of the status."""
        path = f"/api/v1/namespaces/{self.team}/pods/{pod}/status"
        return self.sends("PATCH", path, {"status": {"conditions": list(conditions)}} | more, STRATEGIC)

    def sends(
        self, method: str, path: str, body: Any = None, media_type: str = JSON_PATCH, *, dry_run: bool = False
    ) -> httpx.Response:
        """As this account."""
        kubeconfig = self.control_plane.directory / f"{self.release}.{self.name}.kubeconfig"
        return request(
            self.control_plane,
            method,
            path,
            kubeconfig=kubeconfig,
            headers={"Content-Type": media_type if method == "PATCH" else "application/json"},
            params={"dryRun": "All"} if dry_run else None,
            json=body,
        )

    def creates(self, name: str, *, namespace: str = "", gates: tuple[str, ...] = (PLACE_GATE,), **fields: Any) -> str:
        """A pod of the team that waits, made by the administrator."""
        labels = {PLACEMENT: "waiting", "team": "ml"} | fields.pop("labels", {})
        annotations = {"note": "x"} | fields.pop("annotations", {})
        body: Any = {
            "metadata": {"name": name, "labels": {k: v for k, v in labels.items() if v}, "annotations": annotations},
            "spec": {
                "containers": [{"name": "main", "image": "x"}],
                "schedulingGates": [{"name": gate} for gate in gates],
            }
            | fields,
        }
        self.admin.create_namespaced_pod(namespace or self.team, body)
        return name

    def reads(self, pod: str) -> dict[str, Any]:
        """The pod as it is."""
        found: dict[str, Any] = request(self.control_plane, "GET", f"/api/v1/namespaces/{self.team}/pods/{pod}").json()
        return found


OPTED_IN = {"gpu.topology/injection": "enabled"}
GetAccount = Callable[[str], Account]


@pytest.fixture(scope="module")
def chart(helm: Helm, control_plane: ControlPlane, admin: CoreV1Api, shared_namespace: str) -> Iterator[str]:
    """The namespace of a release whose roles and policies are in force."""
    team = namespace_for_pods(admin, V1ObjectMeta(generate_name="probed-", labels=OPTED_IN))
    with ExitStack() as stack:
        for one in helm.objects(namespace=shared_namespace, options=[PLACES]):
            if one["kind"] in KINDS + POLICIES:
                stack.callback(request, control_plane, "DELETE", path_of(one))
                assert allowed(apply(control_plane, one))
        for name, permissions in (("gpu-topology-place", PLANNER), ("gpu-topology-webhook", WEBHOOK)):
            kubeconfig = control_plane.kubeconfig_for(shared_namespace, name)
            topologies = f"{shared_namespace}-nodes"
            wait_until_granted(control_plane, kubeconfig, topologies, permissions, own=shared_namespace)
            probing = Account(control_plane, admin, name, shared_namespace, team)
            probing.creates(name)
            until(partial(is_refused, probing, name), "the policy")
        yield shared_namespace


def is_refused(one: Account, pod: str) -> bool:
    return one.tries(pod, [add("/metadata/labels/team", "x")], dry_run=True).status_code == 422


@pytest.fixture
def account(control_plane: ControlPlane, admin: CoreV1Api, chart: str) -> Iterator[GetAccount]:
    """Gives an account of the release by its name, and a team of its own that has opted in."""
    team = namespace_for_pods(admin, V1ObjectMeta(generate_name="test-", labels=OPTED_IN))
    yield lambda name: Account(control_plane, admin, name, chart, team)
    CoordinationV1Api(admin.api_client).delete_collection_namespaced_lease(chart)


@pytest.fixture
def planner(account: GetAccount) -> Account:
    return account("gpu-topology-place")


@pytest.fixture
def webhook_account(account: GetAccount) -> Account:
    return account("gpu-topology-webhook")


@asynccontextmanager
async def session(control_plane: ControlPlane, one: Account) -> AsyncIterator[Session]:
    """As that account, with the programs' own client."""
    kubeconfig = control_plane.directory / f"{one.release}.{one.name}.kubeconfig"
    connected = connect(kubeconfig, user_agent="test", seconds=REQUEST_TIMEOUT_S)
    try:
        yield connected
    finally:
        await connected.close()


def allowed(answer: httpx.Response) -> bool:
    """Whether it was done, or would have been."""
    assert answer.status_code in {200, 201}, answer.text
    return True


def refused(answer: httpx.Response, *words: str) -> bool:
    """Whether a policy refused it, and said why."""
    assert answer.status_code == 422, answer.text
    assert all(word in answer.text for word in words), answer.text
    return True


# the planner: what it must do


def test_the_planner_pins_a_pod_and_opens_its_gate_in_one_patch(planner: Account) -> None:
    pod = planner.creates("train", gates=(PLACE_GATE, OTHER_GATE))
    uid = planner.reads(pod)["metadata"]["uid"]
    tests = [
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "test", "path": f"{GATES}/0/name", "value": PLACE_GATE},
    ]
    narrowed = add(
        "/spec/affinity",
        {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": HOSTNAMES}]
                }
            }
        },
    )
    assert allowed(planner.tries(pod, [*tests, narrowed, *PINS]))
    stored = planner.reads(pod)
    assert stored["spec"]["schedulingGates"] == [{"name": OTHER_GATE}]
    assert stored["metadata"]["annotations"][USE_GPU_UUID] == "GPU-1,GPU-2"
    assert stored["metadata"]["labels"] == {PLACEMENT: "pinned", "team": "ml"}


def test_the_planner_narrows_the_affinity_that_a_pod_came_with(planner: Account) -> None:
    affinity = {
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]},
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": TERMS}},
    }
    pod = planner.creates("train", affinity=affinity)
    terms = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0"
    narrows = add(f"{terms}/matchExpressions/-", HOSTNAMES[0])
    widens = {"op": "replace", "path": f"{terms}/matchExpressions/0/operator", "value": "DoesNotExist"}
    assert planner.tries(pod, [widens, *PINS]).status_code == 422
    assert allowed(planner.tries(pod, [narrows, *PINS]))


def test_the_planner_pins_a_pod_of_a_group_behind_its_gate_takes_the_pin_back_and_opens_the_gate(
    planner: Account,
) -> None:
    pod = planner.creates("train", annotations={"gpu.topology/group-size": "2"})
    pins = [add(PIN, "GPU-1,GPU-2"), add(SAID, "{}")]
    assert allowed(planner.tries(pod, pins))
    assert allowed(planner.tries(pod, [remove(PIN), remove(SAID)]))
    stored = planner.reads(pod)
    assert stored["spec"]["schedulingGates"] == [{"name": PLACE_GATE}]
    assert stored["metadata"]["annotations"] == {"note": "x", "gpu.topology/group-size": "2"}
    assert stored["metadata"]["labels"] == {PLACEMENT: "waiting", "team": "ml"}
    assert allowed(planner.tries(pod, pins))
    terms = {"nodeSelectorTerms": [{"matchExpressions": HOSTNAMES}]}
    narrowed = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    opens = [add("/spec/affinity", narrowed), add(LABEL, "pinned"), remove(f"{GATES}/0")]
    assert allowed(planner.tries(pod, opens))
    assert "schedulingGates" not in planner.reads(pod)["spec"]


def test_the_planner_says_how_far_a_pod_is_in_a_condition_of_its_own(planner: Account) -> None:
    pod = planner.creates("train")
    waits = {"type": PLACED_CONDITION, "status": "False", "reason": "NoFreeCards", "message": "x"}
    assert allowed(planner.sets_status(pod, waits))
    assert allowed(planner.sets_status(pod, waits | {"status": "True", "reason": "Pinned"}))
    conditions = {one["type"]: one for one in planner.reads(pod)["status"]["conditions"]}
    assert conditions[PLACED_CONDITION]["reason"] == "Pinned"
    assert conditions["PodScheduled"]["reason"] == "SchedulingGated"


def test_the_planner_reads_what_it_mirrors_and_keeps_its_lease(planner: Account) -> None:
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{planner.release}/leases"

    def lease(name: str) -> dict[str, Any]:
        return {"metadata": {"name": name}, "spec": {"holderIdentity": "a"}}

    assert planner.sends("POST", leases, lease("gpu-topology-webhook-tls"), dry_run=True).status_code == 422
    created = planner.sends("POST", leases, lease("gpu-topology-place"))
    assert allowed(created)
    assert allowed(planner.sends("PUT", f"{leases}/gpu-topology-place", created.json()))
    for path, expected in {
        "/api/v1/pods": 200,
        "/api/v1/nodes": 200,
        "/api/v1/namespaces": 200,
        "/apis/apps/v1/deployments": 200,
        f"/api/v1/namespaces/{planner.release}-nodes/configmaps": 200,
        f"/apis/coordination.k8s.io/v1/namespaces/{planner.release}-nodes/leases": 200,
        f"{leases}/gpu-topology-place": 200,
        leases: 403,
        f"/api/v1/namespaces/{planner.release}/secrets": 403,
        f"/api/v1/namespaces/{planner.release}/configmaps": 403,
        f"/api/v1/namespaces/{planner.team}/configmaps": 403,
    }.items():
        assert planner.sends("GET", path).status_code == expected, path


def test_the_requests_of_the_planner_itself_are_allowed(planner: Account, control_plane: ControlPlane) -> None:
    pod = planner.creates("train", gates=(OTHER_GATE, PLACE_GATE))
    gate = find_gate(msgspec.json.decode(json.dumps(planner.reads(pod)), type=Pod))
    assert gate is not None
    condition = {"type": PLACED_CONDITION, "status": "False", "reason": "NoFreeCards", "message": "x"}
    status = {"metadata": {"uid": gate.uid}, "status": {"conditions": [condition]}}

    async def test() -> None:
        async with session(control_plane, planner) as connected:
            pods = Api(connected, field_manager="test")
            api = Api(connected, seconds=REQUEST_TIMEOUT_S)
            lease = LeaderLease(api, planner.release, PLANNER_LEASE, "a", seconds=15.0)
            assert [await lease.take(), await lease.take()] == [True, True]
            await pods.patch(POD, pod, planner.team, status, PatchForm.STRATEGIC, part="status")
            await pods.patch(POD, pod, planner.team, open_gate(gate, Placement.RELEASED), PatchForm.OPERATIONS)

    asyncio.run(test())
    stored = planner.reads(pod)
    assert stored["spec"]["schedulingGates"] == [{"name": OTHER_GATE}]
    assert "NoFreeCards" in {one.get("reason") for one in stored["status"]["conditions"]}


# both: what they must not do

FORBIDDEN: dict[str, Operations] = {
    "an image": [{"op": "replace", "path": "/spec/containers/0/image", "value": "evil"}],
    "a toleration": [add("/spec/tolerations/-", {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"})],
    "a deadline": [add("/spec/activeDeadlineSeconds", 1)],
    "a node selector": [add("/spec/nodeSelector", {"kubernetes.io/hostname": "node-1"})],
    "another gate": [remove(f"{GATES}/1")],
    "an annotation of the user": [add("/metadata/annotations/note", "y")],
    "an annotation of HAMi": [add("/metadata/annotations/hami.io~1vgpu-node", "node-1")],
    "another output": [add("/metadata/annotations/gpu.topology~1link", "NVSwitch")],
    "a label of the user": [add("/metadata/labels/team", "other")],
    "one label less": [remove("/metadata/labels/team")],
    "a finalizer": [add("/metadata/finalizers", ["example.com/never"])],
    "an owner": [
        add("/metadata/ownerReferences", [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "1"}]),
    ],
    "another state": [add(LABEL, "other")],
    "the state of the webhook": [add(LABEL, "waiting")],
}
"""Changes of a waiting pod with two gates, beside its release."""


@pytest.mark.parametrize("name", ["gpu-topology-place", "gpu-topology-webhook"])
def test_beside_its_release_nothing_of_a_pod_changes(account: GetAccount, name: str) -> None:
    one = account(name)
    pod = one.creates("train", gates=(PLACE_GATE, OTHER_GATE))
    assert allowed(one.tries(pod, RELEASES, dry_run=True))
    for what, operations in FORBIDDEN.items():
        first, last = (RELEASES, operations) if LABEL in str(operations) else (operations, RELEASES)
        answer = one.tries(pod, [*first, *last], dry_run=True)
        assert (answer.status_code, "gpu-topology" in answer.text) == (422, True), f"{what}: {answer.text}"


@pytest.mark.parametrize("name", ["gpu-topology-place", "gpu-topology-webhook"])
def test_pods_of_kube_system_and_of_the_release_are_out_of_reach(
    account: GetAccount, admin: CoreV1Api, chart: str, name: str
) -> None:
    one = account(name)
    for namespace in ("kube-system", chart):
        if namespace == "kube-system" and not _has_default_account(admin, namespace):
            admin.create_namespaced_service_account(namespace, V1ServiceAccount(metadata=V1ObjectMeta(name="default")))
        pod = one.creates("train", namespace=namespace)
        try:
            assert refused(one.tries(pod, RELEASES, namespace=namespace), "kube-system")
        finally:
            admin.delete_namespaced_pod(pod, namespace, grace_period_seconds=0)
    assert allowed(one.tries(one.creates("train"), RELEASES))


def _has_default_account(admin: CoreV1Api, namespace: str) -> bool:
    found = admin.list_namespaced_service_account(namespace).items
    return "default" in {one.metadata.name for one in found if one.metadata}


@pytest.mark.parametrize("name", ["gpu-topology-place", "gpu-topology-webhook"])
def test_a_pod_is_let_go_after_its_namespace_opted_out(account: GetAccount, name: str) -> None:
    one = account(name)
    pod = one.creates("train")
    one.admin.patch_namespace(one.team, {"metadata": {"labels": {"gpu.topology/injection": None}}})
    assert allowed(one.tries(pod, RELEASES))


@pytest.mark.long
@pytest.mark.parametrize("name", ["gpu-topology-place", "gpu-topology-webhook"])
def test_a_pod_with_as_many_annotations_and_labels_as_there_can_be_is_let_go(account: GetAccount, name: str) -> None:
    one = account(name)
    many = {f"a{number:05}": "" for number in range(40_000)}
    labels = {f"l{number:05}": "x" for number in range(10_000)}
    pod = one.creates("train", annotations=many, labels=labels)
    assert allowed(one.tries(pod, RELEASES))


# the planner: what it must not do


def test_the_planner_changes_no_pod_that_it_has_not_placed(planner: Account) -> None:
    pod = planner.creates("train", gates=(), labels={PLACEMENT: ""})
    assert refused(planner.tries(pod, [add(PIN, "GPU-1"), add(LABEL, "pinned")]), "only if it has")
    assert refused(planner.sets_status(pod, {"type": PLACED_CONDITION, "status": "True"}), "only if it has")
    released = planner.creates("released", gates=(), labels={PLACEMENT: "released"})
    assert allowed(planner.tries(released, [add(PIN, "GPU-1"), add(LABEL, "pinned")]))


def test_the_planner_keeps_its_hands_off_the_pin_of_a_user(planner: Account) -> None:
    pod = planner.creates("train", annotations={USE_GPU_UUID: "GPU-7"})
    assert refused(planner.tries(pod, PINS), "only if it wrote it")
    assert refused(planner.tries(pod, [remove(PIN), *RELEASES]), "only if it wrote it")
    assert allowed(planner.tries(pod, RELEASES))
    ours = planner.creates("ours", annotations={USE_GPU_UUID: "GPU-7", PLACED: "{}"}, labels={PLACEMENT: "pinned"})
    assert allowed(planner.tries(ours, [remove(PIN)]))


def test_of_the_affinity_only_that_to_nodes_is_the_planners(planner: Account) -> None:
    repels = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}
    pod = planner.creates("train", affinity={"podAntiAffinity": repels})
    prefers = add("/spec/affinity/podAffinity", repels)
    assert planner.tries(pod, [prefers, *PINS], dry_run=True).status_code == 422
    terms = {"nodeSelectorTerms": [{"matchExpressions": HOSTNAMES}]}
    narrows = add("/spec/affinity/nodeAffinity", {"requiredDuringSchedulingIgnoredDuringExecution": terms})
    assert allowed(planner.tries(pod, [narrows, *PINS], dry_run=True))


@pytest.mark.parametrize(
    "more",
    [
        {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
        {"status": {"conditions": [{"type": "PodScheduled", "status": "True"}]}},
        {"status": {"phase": "Running"}},
        {"status": {"nominatedNodeName": "node-1"}},
        {"status": {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]}},
        {"metadata": {"annotations": {PLACED: "x"}}},
        {"metadata": {"annotations": {"note": "y"}}},
        {"metadata": {"labels": {PLACEMENT: "pinned"}}},
    ],
    ids=str,
)
def test_of_the_status_only_its_condition_is_the_planners(planner: Account, more: dict[str, Any]) -> None:
    pod = planner.creates("train")
    path = f"/api/v1/namespaces/{planner.team}/pods/{pod}/status"
    ours = {"type": PLACED_CONDITION, "status": "False"}
    assert refused(planner.sends("PATCH", path, more, STRATEGIC), "gpu-topology-place")
    assert allowed(planner.sets_status(pod, ours))


# the webhook


def test_the_webhook_lets_a_waiting_pod_go_and_only_then_changes_it(webhook_account: Account) -> None:
    pod = webhook_account.creates("train", gates=(OTHER_GATE, PLACE_GATE))
    assert refused(webhook_account.tries(pod, [add(LABEL, "released")]), "only to remove")
    assert refused(webhook_account.tries(pod, [remove(f"{GATES}/1")]), "to released")
    assert refused(webhook_account.tries(pod, [remove(f"{GATES}/1"), add(LABEL, "pinned")]), "to released")
    opens = [add(LABEL, "released"), remove(f"{GATES}/1")]
    assert allowed(webhook_account.tries(pod, opens))
    assert webhook_account.reads(pod)["spec"]["schedulingGates"] == [{"name": OTHER_GATE}]
    assert refused(webhook_account.tries(pod, [remove(f"{GATES}/0")]), "only to remove")


@pytest.mark.parametrize(
    "operations",
    [PINS, [add(SAID, "{}"), *RELEASES], [add("/spec/affinity", {"nodeAffinity": {}}), *RELEASES]],
    ids=["pin", "output", "affinity"],
)
def test_what_is_the_planners_is_not_the_webhooks(
    webhook_account: Account, planner: Account, operations: Operations
) -> None:
    pod = webhook_account.creates("train")
    assert webhook_account.tries(pod, operations, dry_run=True).status_code == 422
    assert webhook_account.sets_status(pod, {"type": PLACED_CONDITION, "status": "True"}).status_code == 403
    assert allowed(planner.tries(pod, operations, dry_run=True))


def test_the_requests_of_the_webhook_itself_are_allowed(webhook_account: Account, control_plane: ControlPlane) -> None:
    webhook_account.creates("train")

    async def test() -> None:
        async with session(control_plane, webhook_account) as connected:
            waiting = WaitingPods(Api(connected), webhook_account.release)
            assert await waiting.lease() is None
            async for page in waiting.pages():
                for document in page.documents:
                    pod = msgspec.json.decode(document, type=Pod)
                    gate, metadata = find_gate(pod), pod.metadata or Metadata()
                    if gate and metadata.namespace == webhook_account.team:
                        opens = open_gate(gate, Placement.RELEASED)
                        assert await waiting.patch(metadata.namespace, metadata.name or "", opens)

    asyncio.run(test())
    assert "schedulingGates" not in webhook_account.reads("train")["spec"]


def test_the_webhook_reads_the_lease_of_the_planner_and_no_other(webhook_account: Account) -> None:
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{webhook_account.release}/leases"
    named = "fieldSelector=metadata.name%3Dgpu-topology-place"
    assert allowed(webhook_account.sends("GET", f"{leases}?{named}"))
    assert allowed(webhook_account.sends("GET", f"{leases}?watch=1&timeoutSeconds=1&{named}"))
    assert webhook_account.sends("GET", f"{leases}?watch=1&timeoutSeconds=1").status_code == 403
