"""``gpu-topology explain`` at an API server."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.cli.stand_in_cluster import RESOURCE, SLICES, Cluster, add_claim_case, add_pod, add_topology
from tests.decisions.test_detection import deployment
from tests.hardware.topology import machines
from tests.hardware.topology.machines import without
from tests.insight.explain.situations import H20, annotated, injected, on
from tests.pods import Manifest, container, pod
from webhook.hardware.topology.document import format_topology
from webhook.hardware.topology.model import NodeTopology
from webhook.objects.lease import micro_time

CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
GROUP = {"gpu.topology/group": "serving"}
SCHEDULERS = "/apis/apps/v1/deployments app.kubernetes.io/component=hami-scheduler"
REGISTRATION = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/gpu-topology-webhook"
REGISTER = "".join(f"{H20[index]},10,97871,100,NVIDIA-NVIDIA H20,0,true,{index},hami-core:" for index in range(8))


def test_a_pod_is_explained_with_what_the_cluster_knows(cluster: Cluster) -> None:
    add_pod(cluster, on(pod(), "h20-node-1", list(H20[:2])))
    add_topology(cluster, minutes_ago=1)
    cluster.objects["/api/v1/nodes/h20-node-1"] = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "h20-node-1"},
    }
    done = cluster.explain("team-a/train", "--hami-version", "2.9.0")
    assert done.code == 3
    assert done.err == ""
    assert "  1. ok   opted-in: namespace team-a has opted in" in done.out
    assert "  5. FAIL control: HAMi's library is preloaded into container train: HAMi 2.9.0 looks there" in done.out
    assert "  9. ok   node-topology: the agent of node h20-node-1 published it" in done.out
    assert " 10. ok   links: every pair of GPU0 and GPU1 has NVLink: link class NVSwitch" in done.out


@pytest.mark.parametrize(("owner", "tells"), [("uid-of-the-node", True), ("a-guess", False)])
def test_a_config_map_that_the_node_does_not_own_is_not_believed(cluster: Cluster, owner: str, tells: bool) -> None:
    add_pod(cluster, on(pod(), "h20-node-1", list(H20[:2])))
    add_topology(cluster, minutes_ago=1)
    (config_map,) = cluster.objects["/api/v1/configmaps gpu.topology/node=h20-node-1"]["items"]
    config_map["metadata"]["ownerReferences"] = [{"kind": "Node", "name": "h20-node-1", "uid": owner}]
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "h20-node-1", "uid": "uid-of-the-node"}}
    cluster.objects["/api/v1/nodes/h20-node-1"] = node
    done = cluster.explain()
    assert ("node-topology: the agent of node h20-node-1 published it" in done.out) is tells


def test_config_maps_of_tenants_cost_no_requests(cluster: Cluster) -> None:
    add_pod(cluster, on(pod(), "h20-node-1", list(H20[:2])))
    add_topology(cluster, minutes_ago=1)
    (own,) = cluster.objects["/api/v1/configmaps gpu.topology/node=h20-node-1"]["items"]
    own["metadata"]["ownerReferences"] = [{"kind": "Node", "name": "h20-node-1", "uid": "uid-of-the-node"}]
    labels = own["metadata"]["labels"]
    others = [{"metadata": {"name": f"made-{number}", "namespace": "team-b", "labels": labels}} for number in range(50)]
    cluster.objects["/api/v1/configmaps gpu.topology/node=h20-node-1"] = {"items": [*others, own]}
    cluster.objects["/api/v1/nodes/h20-node-1"] = {"metadata": {"name": "h20-node-1", "uid": "uid-of-the-node"}}
    done = cluster.explain()
    assert "node-topology: the agent of node h20-node-1 published it" in done.out
    assert len([target for target in cluster.asked if "/leases/" in target]) == 1


def test_of_several_config_maps_without_a_known_node_the_first_is_taken_with_a_note(cluster: Cluster) -> None:
    add_pod(cluster, pod())
    add_topology(cluster, minutes_ago=1)
    (claim,) = cluster.objects["/api/v1/configmaps gpu.topology/node=h20-node-1"]["items"]
    cluster.objects["/api/v1/configmaps gpu.topology/node=\x1b[2J"] = {"items": [claim, claim]}
    done = cluster.explain("team-a/train", "--node", "\x1b[2J")
    said = "gpu-topology: 2 ConfigMaps say that they are of node \\x1b[2J; the first is taken\n"
    assert said in done.err
    assert "\x1b" not in done.err + done.out


def test_without_an_agent_hamis_annotations_tell(cluster: Cluster) -> None:
    add_pod(cluster, on(pod(), "h20-node-1", list(H20[:2])))
    annotations = {"hami.io/node-nvidia-register": REGISTER}
    cluster.objects["/api/v1/nodes/h20-node-1"] = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "h20-node-1", "annotations": annotations},
    }
    done = cluster.explain()
    assert "node-topology: HAMi's annotations of node h20-node-1 tell it" in done.out


def test_the_other_pods_of_the_group_are_looked_up(cluster: Cluster) -> None:
    other = on(pod(labels=GROUP), "h20-node-2", list(H20[2:4]))
    other["metadata"]["name"] = "decode-0"
    mine = on(pod(labels=GROUP), "h20-node-1", list(H20[:2]))
    add_pod(cluster, mine)
    cluster.objects["/api/v1/namespaces/team-a/pods gpu.topology/group=serving"] = {"items": [mine, other]}
    done = cluster.explain()
    assert "same-node: decode-0 is on node h20-node-2, this pod on h20-node-1" in done.out


def test_what_may_not_be_read_is_left_out_with_a_note(cluster: Cluster) -> None:
    add_pod(cluster, on(pod(), "h20-node-1", list(H20[:2])))
    cluster.objects |= {"/api/v1/namespaces/team-a": None, "/api/v1/nodes/h20-node-1": None, "/version": {}}
    done = cluster.explain()
    assert done.code == 3
    assert "gpu-topology: left out: get namespace team-a: you may not (403)\n" in done.err
    assert "gpu-topology: left out: get node h20-node-1: you may not (403)\n" in done.err
    assert "the version of the API server: expected a version" in done.err
    assert done.err.endswith(
        "gpu-topology: GT864: your rights do not allow all that was to be read. "
        "Have an administrator bind the ClusterRole gpu-topology-reader of the chart to you\n"
    )
    assert (
        "  1. ?    opted-in: the namespace is not known here: get namespace team-a: you may not (403) (GT153)\n"
        in done.out
    )
    assert "-> Have the permission to get namespaces\n" in done.out
    assert "--kubeconfig" not in done.out


def test_a_pod_that_may_not_be_read_is_told_with_the_role(cluster: Cluster) -> None:
    cluster.objects["/api/v1/namespaces/team-a/pods/train"] = None
    done = cluster.explain()
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        "gpu-topology: get pod team-a/train: you may not (403). "
        "Have an administrator bind the ClusterRole gpu-topology-reader of the chart to you\n"
    )


NODE = "/api/v1/nodes/h20-node-1"
PUBLISHED = "/api/v1/configmaps gpu.topology/node=h20-node-1"


def bound(topology: NodeTopology) -> Manifest:
    """A pod that the webhook prepared and bound, when its node was as this topology says."""
    found = on(injected(pod(container(gpus=2))), "h20-node-1", list(H20[:2]))
    return annotated(found, **{"node-topology": format_topology(topology)})


def test_where_the_node_may_not_be_read_the_pod_tells_of_it(cluster: Cluster) -> None:
    add_pod(cluster, bound(machines.h20()))
    cluster.objects |= {NODE: None, PUBLISHED: None}
    done = cluster.explain()
    assert "ok   allocation: node h20-node-1 gives GPU0 and GPU1 to container train\n" in done.out
    assert (
        "ok   node-topology: the pod's own annotation gpu.topology/node-topology, which the webhook wrote at the "
        "Binding, tells it of node h20-node-1\n" in done.out
    )
    assert "ok   links: every pair of GPU0 and GPU1 has NVLink: link class NVSwitch\n" in done.out
    assert "ok   bandwidth: GPU0-GPU1 have 370.8 GB/s per direction, no pair has less" in done.out
    assert "ClusterRole gpu-topology-reader" in done.err


def test_where_the_node_may_be_read_it_counts_and_not_what_the_pod_was_told(cluster: Cluster) -> None:
    add_pod(cluster, bound(without(machines.h20(), 0)))
    add_topology(cluster, minutes_ago=1)
    cluster.objects[NODE] = None
    assert "node-topology: the agent of node h20-node-1 published it" in cluster.explain().out


@pytest.mark.parametrize("text", ["{}", "garbled", format_topology(replace(machines.h20(), node="another"))])
def test_a_pod_that_was_not_told_of_its_node_tells_nothing(cluster: Cluster, text: str) -> None:
    add_pod(cluster, annotated(bound(machines.h20()), **{"node-topology": text}))
    cluster.objects |= {NODE: None, PUBLISHED: None}
    done = cluster.explain()
    assert "?    node-topology: the topology of node h20-node-1 is not known: list ConfigMaps" in done.out
    assert "?    links: which GPUs they are is not known" in done.out


def test_config_maps_that_may_not_be_read_do_not_stand_for_a_missing_agent(cluster: Cluster) -> None:
    add_pod(cluster, on(pod(), "h20-node-1", list(H20[:2])))
    cluster.objects |= {
        "/api/v1/configmaps gpu.topology/node=h20-node-1": None,
        "/api/v1/nodes/h20-node-1": {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "h20-node-1"}},
    }
    done = cluster.explain()
    problem = "list ConfigMaps with gpu.topology/node=h20-node-1: you may not (403)"
    assert f"?    node-topology: the topology of node h20-node-1 is not known: {problem} (GT324)\n" in done.out
    assert "-> Have the permission to list ConfigMaps and to get nodes\n" in done.out
    assert "agent" not in done.out


@pytest.mark.parametrize(
    ("lease", "said"),
    [
        ([None], "published it; how long ago is not known: "),
        ([{"metadata": {}, "spec": {}}], "has never been heard of"),
        ([], "has never been heard of"),
    ],
    ids=["forbidden", "empty", "none"],
)
def test_an_agent_is_as_old_as_its_lease_says(cluster: Cluster, lease: list[Any], said: str) -> None:
    add_pod(cluster, on(pod(), "h20-node-1", list(H20[:2])))
    add_topology(cluster, minutes_ago=1)
    path = "/apis/coordination.k8s.io/v1/namespaces/gpu-topology-system/leases/gpu-topology-h20-node-1"
    del cluster.objects[path]
    for each in lease:
        cluster.objects[path] = each
    done = cluster.explain()
    assert f"node-topology: the agent of node h20-node-1 {said}" in done.out
    assert "links: every pair of GPU0 and GPU1 has NVLink" in done.out


def test_peers_that_may_not_be_listed_are_not_said_to_be_missing(cluster: Cluster) -> None:
    add_pod(cluster, on(pod(labels=GROUP), "h20-node-1", list(H20[:2])))
    cluster.objects["/api/v1/namespaces/team-a/pods gpu.topology/group=serving"] = None
    done = cluster.explain()
    assert "?    same-node: the other pods of group serving could not be read: list pods of team-a" in done.out
    assert "-> Have the permission to list pods\n" in done.out


def test_a_pod_without_a_node_asks_for_none(cluster: Cluster) -> None:
    add_pod(cluster, pod())
    cluster.explain()
    assert [target.partition("?")[0] for target in cluster.asked] == [
        "/api/v1/namespaces/team-a/pods/train",
        "/api/v1/namespaces/team-a",
        "/apis/apps/v1/deployments",
        "/version",
        CLASSES,
        REGISTRATION,
    ]


def test_hamis_version_is_that_of_its_scheduler(cluster: Cluster) -> None:
    add_pod(cluster, on(pod(), "h20-node-1", list(H20[:2])))
    cluster.objects[SCHEDULERS] = {"items": [deployment("projecthami/hami:v2.8.1")]}
    assert "control: HAMi's library is preloaded into container train: HAMi 2.8.1 looks there" in cluster.explain().out
    assert "HAMi 2.9.0 looks there" in cluster.explain("team-a/train", "--hami-version", "2.9.0").out


@pytest.mark.parametrize(
    ("account", "said"),
    [
        ("hami-scheduler", "ok   binding-reviewed: the API server asks the webhook about Bindings by system:service"),
        ("my-hami-scheduler", "FAIL binding-reviewed: the API server does not ask the webhook about Bindings by sys"),
    ],
)
def test_a_scheduler_whose_bindings_do_not_reach_the_webhook_is_named(
    cluster: Cluster, account: str, said: str
) -> None:
    add_pod(cluster, on(injected(pod()), "h20-node-1", list(H20[:2])))
    scheduler = deployment("projecthami/hami:v2.9.0")
    scheduler["spec"]["template"]["spec"]["serviceAccountName"] = account
    cluster.objects[SCHEDULERS] = {"items": [scheduler]}
    listed = "request.userInfo.username in ['system:serviceaccount:kube-system:hami-scheduler']"
    bindings = {"name": "bindings.gpu.topology", "matchConditions": [{"name": "by", "expression": listed}]}
    cluster.objects[REGISTRATION] = {"webhooks": [bindings]}
    done = cluster.explain()
    assert said in done.out, done.out
    assert ("schedulers of the webhook's chart: kube-system/my-hami-scheduler." in done.out) is ("my-" in account)


def test_a_webhook_that_is_not_registered_under_its_name_is_said(cluster: Cluster, tmp_path: Path) -> None:
    add_pod(cluster, on(injected(pod()), "h20-node-1", list(H20[:2])))
    cluster.objects[SCHEDULERS] = {"items": [deployment("projecthami/hami:v2.9.0")]}
    done = cluster.explain()
    assert "MutatingWebhookConfiguration" not in done.err
    assert "?    binding-reviewed: there is no MutatingWebhookConfiguration gpu-topology-webhook" in done.out
    config = tmp_path / "config.yaml"
    config.write_text("certificates: {webhookConfiguration: ours}\n")
    cluster.objects[REGISTRATION.replace("gpu-topology-webhook", "ours")] = {
        "webhooks": [{"name": "bindings.gpu.topology"}]
    }
    assert "ok   binding-reviewed" in cluster.explain("team-a/train", "--config", str(config)).out


@pytest.mark.parametrize("path", [SCHEDULERS, REGISTRATION])
def test_a_registration_that_may_not_be_read_is_not_taken_for_none(cluster: Cluster, path: str) -> None:
    add_pod(cluster, on(injected(pod()), "h20-node-1", list(H20[:2])))
    cluster.objects[path] = None
    done = cluster.explain()
    assert "?    binding-reviewed: whether Bindings of the pod's scheduler reach the webhook is not known: " in done.out
    assert "-> Have the permissions to list Deployments and to get MutatingWebhookConfigurations\n" in done.out


LEASE = "/apis/coordination.k8s.io/v1/namespaces/gpu/leases/gpu-topology-place"


def add_waiting_pod(cluster: Cluster) -> None:
    """A pod behind the gate, and the webhook's registration, which names its namespace."""
    manifest = pod(labels={"gpu.topology/placement": "waiting"}, schedulingGates=[{"name": "gpu.topology/place"}])
    placed = {"type": "gpu.topology/Placed", "status": "False", "reason": "NoFreeCards", "message": "GT621: a is full"}
    add_pod(cluster, manifest | {"status": {"phase": "Pending", "conditions": [placed]}})
    client = {"service": {"namespace": "gpu", "name": "gpu-topology-webhook"}}
    cluster.objects[REGISTRATION] = {"webhooks": [{"name": "pods.gpu.topology", "clientConfig": client}]}


