"""``gpu-topology analyze`` and ``state save`` at a real API server, as a person with the rights that they name."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from kubernetes.client import CoreV1Api

from tests.cli.command import gpu_topology
from tests.control_plane.accounts import permitted, without
from tests.control_plane.control_plane import Binaries, ControlPlane, running_control_plane
from tests.control_plane.filling import OURS, administrator, fill, found
from tests.insight.analyze.clusters import Cluster, Object
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


def test_what_a_later_hami_would_count_is_told_of_the_cluster_and_of_its_saved_state(
    person: Path, tmp_path: Path
) -> None:
    state, named = tmp_path / "state", ("--hami-version", "2.11.0", "-o", "json")
    assert gpu_topology("state", "save", state, "--kubeconfig", person).code == 0
    live = gpu_topology("analyze", "-A", "--kubeconfig", person, *named)
    assert {("GT246", "Pod team-a/train"), ("GT246", "Pod team-a/pair")} <= found(live.out)
    assert found(gpu_topology("analyze", "--state", state, *named).out) == found(live.out)


def test_a_pod_of_a_saved_state_is_explained(person: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    assert gpu_topology("state", "save", state, "--kubeconfig", person).code == 0
    done = gpu_topology("explain", "-v", "team-a/train", "--state", state)
    assert (done.code, done.err) == (0, ""), done.out
    assert "allocation: node switched gives GPU0, GPU1, GPU2 and GPU3 to container train" in done.out
    done = gpu_topology("explain", "team-a/unlucky", "--state", state, "-o", "json")
    assert "GT330" in {each["code"] for each in json.loads(done.out)["findings"]}


DEEP_CLAIM = (
    '{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "deep"}, "spec": {"devices": {'
    '"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}], "config": [{"opaque": {"driver":'
    '"gpu.nvidia.com", "parameters": {"a":' + "[" * 4000 + "]" * 4000 + "}}}]}}}"
)
# The API server keeps what a client says of managedFields, if it may be an entry.
DEEP_POD = (
    '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "deep", "managedFields": [{"manager": "m", "operation":'
    '"Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": '
    + '{"f:a":' * 4000
    + "{}"
    + "}" * 4000
    + '}]}, "spec": {"containers": [{"name": "a", "image": "x"}]}}'
)


@pytest.fixture
def deep_objects(faulty: ControlPlane) -> Iterator[None]:
    """What a tenant may create: a claim and a pod in which something is nested thousands of times."""
    claims, pods = "/apis/resource.k8s.io/v1/namespaces/plain/resourceclaims", "/api/v1/namespaces/plain/pods"
    with administrator(faulty) as client:
        for path, body in ((claims, DEEP_CLAIM), (pods, DEEP_POD)):
            answer = client.post(path, content=body, headers={"Content-Type": "application/json"})
            assert answer.status_code == 201, answer.text
            with pytest.raises(RecursionError, match="recursion"):
                msgspec.json.decode(client.get(f"{path}/deep").content)
        yield
        for path in (claims, pods):
            client.delete(f"{path}/deep?gracePeriodSeconds=0")


@pytest.mark.usefixtures("deep_objects")
def test_what_is_nested_too_deep_hides_nothing_else(faulty: ControlPlane, person: Path, tmp_path: Path) -> None:
    done = gpu_topology("analyze", "-A", "--kubeconfig", person, "-o", "json")
    assert (done.code, done.err) == (1, "")
    assert found(done.out) == expected()
    assert gpu_topology("status", "-A", "--kubeconfig", person).code == 0
    explained = gpu_topology("explain", "-v", "plain/deep", "--kubeconfig", faulty.kubeconfig)
    assert (explained.code, explained.err) == (0, ""), explained
    state = tmp_path / "state"
    assert gpu_topology("state", "save", state, "--kubeconfig", person).code == 0
    again = gpu_topology("analyze", "--state", state, "-o", "json")
    assert found(again.out) == found(done.out)


def test_one_namespace_is_enough_for_its_pods(person: Path) -> None:
    done = gpu_topology("analyze", "-n", "plain", "--kubeconfig", person, "-o", "json")
    pods = {(code, holder) for code, holder in found(done.out) if holder.startswith(("Pod", "Namespace"))}
    assert pods == {(code, "Pod plain/notebook") for code in ("GT103", "GT155", "GT210")}


def test_a_namespace_that_is_not_there_is_an_error(person: Path) -> None:
    done = gpu_topology("analyze", "-n", "no-such", "--kubeconfig", person)
    assert (done.code, done.out) == (2, "")
    assert done.err == "gpu-topology: there is no namespace no-such in this cluster\n"


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


def test_without_the_right_to_list_pods_there_is_no_answer(faulty: ControlPlane) -> None:
    with faulty.client() as client:
        rights = without(ANALYZE, Scope.CLUSTER, "pods", "list")
        kubeconfig = permitted(CoreV1Api(client), faulty, OURS, "without-pods", rights)
    done = gpu_topology("analyze", "-A", "--kubeconfig", kubeconfig)
    assert (done.code, done.out) == (2, "")
    assert "Have the permission to list pods. With -n NAMESPACE those of one namespace are enough" in done.err


def test_manifests_are_judged_as_if_they_were_in_the_cluster(person: Path, tmp_path: Path) -> None:
    pod: Object = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "next", "namespace": "plain"}}
    limits = {"nvidia.com/gpu": 2}
    pod["spec"] = {"containers": [{"name": "a", "image": "x", "resources": {"limits": limits}}]}
    opted_in: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fleet"}}
    opted_in["metadata"]["labels"] = {"gpu.topology/injection": "enabled"}
    manifests = tmp_path / "manifests.json"
    manifests.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [pod, opted_in]}))
    done = gpu_topology("analyze", "-A", "-f", manifests, "--kubeconfig", person, "-o", "json")
    assert ("GT103", "Pod plain/next") in found(done.out)
    assert ("GT103", "Pod fleet/serve-6d4f-0") not in found(done.out)
    assert ("GT103", "Pod plain/notebook") in found(done.out)
