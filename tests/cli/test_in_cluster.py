"""``inject``, ``bind`` and ``topology show`` with what a cluster tells, in the place of a state directory."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
import yaml

from tests.cli.command import Done, gpu_topology
from tests.cli.stand_in_cluster import RESOURCE, SLICES, Cluster, add_claim_case, add_pod, add_topology
from tests.cli.test_claim import slices
from tests.decisions.test_detection import deployment
from tests.hardware.topology import machines
from tests.insight.explain.situations import H20, injected, on
from tests.pods import pod
from webhook.cluster.api.resources import ALL_CONFIG_MAPS, ALL_LEASES
from webhook.hardware.topology.document import format_topology
from webhook.hardware.topology.model import NodeTopology
from webhook.objects.lease import micro_time
from webhook.words.node_names import node_label

SCHEDULERS = "/apis/apps/v1/deployments app.kubernetes.io/component=hami-scheduler"
NODE = "/api/v1/nodes/h20-node-1"
OPTED_IN = {"gpu.topology/injection": "enabled"}


def with_versions(cluster: Cluster) -> None:
    cluster.objects[SCHEDULERS] = {"items": [deployment(image="registry/hami:v2.9.0")]}


def with_namespace(cluster: Cluster, name: str, **labels: str) -> None:
    cluster.objects[f"/api/v1/namespaces/{name}"] = {"metadata": {"name": name, "labels": labels}}


def inject(cluster: Cluster, manifest: Any, *options: str) -> Done:
    return gpu_topology("inject", "-f", "-", "--kubeconfig", cluster.kubeconfig, *options, stdin=json.dumps(manifest))


def without_namespace(manifest: Any) -> Any:
    metadata = {key: value for key, value in manifest["metadata"].items() if key != "namespace"}
    return manifest | {"metadata": metadata}


def test_a_manifest_is_injected_as_its_namespace_in_the_cluster_says(cluster: Cluster) -> None:
    with_versions(cluster)
    with_namespace(cluster, "team-a", **OPTED_IN)
    done = inject(cluster, pod())
    assert (done.code, done.err) == (0, "")
    assert "gpu.topology/injected" in done.out
    with_namespace(cluster, "team-a")
    assert inject(cluster, pod()).err.startswith("skipped: Pod train: ")


def test_a_manifest_without_a_namespace_goes_to_that_of_the_context(cluster: Cluster) -> None:
    with_versions(cluster)
    with_namespace(cluster, "team-b", **OPTED_IN)
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    config["contexts"].append({"name": "b", "context": config["contexts"][0]["context"] | {"namespace": "team-b"}})
    cluster.kubeconfig.write_text(json.dumps(config))
    assert inject(cluster, without_namespace(pod()), "--context", "b").err == ""
    assert inject(cluster, without_namespace(pod())).err.startswith("gpu-topology: left out: get namespace default")
    assert inject(cluster, without_namespace(pod()), "-n", "team-b").err == ""


@pytest.mark.parametrize("alive", [True, False])
def test_a_pod_waits_only_where_the_cluster_has_a_planner(cluster: Cluster, tmp_path: Path, *, alive: bool) -> None:
    with_versions(cluster)
    with_namespace(cluster, "team-a", **OPTED_IN)
    registration = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/gpu-topology-webhook"
    service = {"clientConfig": {"service": {"namespace": "system", "name": "gpu-topology-webhook"}}}
    cluster.objects[registration] = {"webhooks": [{"name": "pods.gpu.topology", **service}]}
    renewed = micro_time(datetime.now(UTC) - timedelta(minutes=0 if alive else 60))
    lease = {"spec": {"holderIdentity": "x", "renewTime": renewed, "leaseDurationSeconds": 15}}
    cluster.objects["/apis/coordination.k8s.io/v1/namespaces/system/leases/gpu-topology-place"] = lease
    config = tmp_path / "config.yaml"
    config.write_text("placement: {mode: 'on'}\n")
    done = inject(cluster, pod(), "--config", str(config))
    assert ("schedulingGates" in done.out) is alive


def test_claims_of_a_manifest_are_those_of_the_cluster(cluster: Cluster, claims_enabled: tuple[str, str]) -> None:
    with_versions(cluster)
    name = add_claim_case(cluster, "first-available").partition("/")[2]
    manifest = cluster.objects[f"/api/v1/namespaces/team/pods/{name}"]
    done = inject(cluster, manifest, *claims_enabled)
    assert done.code == 0, done.err
    assert any(target.startswith(f"{RESOURCE}/namespaces/team/resourceclaims/") for target in cluster.asked)


def bound(cluster: Cluster, *arguments: str, stdin: str = "") -> tuple[dict[str, Any], str]:
    done = gpu_topology("bind", *arguments, "--kubeconfig", cluster.kubeconfig, "-o", "json", stdin=stdin)
    assert done.out, done.err
    outcome: dict[str, Any] = json.loads(done.out)
    return outcome, done.err


def test_a_pod_of_the_cluster_is_bound_with_what_its_node_publishes(cluster: Cluster) -> None:
    add_pod(cluster, on(injected(pod()), "h20-node-1", [H20[0], H20[1]]))
    add_topology(cluster, minutes_ago=1)
    outcome, said = bound(cluster, "team-a/train")
    assert (outcome["node"], outcome["link"]) == ("h20-node-1", "NVSwitch")
    assert "left out: there is no node h20-node-1" in said
    assert bound(cluster, "train", "-n", "team-a")[0] == outcome


def test_claims_of_a_pod_of_the_cluster_are_read_with_the_slices_of_its_node(
    cluster: Cluster, claims_enabled: tuple[str, str]
) -> None:
    name = add_claim_case(cluster, "first-available")
    outcome, _ = bound(cluster, name, "--node", "a100-bridged", *claims_enabled)
    assert outcome["node"] == "a100-bridged"
    assert f"{RESOURCE}/resourceslices?fieldSelector=spec.nodeName%3Da100-bridged&limit=500" in cluster.asked


@pytest.mark.parametrize("is_of_the_node", [True, False])
def test_of_two_nodes_whose_names_make_one_label_each_is_shown_its_own(
    cluster: Cluster, *, is_of_the_node: bool
) -> None:
    name = "node-1"
    topology = replace(machines.h20(), node=name if is_of_the_node else "node-2")
    owner = {"kind": "Node", "uid": "u"}
    labels = {"gpu.topology/node": node_label(name)}
    metadata = {"name": f"gpu-topology-{topology.node}", "namespace": "s", "ownerReferences": [owner], "labels": labels}
    config_map = {"metadata": metadata, "data": {"topology.json": format_topology(topology)}}
    cluster.objects[f"/api/v1/configmaps gpu.topology/node={node_label(name)}"] = {"items": [config_map]}
    cluster.objects[f"/api/v1/nodes/{name}"] = {"metadata": {"name": name, "uid": "u"}}
    done = gpu_topology("topology", "show", "--node", name, "--kubeconfig", cluster.kubeconfig)
    assert done.code == (0 if is_of_the_node else 1), done.err
    assert ("no agent has published its GPUs" in done.err) is not is_of_the_node


@pytest.mark.parametrize(
    "command",
    [
        ["analyze", "-A"],
        ["explain", "team-a/train"],
        ["inject", "-f", "-"],
        ["bind", "team-a/train"],
        ["claim", "--gpus", "2", "--require-nvlink"],
        ["topology", "show", "--node", "x"],
        ["topology", "plan", "--gpus", "2"],
        ["certs", "show"],
        ["place", "release", "--all"],
        ["state", "save", "/nowhere"],
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_every_command_takes_the_context_that_is_named(cluster: Cluster, command: list[str]) -> None:
    done = gpu_topology(*command, "--kubeconfig", cluster.kubeconfig, "--context", "gone")
    assert done.code in {1, 2}
    assert 'there is no context "gone"' in done.err


@pytest.mark.parametrize(("may_list", "code"), [(True, 1), (False, 0)])
def test_partitions_of_a_cluster_are_not_known_where_slices_may_not_be_listed(
    cluster: Cluster, may_list: bool, code: int
) -> None:
    topology = machines.h20()
    with_published(cluster, topology)
    cluster.objects[SLICES] = (
        {"items": [json.loads(slices(topology, "01234567", "0123", "4567"))]} if may_list else None
    )
    done = gpu_topology("claim", "--gpus", "2", "--require-nvlink", "--kubeconfig", cluster.kubeconfig)
    assert done.code == code, done.err
    assert ("node h20-node-1 has partitions of 4 and 8" in done.err) is may_list
    assert ("Without resourceslices partitions of NVSwitches are not known" in done.err) is not may_list
    assert ("# Not known of h20-node-1: whether" in done.out) is not may_list


def with_published(cluster: Cluster, topology: NodeTopology) -> None:
    """A node, what its agent published, and the Lease by which the agent is alive, in lists of the cluster."""
    owner = {"kind": "Node", "uid": "u", "name": topology.node, "apiVersion": "v1"}
    labels = {"gpu.topology/node": node_label(topology.node), "app.kubernetes.io/name": "gpu-topology"}
    metadata = {"name": f"gpu-topology-{topology.node}", "namespace": "s", "ownerReferences": [owner], "labels": labels}
    config_map = {"metadata": metadata, "data": {"topology.json": format_topology(topology)}}
    lease = {"metadata": metadata, "spec": {"renewTime": micro_time(datetime.now(UTC))}}
    cluster.objects["/api/v1/pods"] = {"items": []}
    cluster.objects["/api/v1/nodes"] = {"items": [{"metadata": {"name": topology.node, "uid": "u"}}]}
    for resource, item in ((ALL_CONFIG_MAPS, config_map), (ALL_LEASES, lease)):
        selector = parse_qs(resource.query).get("labelSelector", [""])[0]
        cluster.objects[f"{resource.path} {selector}".rstrip()] = {"items": [item]}


LISTS = {
    "pods": "/api/v1/pods",
    "nodes": "/api/v1/nodes",
    "configmaps": "/api/v1/configmaps gpu.topology/node",
    "leases": "/apis/coordination.k8s.io/v1/leases gpu.topology/node",
}


@pytest.mark.parametrize("resource", LISTS)
def test_a_plan_needs_pods_and_nodes_and_says_what_else_it_could_not_read(cluster: Cluster, resource: str) -> None:
    cluster.objects |= {path: {"items": []} for path in LISTS.values()} | {LISTS[resource]: None}
    done = gpu_topology("topology", "plan", "--gpus", "2", "--kubeconfig", cluster.kubeconfig)
    assert done.code == 1
    if resource in ("pods", "nodes"):
        assert done.err.startswith(f"gpu-topology: list {resource}: you may not (403). Have an administrator bind the ")
    else:
        assert f"gpu-topology: left out: list {resource}: you may not" in done.err
        assert f"Without {resource} only HAMi's annotations tell of links\n" in done.err
