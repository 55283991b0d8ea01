"""``gpu-topology analyze`` and ``state save`` at a real API server, as a person with the rights that they name."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes.client import CoreV1Api

from tests.cli.command import gpu_topology
from tests.control_plane.accounts import permitted, without
from tests.control_plane.control_plane import Binaries, ControlPlane, running_control_plane
from tests.control_plane.filling import OURS, administrator, fill, found
from tests.insight.analyze.clusters import Cluster
from tests.insight.analyze.faults import FAULTS
from webhook.cluster.api.permissions import ANALYZE, Scope

pytestmark = pytest.mark.cluster

MADE = (
    "not opted in",
    "unreadable namespace",
    "namespace not allowed",
    "label without effect",
    "slice on a switch",
    "slice on a pair",
    "another scheduler",
    "no agent",
    "posing agent",
    "unreadable topology",
    "HAMi is asked first",
    "silent agent",
    "agent never heard of",
    "links down",
    "lost GPU",
    "worse cards",
    "P2P off",
    "many of a Deployment",
)
"""The faults that can be made through the API; all down to HAMi's are manifests that were written by hand."""
PLANTED = "hunter2"


@pytest.fixture(scope="module")
def faulty(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A cluster of its own with all these faults."""
    directory = tmp_path_factory.mktemp("faulty")
    cluster = Cluster()
    for fault in FAULTS:
        if fault.name in MADE:
            fault.make(cluster)
    planted(cluster)
    with running_control_plane(binaries, directory) as running:
        with administrator(running) as client, running.client() as admin:
            fill(client, CoreV1Api(admin), cluster)
        yield running
    shutil.rmtree(directory)


def planted(cluster: Cluster) -> None:
    """A secret where users put them."""
    pod = cluster.get("Pod", "train", "team-a")
    pod["metadata"]["annotations"]["example.com/token"] = PLANTED
    (container,) = pod["spec"]["containers"]
    container["env"].append({"name": "TOKEN", "value": PLANTED})
    container["command"] = ["sh", "-c", f"train --token {PLANTED}"]
    data = {"password": PLANTED}
    cluster.add(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "team-a"}, "data": data}
    )
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "namespace": "team-a"},
        "stringData": data,
    }
    cluster.add(secret)


def expected() -> set[tuple[str, str]]:
    return set().union(*(fault.expected for fault in FAULTS if fault.name in MADE))


@pytest.fixture(scope="module")
def person(faulty: ControlPlane) -> Path:
    """The kubeconfig of one with exactly the permissions of the list."""
    with faulty.client() as client:
        return permitted(CoreV1Api(client), faulty, OURS, "person", ANALYZE)


def test_each_fault_is_found_and_nothing_else(person: Path) -> None:
    done = gpu_topology("analyze", "-A", "--kubeconfig", person, "-o", "json")
    assert (done.code, done.err) == (1, "")
    assert found(done.out) == expected()


def test_a_saved_state_gives_the_same_elsewhere_and_holds_no_secret(person: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    saved = gpu_topology("state", "save", state, "--kubeconfig", person)
    assert (saved.code, saved.err) == (0, "")
    assert "pods: " in saved.out
    live = gpu_topology("analyze", "-A", "--kubeconfig", person, "-o", "json")
    again = gpu_topology("analyze", "--state", state, "-o", "json")
    assert (again.code, again.err) == (1, "")
    assert found(again.out) == found(live.out)
    for path in state.rglob("*.*"):
        text = path.read_text()
        assert PLANTED not in text, path
        assert "PRIVATE KEY" not in text
        assert "managedFields" not in text


@pytest.mark.parametrize(
    ("resource", "scope", "lost"),
    [
        ("namespaces", Scope.CLUSTER, {"GT190", "GT191", "GT192"}),
        ("nodes", Scope.CLUSTER, {"GT720", "GT721", "GT701", "GT243"}),
        ("configmaps", Scope.CLUSTER, {"GT720", "GT721", "GT701"}),
        ("deployments", Scope.CLUSTER, {"GT820"}),
        ("mutatingwebhookconfigurations", Scope.CLUSTER, {"GT820", "GT846"}),
        ("deviceclasses", Scope.CLUSTER, set()),
        ("resourceclaims", Scope.CLUSTER, set()),
        ("resourceclaimtemplates", Scope.CLUSTER, set()),
        ("resourceslices", Scope.CLUSTER, set()),
        ("secrets", Scope.OWN_NAMESPACE, set()),
    ],
)
def test_what_may_not_be_read_is_a_finding_and_no_more_is_concluded(
    faulty: ControlPlane, resource: str, scope: Scope, lost: set[str]
) -> None:
    verb = "get" if resource == "secrets" else "list"
    with faulty.client() as client:
        rights = without(ANALYZE, scope, resource, verb)
        kubeconfig = permitted(CoreV1Api(client), faulty, OURS, f"without-{resource}", rights)
    done = gpu_topology("analyze", "-A", "--kubeconfig", kubeconfig, "-o", "json")
    assert (done.code, done.err) == (1, "")
    (unread,) = [row for row in json.loads(done.out)["findings"] if row["code"] in {"GT851", "GT866"}]
    assert unread["severity"] == "info"
    (told,) = unread["objects"]
    assert f'cannot {verb} resource "{resource}"' in told["text"]
    assert "ClusterRole gpu-topology-reader" in told["fix"]
    assert (unread["code"] == "GT866") is (resource == "secrets")
    cluster_codes = {code for code, holder in found(done.out) if not holder.startswith("Pod")} - {"GT851", "GT866"}
    assert cluster_codes <= {code for code, _ in expected()}
    assert not cluster_codes & lost