def lease(*, minutes_ago: int) -> dict[str, Any]:
    renewed = micro_time(datetime.now(UTC) - timedelta(minutes=minutes_ago))
    return {"spec": {"holderIdentity": "planner-0", "leaseDurationSeconds": 15, "renewTime": renewed}}


def test_a_waiting_pod_says_for_what_and_whether_a_planner_is_alive(cluster: Cluster) -> None:
    add_waiting_pod(cluster)
    cluster.objects[LEASE] = lease(minutes_ago=0)
    done = cluster.explain()
    waits = "the pod waits behind the scheduling gate gpu.topology/place"
    assert f"?    placement: {waits}: a is full (GT621)\n" in done.out
    cluster.objects[LEASE] = lease(minutes_ago=30)
    done = cluster.explain()
    gone = "and no planner is alive: Lease gpu/gpu-topology-place was renewed 30 minutes ago; the webhook lets it go"
    assert f"FAIL placement: {waits}, {gone}" in done.out
    del cluster.objects[LEASE]
    assert "and no planner is alive: there is no Lease gpu/gpu-topology-place; " in cluster.explain().out


def test_a_planner_that_may_not_be_asked_about_is_not_said_to_be_gone(cluster: Cluster) -> None:
    add_waiting_pod(cluster)
    cluster.objects[LEASE] = None
    done = cluster.explain()
    problem = "get Lease gpu/gpu-topology-place: you may not (403)"
    assert f"gpu-topology: left out: {problem}\n" in done.err
    assert f": a is full; whether a planner is alive is not known: {problem} (GT621)\n" in done.out
    assert "Have the permissions to get MutatingWebhookConfigurations and Leases\n" in done.out


