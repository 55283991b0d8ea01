"""Versions from what the API server says; what is not certain is not known."""

import json
from typing import Any

import pytest

from webhook.decisions.detection import claimed_resources, hami_version, kubernetes_version, scheduler_accounts, tag_of
from webhook.words.errors import FormatError


def deployment(image: str, *, version: str | None = None, container: str = "vgpu-scheduler-extender") -> dict[str, Any]:
    labels = {"app.kubernetes.io/component": "hami-scheduler"}
    if version is not None:
        labels["app.kubernetes.io/version"] = version
    scheduler = {"name": "kube-scheduler", "image": "registry.k8s.io/kube-scheduler:v1.33.2"}
    containers = [scheduler, {"name": container, "image": image}]
    metadata = {"name": "hami-scheduler", "namespace": "kube-system", "labels": labels}
    return {"metadata": metadata, "spec": {"replicas": 1, "template": {"spec": {"containers": containers}}}}


def answer(*deployments: dict[str, Any]) -> bytes:
    return json.dumps({"kind": "DeploymentList", "items": list(deployments)}).encode()


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("projecthami/hami:v2.10.0", "2.10.0"),
        ("docker.io/projecthami/hami:2.9.0", "2.9.0"),
        ("localhost:5000/hami:v2.8.1", "2.8.1"),
        ("projecthami/hami:v2.10.0-rc1", "2.10.0"),
        ("projecthami/hami:v2.9.0-amd64", "2.9.0"),
        ("projecthami/hami:v2.9.0@sha256:0123", "2.9.0"),
        ("projecthami/hami:2.9", "2.9.0"),
    ],
)
def test_the_tag_of_the_image_says_the_version_of_hami(image: str, expected: str) -> None:
    assert str(hami_version(answer(deployment(image, version="1.0.0")))) == expected


@pytest.mark.parametrize("image", ["projecthami/hami@sha256:0123", "localhost:5000/hami@sha256:0123"])
def test_of_an_image_by_digest_the_label_of_the_chart_says_it(image: str) -> None:
    assert str(hami_version(answer(deployment(image, version="v2.10.0")))) == "2.10.0"


@pytest.mark.parametrize(
    ("image", "found"),
    [
        ("projecthami/hami:latest", "latest"),
        ("projecthami/hami", "latest"),
        ("localhost:5000/hami", "latest"),
        ("projecthami/hami:master-4f1c", "master-4f1c"),
        ("projecthami/hami:20251120", "20251120"),
        ("projecthami/hami:prod-2.9.0", "prod-2.9.0"),
        ("projecthami/hami@sha256:0123", "none"),
    ],
)
def test_an_image_that_says_none_leaves_it_unknown_and_names_the_setting(image: str, found: str) -> None:
    with pytest.raises(FormatError, match="Deployment kube-system/hami-scheduler") as caught:
        hami_version(answer(deployment(image)))
    assert f'found "{found}". Set cluster.hamiVersion in the configuration' in str(caught.value)


def test_without_a_scheduler_of_hami_it_is_unknown() -> None:
    with pytest.raises(FormatError, match=r'label app\.kubernetes\.io/component=hami-scheduler, found "none"'):
        hami_version(answer())


def test_several_that_agree_are_one_and_several_that_do_not_are_unknown() -> None:
    same = deployment("a/hami:v2.9.0"), deployment("b/hami:v2.9.0")
    assert str(hami_version(answer(*same))) == "2.9.0"
    with pytest.raises(FormatError, match=r'found "2\.10\.0 and 2\.9\.0"'):
        hami_version(answer(*same, deployment("hami:v2.10.0")))


def test_a_scheduler_without_hamis_container_is_unknown() -> None:
    with pytest.raises(FormatError, match="expected a container vgpu-scheduler-extender"):
        hami_version(answer(deployment("hami:v2.9.0", container="other")))


@pytest.mark.parametrize("text", [b"", b"[]", b'{"items": 5}', b"\xff"])
def test_what_is_no_list_of_deployments_is_named(text: bytes) -> None:
    with pytest.raises(FormatError, match="version of HAMi: expected"):
        hami_version(text)


def test_the_version_of_kubernetes_counts_by_its_numbers() -> None:
    assert str(kubernetes_version(b'{"major":"1","minor":"33+","gitVersion":"v1.33.2-gke.100"}')) == "1.33.2"


@pytest.mark.parametrize("text", [b"", b"{}", b'{"gitVersion": "new"}', b'{"gitVersion": 1}'])
def test_what_tells_no_version_of_kubernetes_is_named(text: bytes) -> None:
    with pytest.raises(FormatError, match="version of Kubernetes: expected"):
        kubernetes_version(text)


@pytest.mark.parametrize(
    ("image", "tag"), [("a:1", "1"), ("h:5/a:1", "1"), ("h:5/a", "latest"), ("a@sha256:1", ""), ("a:1@sha256:1", "1")]
)
def test_a_colon_before_the_last_slash_is_that_of_a_port(image: str, tag: str) -> None:
    assert tag_of(image) == tag


def test_a_scheduler_binds_as_the_service_account_of_its_deployment() -> None:
    first, second = deployment("projecthami/hami:v2.9.0"), deployment("projecthami/hami:v2.9.0")
    first["spec"]["template"]["spec"]["serviceAccountName"] = "gpu-hami-scheduler"
    second["metadata"]["namespace"] = "gpu-operator"
    assert scheduler_accounts(answer(first, second)) == {
        "system:serviceaccount:kube-system:gpu-hami-scheduler",
        "system:serviceaccount:gpu-operator:default",
    }


def test_without_a_deployment_there_is_no_scheduler() -> None:
    assert scheduler_accounts(answer()) == set()


def test_an_answer_that_is_no_list_of_deployments_names_what_is_wrong() -> None:
    with pytest.raises(FormatError, match="schedulers of HAMi: expected Deployments"):
        scheduler_accounts(b"{")


def classes(*found: tuple[str, str | None]) -> bytes:
    items = [{"metadata": {"name": name}, "spec": {"extendedResourceName": resource}} for name, resource in found]
    return json.dumps({"kind": "DeviceClassList", "items": items}).encode()


@pytest.mark.parametrize(
    ("found", "claimed", "has_hami_dra"),
    [
        ([], set(), False),
        ([("gpu.nvidia.com", "nvidia.com/gpu")], {"nvidia.com/gpu"}, False),
        ([("mig.nvidia.com", None), ("nic", "")], set(), False),
        ([("a", "example.com/a"), ("b", "example.com/b")], {"example.com/a", "example.com/b"}, False),
        ([("hami-core-gpu.project-hami.io", None)], {"nvidia.com/gpu"}, True),
        ([("hami-core-gpu.project-hami.io", "nvidia.com/gpu"), ("nic", "nic")], {"nvidia.com/gpu", "nic"}, True),
    ],
)
def test_device_classes_say_which_extended_resources_claims_serve(
    found: list[tuple[str, str | None]], claimed: set[str], has_hami_dra: bool
) -> None:
    assert claimed_resources(classes(*found)) == (frozenset(claimed), has_hami_dra)


@pytest.mark.parametrize("text", [b'{"items":1}', b"404 page not found", b"\xff"])
def test_what_is_no_list_of_device_classes_says_nothing(text: bytes) -> None:
    with pytest.raises(FormatError, match="DeviceClasses: expected DeviceClasses"):
        claimed_resources(text)


def test_a_list_without_items_has_none() -> None:
    assert claimed_resources(b'{"items":null}') == (frozenset(), False)
