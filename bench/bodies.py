"""The reviews that the benchmark sends: the pods of `bench/pods/`, wrapped as kube-apiserver does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from ruamel.yaml import YAML

PODS = Path(__file__).parent / "pods"
NAMESPACE = "bench"
PATH = "/mutate/pods"

SERIAL = b"000000000000"
"""The last part of the review's uid, which the load generator counts up: no API server sends the same uid twice."""

TRAINER = b"trainer"
"""The name of the GPU container in `bench/pods/gpu.yaml`."""

UID = f"9f3c2a10-6b1e-4d7a-8c55-{SERIAL.decode()}"

MERGE_KEYS = ("mountPath", "containerPort", "name", "uid")
"""The keys that identify an item of a list in managedFields. A list without such a key is tracked as one value."""

ATOMIC = {"fieldRef", "secretKeyRef", "resourceFieldRef"}
"""Fields that managedFields tracks as one value."""


def request(pod: str) -> bytes:
    """Returns the bytes of the HTTP/1.1 request that creates the pod in `bench/pods/<pod>.yaml`.

    Its GPU container has a new name each time, so that no two reviews are about equal pods.
    """
    return post(PATH, review(submitted(pod)).replace(TRAINER, TRAINER + b"-" + SERIAL))


def post(path: str, body: bytes, *, host: str = "gpu-topology-webhook.gpu-topology.svc") -> bytes:
    """Returns the HTTP/1.1 request with which kube-apiserver sends a review."""
    head = (
        f"POST {path}?timeout=5s HTTP/1.1\r\n"
        f"Host: {host}:443\r\n"
        "User-Agent: kube-apiserver-admission\r\n"
        f"Content-Length: {len(body)}\r\n"
        "Accept: application/json, */*\r\n"
        "Content-Type: application/json\r\n"
        "Accept-Encoding: gzip\r\n"
        "\r\n"
    )
    return head.encode() + body


def submitted(pod: str) -> dict[str, Any]:
    """Reads the pod in `bench/pods/<pod>.yaml`."""
    manifest: dict[str, Any] = YAML(typ="safe").load(PODS / f"{pod}.yaml")
    return manifest


def review(submitted: dict[str, Any]) -> bytes:
    """Returns the AdmissionReview for the creation of a pod, as compact JSON: about 10 KB for `bench/pods/`."""
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    resource = {"group": "", "version": "v1", "resource": "pods"}
    return msgspec.json.encode(
        {
            "kind": "AdmissionReview",
            "apiVersion": "admission.k8s.io/v1",
            "request": {
                "uid": UID,
                "kind": kind,
                "resource": resource,
                "requestKind": kind,
                "requestResource": resource,
                "name": submitted["metadata"]["name"],
                "namespace": NAMESPACE,
                "operation": "CREATE",
                "userInfo": {
                    "username": "system:serviceaccount:kube-system:job-controller",
                    "uid": "5b8f4c1d-6e0a-4f27-9d3c-2a1b7e9f8c60",
                    "groups": ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"],
                },
                "object": with_managed_fields(submitted),
                "oldObject": None,
                "dryRun": False,
                "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
            },
        }
    )


def with_managed_fields(pod: dict[str, Any]) -> dict[str, Any]:
    """Returns the pod with a managedFields entry, which the API server adds before admission.

    The entry covers only labels and containers. In a real pod it is a third to a half of the bytes, as it is here.
    """
    written = {"metadata": {"labels": pod["metadata"]["labels"]}, "spec": {"containers": pod["spec"]["containers"]}}
    entry = {
        "manager": "kube-controller-manager",
        "operation": "Update",
        "apiVersion": "v1",
        "time": "2026-01-15T09:30:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": owned_fields(written),
    }
    return {**pod, "metadata": {**pod["metadata"], "managedFields": [entry]}}


def owned_fields(value: object) -> dict[str, Any]:
    """Returns the FieldsV1 set of a manager that wrote all of `value`."""
    if isinstance(value, dict):
        return {f"f:{key}": {} if key in ATOMIC else owned_fields(item) for key, item in value.items()}
    if not isinstance(value, list) or not value or not isinstance(value[0], dict):
        return {}
    key = next((key for key in MERGE_KEYS if all(key in item for item in value)), None)
    if key is None:
        return {}
    return {f"k:{msgspec.json.encode({key: item[key]}).decode()}": {".": {}, **owned_fields(item)} for item in value}
