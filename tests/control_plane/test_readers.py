"""The ClusterRoles for people at a real API server: what each command knows with them, and nothing more."""

import json
from pathlib import Path

import pytest
from kubernetes.client import CoreV1Api

from tests.cli.command import gpu_topology
from tests.control_plane.accounts import permitted
from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.filling import OURS, found
from webhook.cluster.api.permissions import READER, VIEW

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def reader(seeded: ControlPlane) -> Path:
    with seeded.client() as client:
        return permitted(CoreV1Api(client), seeded, OURS, "reader", READER)


@pytest.fixture(scope="module")
def viewer(seeded: ControlPlane) -> Path:
    """One who sees the namespace ``team-a``."""
    with seeded.client() as client:
        return permitted(CoreV1Api(client), seeded, "team-a", "viewer", VIEW)


def test_with_the_reader_role_only_secrets_are_unread(reader: Path) -> None:
    done = gpu_topology("analyze", "-A", "--kubeconfig", reader, "-o", "json")
    assert done.err == ""
    unread = [row for row in json.loads(done.out)["findings"] if row["code"] in ("GT851", "GT866")]
    assert [row["code"] for row in unread] == ["GT866"]
    assert ("GT330", "Pod team-a/unlucky") in found(done.out)


def test_with_the_reader_role_status_shows_every_node(reader: Path) -> None:
    done = gpu_topology("status", "-A", "--kubeconfig", reader)
    assert (done.code, done.err) == (0, "")
    assert "0-7{a . . . . a . . }" in done.out


def test_with_the_reader_role_explain_leaves_nothing_out(reader: Path) -> None:
    done = gpu_topology("explain", "-v", "team-a/unlucky", "--kubeconfig", reader)
    assert (done.code, done.err) == (1, "")
    assert "FAIL links: GPU0 and GPU5 have no NVLink" in done.out


def test_with_the_reader_role_a_plan_of_the_present_cluster_is_made(reader: Path) -> None:
    done = gpu_topology("topology", "plan", "--gpus", "2", "--kubeconfig", reader)
    assert (done.code, done.err) == (0, "")


def test_with_view_of_a_namespace_its_pods_are_known_and_those_of_others_are_not(viewer: Path) -> None:
    done = gpu_topology("status", "-n", "team-a", "--kubeconfig", viewer)
    assert (done.code, done.err) == (0, "")
    assert "team-a/unlucky" in done.out
    assert done.out.startswith(
        "GT865: nodes could not be listed, so no node and no card is shown: list nodes: nodes is"
    )
    assert "There is no node with GPUs" not in done.out
    assert "Have an administrator bind the ClusterRole gpu-topology-reader of the chart to you" in done.out
    other = gpu_topology("status", "-n", OURS, "--kubeconfig", viewer)
    assert (other.code, other.out) == (2, "")
    assert f"Have the permission to list pods in namespace {OURS}" in other.err


def test_with_view_of_a_namespace_explain_takes_the_cards_from_what_the_pod_was_told(viewer: Path) -> None:
    done = gpu_topology("explain", "-v", "team-a/told", "--kubeconfig", viewer)
    assert "links: every pair of GPU4 and GPU5 has NVLink: link class NVSwitch" in done.out
    assert "node-topology: the pod's own annotation gpu.topology/node-topology, which the webhook wrote at" in done.out
    assert 'cannot get resource "nodes"' in done.err
    assert done.err.endswith("bind the ClusterRole gpu-topology-reader of the chart to you\n")


def test_with_view_of_a_namespace_a_pod_that_was_told_nothing_has_unknown_cards(viewer: Path) -> None:
    done = gpu_topology("explain", "-v", "team-a/unlucky", "--kubeconfig", viewer)
    assert "?    links: which GPUs they are is not known" in done.out