@pytest.mark.parametrize(
    ("registration", "problem"),
    [
        (None, "get MutatingWebhookConfiguration gpu-topology-webhook: you may not (403)"),
        ({"webhooks": [{"clientConfig": {"url": "https://a"}}]}, "names no Service, and so no namespace"),
        ({"webhooks": 1}, "names no Service, and so no namespace"),
    ],
    ids=["forbidden", "url", "spoiled"],
)
def test_without_the_namespace_of_the_planner_its_lease_is_not_asked_for(
    cluster: Cluster, registration: Any, problem: str
) -> None:
    add_waiting_pod(cluster)
    cluster.objects[REGISTRATION] = registration
    done = cluster.explain()
    assert problem in done.out
    assert LEASE not in cluster.asked


def test_of_a_pod_that_never_waits_the_planner_is_not_asked_about(cluster: Cluster) -> None:
    add_waiting_pod(cluster)
    add_pod(cluster, pod())
    cluster.explain()
    assert LEASE not in cluster.asked


@pytest.mark.parametrize(
    ("resource", "shown"), [("nvidia.com/gpu", True), ("example.com/nic", False), (None, False)], ids=str
)
def test_whether_claims_serve_the_gpus_of_a_pod_without_a_node_is_asked(
    cluster: Cluster, resource: str | None, shown: bool
) -> None:
    add_pod(cluster, pod())
    served = {"metadata": {"name": "gpu.nvidia.com"}, "spec": {"extendedResourceName": resource}}
    cluster.objects[CLASSES] = {"items": [served]}
    done = cluster.explain()
    assert (f"resource claims serve {resource} here" in done.out) is shown
    assert done.err == ""


