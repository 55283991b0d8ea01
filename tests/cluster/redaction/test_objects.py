"""What is kept of objects: all that something is judged by, and nothing that may be secret."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.decisions.claims.cases import CASES as CASES_OF_CLAIMS
from tests.decisions.claims.cases import SETTINGS, add_partitions, case
from tests.insight.analyze.clusters import Cluster, bundle, registration, secret
from tests.insight.analyze.faults import mixture
from tests.insight.explain.situations import told
from webhook.cluster.files.claim_manifests import claim_objects
from webhook.cluster.redaction.objects import kept
from webhook.cluster.snapshot.documents import reduced
from webhook.decisions.claims.allocations import given_gpus
from webhook.objects.claims import VERSION
from webhook.words import names
from webhook.words.errors import GpuTopologyError

CASES = sorted((Path(__file__).parents[2] / "cases" / "pods").rglob("pod.yaml"))
PLANTED = "hunter2"
CLAIM_KINDS = ("ResourceClaim", "ResourceClaimTemplate", "ResourceSlice")
KINDS = (
    *("Pod", "Namespace", "Node", "ConfigMap", "Lease", "Deployment", "MutatingWebhookConfiguration", "DeviceClass"),
    *CLAIM_KINDS,
)


def test_of_what_is_kept_of_a_pod_the_same_is_said() -> None:
    for path in CASES:
        (found,) = yaml.safe_load_all(path.read_text(encoding="utf-8"))
        found = json.loads(json.dumps(found, default=str))
        try:
            whole = told(found)
        except GpuTopologyError:
            continue  # a pod that no API server creates
        document = kept(found)
        assert document is not None, path.parent.name
        said = [(each.condition, each.verdict, each.code) for each in told(document).findings]
        assert said == [(each.condition, each.verdict, each.code) for each in whole.findings], path.parent.name


def test_what_was_kept_once_stays_the_same() -> None:
    cluster = Cluster()
    for fault in mixture(3):
        fault.make(cluster)
    once = list(reduced(cluster.raw()))
    assert list(reduced(json.loads(json.dumps(once)), were_kept=True)) == once


HOOK = {"exec": {"command": ["sh", "-c", f"curl -H {PLANTED} x"]}, "httpGet": {"path": f"/{PLANTED}"}}
CONTAINER = {
    "name": "main",
    "image": f"registry/{PLANTED}:1",
    "command": ["sh", "-c", f"export CUDA_VISIBLE_DEVICES=0,1 TOKEN={PLANTED}"],
    "args": [f"--password={PLANTED}"],
    "workingDir": f"/{PLANTED}",
    "env": [
        {"name": "PASSWORD", "value": PLANTED},
        {"name": "NVIDIA_API_KEY", "value": PLANTED},
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
        {"name": "NCCL_DEBUG", "value": "INFO"},
        {"name": "A", "valueFrom": {"secretKeyRef": {"name": PLANTED, "key": PLANTED}}},
        {"name": "B", "valueFrom": {"configMapKeyRef": {"name": PLANTED, "key": PLANTED}}},
        {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
    ],
    "envFrom": [{"prefix": PLANTED, "secretRef": {"name": PLANTED}}, {"configMapRef": {"name": PLANTED}}],
    "ports": [{"name": PLANTED, "containerPort": 1}],
    "volumeMounts": [{"name": "data", "mountPath": f"/{PLANTED}", "subPath": PLANTED, "subPathExpr": PLANTED}],
    "volumeDevices": [{"name": PLANTED, "devicePath": PLANTED}],
    "livenessProbe": HOOK,
    "readinessProbe": HOOK,
    "startupProbe": HOOK,
    "lifecycle": {"postStart": HOOK, "preStop": HOOK},
    "resources": {"limits": {"nvidia.com/gpu": "2"}, "claims": [{"name": "gpus", PLANTED: PLANTED}], PLANTED: PLANTED},
    "securityContext": {"seLinuxOptions": {"user": PLANTED}, "seccompProfile": {"localhostProfile": PLANTED}},
    "terminationMessagePath": f"/{PLANTED}",
    PLANTED: PLANTED,
}
METADATA = {
    "annotations": {
        "kubectl.kubernetes.io/last-applied-configuration": PLANTED,
        "example.com/token": PLANTED,
        "gpu.topology/env.TOKEN": PLANTED,
        "gpu.topology/env.NVIDIA_API_KEY": PLANTED,
        "gpu.topology/note": PLANTED,
        "gpu.topology/profile": "pod-peers",
    },
    "managedFields": [{"manager": PLANTED, "fieldsV1": {PLANTED: {}}}],
    "finalizers": [PLANTED],
    "selfLink": PLANTED,
    "ownerReferences": [{"kind": "Job", "name": "train", "uid": "u", PLANTED: PLANTED}],
    PLANTED: PLANTED,
}
VOLUMES = [
    {"name": "a", "secret": {"secretName": PLANTED, "items": [{"key": PLANTED, "path": PLANTED}]}},
    {"name": "b", "configMap": {"name": PLANTED}},
    {"name": "c", "hostPath": {"path": f"/{PLANTED}"}},
    {"name": "d", "csi": {"driver": PLANTED, "volumeAttributes": {PLANTED: PLANTED}}},
    {"name": "e", "projected": {"sources": [{"serviceAccountToken": {"audience": PLANTED, "path": PLANTED}}]}},
    {"name": "f", "nfs": {"server": PLANTED, "path": PLANTED}},
    {"name": "g", "emptyDir": {"medium": "Memory", PLANTED: PLANTED}},
]
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "train", "namespace": "team-a", "labels": {"example.com/note": PLANTED}, **METADATA},
    "spec": {
        "containers": [CONTAINER],
        "initContainers": [{**CONTAINER, "name": "gpu-topology-remap"}],
        "ephemeralContainers": [CONTAINER],
        "volumes": VOLUMES,
        "imagePullSecrets": [{"name": PLANTED}],
        "serviceAccountName": PLANTED,
        "hostname": "train-0",
        "subdomain": PLANTED,
        "hostAliases": [{"ip": PLANTED, "hostnames": [PLANTED]}],
        "dnsConfig": {"searches": [PLANTED]},
        "priorityClassName": PLANTED,
        "securityContext": {"sysctls": [{"name": PLANTED, "value": PLANTED}], "runAsUser": 5},
        "topologySpreadConstraints": [{"topologyKey": PLANTED}],
        PLANTED: PLANTED,
    },
    "status": {
        "phase": "Running",
        "message": PLANTED,
        "reason": PLANTED,
        "podIP": PLANTED,
        "hostIP": PLANTED,
        "conditions": [{"type": "Ready", "status": "False", "message": PLANTED}],
        "containerStatuses": [{"name": "main", "state": {"terminated": {"message": PLANTED}}, "image": PLANTED}],
        PLANTED: PLANTED,
    },
    PLANTED: PLANTED,
}


def written(*documents: dict[str, Any]) -> str:
    return json.dumps(list(reduced(documents)))


def test_a_secret_in_any_field_of_a_pod_is_not_kept() -> None:
    assert PLANTED not in written(POD)


def test_of_a_container_that_does_not_start_the_gpu_is_kept_that_its_node_does_not_have() -> None:
    said = f"{PLANTED}: device error: GPU-1-2: unknown device: {PLANTED}"
    ended = {"name": "main", "lastState": {"terminated": {"exitCode": 128, "message": said}}}
    other = {"name": "other", "state": {"terminated": {"message": PLANTED}}}
    (found,) = reduced([POD | {"status": {"containerStatuses": [ended, other]}}])
    assert found["status"] == {
        "containerStatuses": [{"name": "main", "lastState": {"terminated": {"message": "GPU-1-2: unknown device"}}}]
    }


def test_the_rest_of_that_pod_is_kept() -> None:
    (found,) = reduced([POD])
    (main,) = found["spec"]["containers"]
    variables = {variable["name"]: variable.get("value") for variable in main["env"]}
    assert list(variables) == ["PASSWORD", "NVIDIA_API_KEY", "NVIDIA_VISIBLE_DEVICES", "NCCL_DEBUG", "A", "B", "C"]
    assert (variables["NVIDIA_VISIBLE_DEVICES"], variables["NCCL_DEBUG"]) == ("all", "INFO")
    assert main["env"][3] == {"name": "NCCL_DEBUG", "value": "INFO"}
    assert main["command"] == ["redacted", "CUDA_VISIBLE_DEVICES=0,1"]
    assert main["envFrom"] == [{}, {}]
    assert found["spec"]["volumes"][6] == {"name": "g", "emptyDir": {"medium": "Memory"}}
    assert found["metadata"]["annotations"] == {
        "gpu.topology/env.TOKEN": "redacted",
        "gpu.topology/env.NVIDIA_API_KEY": "redacted",
        "gpu.topology/note": "redacted",
        "gpu.topology/profile": "pod-peers",
    }


CLAIMED: dict[str, Any] = {
    "devices": {
        "requests": [
            {
                "name": "gpus",
                "exactly": {
                    "deviceClassName": "gpu.nvidia.com",
                    "selectors": [{"cel": {"expression": PLANTED}}],
                    "tolerations": [{"key": PLANTED}],
                },
            }
        ],
        "constraints": [{"matchAttribute": PLANTED}],
        "config": [
            {
                "requests": ["gpus"],
                "opaque": {
                    "driver": "gpu.nvidia.com",
                    "parameters": {"token": PLANTED, "sharing": {"strategy": "MPS", "mpsConfig": PLANTED}},
                },
            }
        ],
    }
}

OTHERS: list[dict[str, Any]] = [
    {
        "kind": "Namespace",
        "metadata": {"name": "team-a", "labels": {"example.com/x": PLANTED}, **METADATA},
        "spec": {"finalizers": [PLANTED]},
    },
    {
        "kind": "Node",
        "metadata": {"name": "a", **METADATA},
        "spec": {"providerID": PLANTED, "podCIDR": PLANTED},
        "status": {"addresses": [{"address": PLANTED}], "nodeInfo": {"machineID": PLANTED}, "images": [PLANTED]},
    },
    {
        "kind": "ConfigMap",
        "metadata": {"name": "c", "labels": {"gpu.topology/node": "a", "x": PLANTED}, **METADATA},
        "data": {"topology.json": PLANTED, "other": PLANTED},
        "binaryData": {"x": PLANTED},
    },
    {"kind": "ConfigMap", "metadata": {"name": "c", **METADATA}, "data": {"password": PLANTED}},
    {"kind": "Lease", "metadata": {"name": "gpu-topology-place", **METADATA}, "spec": {"strategy": PLANTED}},
    {"kind": "Lease", "metadata": {"name": "other"}, "spec": {"holderIdentity": PLANTED}},
    {
        "kind": "Deployment",
        "metadata": {"name": "s", "labels": {"app.kubernetes.io/component": "hami-scheduler"}, **METADATA},
        "spec": {"template": {"spec": {"containers": [CONTAINER], "volumes": VOLUMES}}},
    },
    {"kind": "Deployment", "metadata": {"name": "other"}, "spec": {"template": {"spec": {"containers": [CONTAINER]}}}},
    {
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "m", **METADATA},
        "webhooks": [
            {
                "name": "x.example.com",
                "clientConfig": {"url": f"https://x/?token={PLANTED}", "caBundle": PLANTED},
                "matchConditions": [{"name": "a", "expression": f"object.x == '{PLANTED}'"}],
                PLANTED: PLANTED,
            }
        ],
    },
    {
        "kind": "DeviceClass",
        "metadata": {"name": "d", **METADATA},
        "spec": {
            "config": [{"opaque": {"parameters": {"x": PLANTED}}}],
            "selectors": [{"cel": {"expression": PLANTED}}],
        },
    },
    {
        "kind": "ResourceClaim",
        "apiVersion": "resource.k8s.io/v1",
        "metadata": {"name": "claim", **METADATA},
        "spec": CLAIMED,
        "status": {
            "allocation": {
                "devices": {"results": [{"device": "gpu-0", PLANTED: PLANTED}], "config": CLAIMED["devices"]["config"]},
                "nodeSelector": {PLANTED: PLANTED},
            },
            "reservedFor": [{"name": "train", PLANTED: PLANTED}],
            "devices": [{"conditions": [{"message": PLANTED}], "data": {PLANTED: PLANTED}}],
        },
    },
    {
        "kind": "ResourceClaimTemplate",
        "apiVersion": "resource.k8s.io/v1",
        "metadata": {"name": "template", **METADATA},
        "spec": {"metadata": METADATA, "spec": CLAIMED},
    },
    {
        "kind": "ResourceSlice",
        "apiVersion": "resource.k8s.io/v1",
        "metadata": {"name": "slice", **METADATA},
        "spec": {
            "driver": "gpu.nvidia.com",
            "nodeSelector": {PLANTED: PLANTED},
            "devices": [{"name": "gpu-0", "taints": [{"key": PLANTED}], "attributes": {"uuid": {PLANTED: PLANTED}}}],
        },
    },
    {"kind": "Secret", "metadata": {"name": "s", **METADATA}, "data": {"a": PLANTED, "tls.key": PLANTED}},
    {"kind": "Event", "metadata": {"name": "e"}, "message": PLANTED},
]


@pytest.mark.parametrize(
    "document",
    OTHERS,
    ids=[f"{each['kind']}-{each['metadata']['name']}-{number}" for number, each in enumerate(OTHERS)],
)
def test_a_secret_in_any_field_of_another_object_is_not_kept(document: dict[str, Any]) -> None:
    assert PLANTED not in written({"apiVersion": "v1", **document})


def test_of_a_key_like_ours_the_key_is_kept_and_not_its_value() -> None:
    metadata = {
        "name": "a",
        "labels": {"gpu-topology/profile": "b", "app": "c"},
        "annotations": {"gpu.topology-x": "d"},
    }
    for kind in ("Namespace", "Pod"):
        (kept,) = reduced([{"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": {"containers": []}}])
        assert kept["metadata"]["labels"] == {"gpu-topology/profile": "redacted"}
        assert kept["metadata"]["annotations"] == {"gpu.topology-x": "redacted"}


def test_the_users_that_openshift_gives_to_a_namespace_are_kept_because_admission_reads_them() -> None:
    annotations = {"openshift.io/sa.scc.uid-range": "1000680000/10000", "openshift.io/requester": "somebody"}
    metadata = {"name": "team-a", "annotations": annotations}
    (kept,) = reduced([{"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}])
    assert kept["metadata"]["annotations"] == {"openshift.io/sa.scc.uid-range": "1000680000/10000"}


def test_of_these_objects_all_are_kept_by_which_something_is_judged() -> None:
    kept = [each for document in OTHERS for each in reduced([{"apiVersion": "v1", **document}])]
    assert [(each["kind"], each["metadata"]["name"]) for each in kept] == [
        ("Namespace", "team-a"),
        ("Node", "a"),
        ("ConfigMap", "c"),
        ("Lease", "gpu-topology-place"),
        ("Deployment", "s"),
        ("MutatingWebhookConfiguration", "m"),
        ("DeviceClass", "d"),
        ("ResourceClaim", "claim"),
        ("ResourceClaimTemplate", "template"),
        ("ResourceSlice", "slice"),
        ("ClusterCertificates", "Secret/s"),
    ]


def test_of_certificates_only_what_is_public_is_kept_and_no_key() -> None:
    found = bundle()
    text = written(secret(found), registration())
    for line in (found.key + found.certificate).decode().splitlines():
        assert line not in text
    assert '"place": "tls.crt"' in text
    assert "tls.key" not in text


def webhooks(name: str, rules: object) -> dict[str, Any]:
    """A MutatingWebhookConfiguration with these rules."""
    return {"kind": "MutatingWebhookConfiguration", "metadata": {"name": name}, "webhooks": [{"rules": rules}]}


@pytest.mark.parametrize("resources", [5, [{}], [["pods"]], {"pods": 1}, None])
def test_a_rule_that_no_api_server_takes_names_no_resources(resources: object) -> None:
    (found,) = reduced([webhooks("other", [{"resources": resources, "operations": ["CREATE"]}])])
    assert found["webhooks"][0]["rules"] == [{"operations": ["CREATE"], "resources": []}]


@pytest.mark.parametrize("arguments", [5, "init", {"init": 1}, [5], [["init"]]])
def test_a_program_with_arguments_of_another_type_is_not_ours(arguments: object) -> None:
    program = {"name": "a", "image": PLANTED, "command": list(names.REMAP_COMMAND), "args": arguments}
    (found,) = reduced([{"kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [program]}}])
    assert found["spec"]["containers"] == [{"name": "a", "command": ["redacted"]}]


CLAIM_CASES = sorted(path.parent.name for path in CASES_OF_CLAIMS.glob("*/claims.json"))


@pytest.mark.parametrize("partitions", [None, ("0123", "02")])
@pytest.mark.parametrize("name", CLAIM_CASES)
def test_of_what_is_kept_of_claims_and_slices_a_pod_was_given_the_same(
    name: str, partitions: tuple[str, ...] | None
) -> None:
    folder = CASES_OF_CLAIMS / name
    claims, slices = (json.loads((folder / f"{each}.json").read_text()) for each in ("claims", "slices"))
    for document in (*claims, *slices):
        document |= {"apiVersion": "resource.k8s.io/v1"}
    if partitions:
        add_partitions(slices, partitions)
    for document, kind in [(each, "ResourceClaim") for each in claims] + [(each, "ResourceSlice") for each in slices]:
        document["kind"] = kind
    objects = claim_objects((kept(each), "kept") for each in (*claims, *slices))
    whole = case(name, partitions)
    of_pod = objects.known(whole.pod, "team", SETTINGS)
    found, expected = given_gpus(whole.pod, of_pod.claims, of_pod.pools, SETTINGS), whole.given
    assert (found.containers, found.allocation, found.shared_with) == (
        expected.containers,
        expected.allocation,
        expected.shared_with,
    )
    assert (str(found.problem), found.no_partition) == (str(expected.problem), expected.no_partition)


@pytest.mark.parametrize("version", ["resource.k8s.io/v1beta1", "example.com/v1", None])
@pytest.mark.parametrize("kind", CLAIM_KINDS)
def test_objects_about_claims_of_another_version_are_not_kept(kind: str, version: str | None) -> None:
    assert kept({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "spec": CLAIMED}) is None


MEMBERS = (
    *("name", "metadata", "spec", "status", "containers", "env", "value", "labels", "annotations", "conditions"),
    *("volumeMounts", "webhooks", "rules", "template", "command", "args", "taints", "clientConfig", "resources"),
    *("devices", "requests", "exactly", "allocation", "results", "reservedFor", "pool", "attributes", "config"),
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(MEMBERS), inner, max_size=4),
    max_leaves=20,
)


@given(kind=st.sampled_from(KINDS), document=st.dictionaries(st.sampled_from(["metadata", "spec", "status"]), values))
def test_nothing_in_an_object_makes_it_fail(kind: str, document: dict[str, Any]) -> None:
    version = VERSION if kind in CLAIM_KINDS else "v1"
    list(reduced([{"apiVersion": version, "kind": kind, **document}]))