def test_of_a_pod_with_a_node_device_classes_are_not_asked_for(cluster: Cluster) -> None:
    add_pod(cluster, pod(nodeName="h20-node-1"))
    cluster.explain()
    assert not any(target.startswith(CLASSES) for target in cluster.asked)


TRAIN_CLAIM = f"{RESOURCE}/namespaces/team/resourceclaims/train-gpus-00001"
TEMPLATE = f"{RESOURCE}/namespaces/team/resourceclaimtemplates"


def test_claims_are_read_with_the_slices_of_the_node(cluster: Cluster, claims_enabled: tuple[str, str]) -> None:
    name = add_claim_case(cluster, "first-available")
    done = cluster.explain(name, *claims_enabled)
    assert "ok   resource-claims: ResourceClaim train-gpus-00001 was given gpu-1 and gpu-0 of pool a100-br" in done.out
    assert "GPUs of node a100-bridged, of which nothing is known" in done.out
    assert [target for target in cluster.asked if target.startswith(RESOURCE)] == [
        TRAIN_CLAIM,
        f"{SLICES}?fieldSelector=spec.nodeName%3Da100-bridged&limit=500",
    ]


@pytest.mark.parametrize(("path", "code"), [(TRAIN_CLAIM, "GT293"), (SLICES, "GT294")])
def test_claims_that_may_not_be_read_leave_the_gpus_open(
    cluster: Cluster, claims_enabled: tuple[str, str], path: str, code: str
) -> None:
    name = add_claim_case(cluster, "first-available")
    cluster.objects[path] = None
    done = cluster.explain(name, *claims_enabled)
    assert "gpu-topology: left out: " in done.err
    assert f"you may not (403) ({code})" in done.out
    assert "does not exist" not in done.out


@pytest.mark.parametrize("exists", [True, False])
def test_of_a_claim_that_is_not_made_yet_the_template_is_read(
    cluster: Cluster, claims_enabled: tuple[str, str], exists: bool
) -> None:
    name = add_claim_case(cluster, "no-claim-yet")
    devices = {"requests": [{"name": "g", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 4}}]}
    if exists:
        cluster.objects[f"{TEMPLATE}/later"] = {"metadata": {"name": "later"}, "spec": {"spec": {"devices": devices}}}
    done = cluster.explain(name, *claims_enabled)
    asks = "ResourceClaimTemplate later asks for 4 devices of gpu.nvidia.com (GT290)"
    assert (asks in done.out) is exists
    assert ("ResourceClaimTemplate later does not exist" in done.out) is not exists


@pytest.mark.parametrize(
    ("account", "said"),
    [
        (
            "system:kube-scheduler",
            "ok   binding-reviewed: the API server asks the webhook about Bindings by system:kube",
        ),
        ("system:serviceaccount:kube-system:hami-scheduler", "FAIL binding-reviewed: the API server does not ask the"),
    ],
)
def test_bindings_of_kube_scheduler_have_to_reach_the_webhook_for_pods_with_claims(
    cluster: Cluster, claims_enabled: tuple[str, str], account: str, said: str
) -> None:
    name = add_claim_case(cluster, "first-available")
    train = cluster.objects["/api/v1/namespaces/team/pods/train"]["spec"]["containers"][0]
    names = ("GPU_TOPOLOGY_PROFILE", "NCCL_P2P_LEVEL", "NCCL_NVLS_ENABLE")
    train["env"] = [{"name": variable, "value": "exclusive"} for variable in names]
    bindings = {
        "name": "bindings.gpu.topology",
        "matchConditions": [{"name": "by", "expression": f"request.userInfo.username in ['{account}']"}],
    }
    cluster.objects[REGISTRATION] = {"webhooks": [bindings]}
    assert said in cluster.explain(name, *claims_enabled).out
