"""Single objects: they go to the API server as they were given, and come back as it sent them."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.kube.access import ToldAccess
from tests.kube.stand_in import Received, always, serving
from webhook.kube.api_server import ApiServer, Object, connect_objects
from webhook.kube.errors import Denied, Malformed
from webhook.kube.session import Session
from webhook.model.errors import ConfigError, ManifestError

_T = TypeVar("_T")


def told(body: bytes, ask: Callable[[ApiServer], Awaitable[_T]], status: str = "200 OK") -> tuple[_T, list[Received]]:
    """What is made of that answer, and the requests."""

    async def test() -> tuple[_T, list[Received]]:
        async with serving(always(body, status)) as stand_in:
            access = ToldAccess(f"http://127.0.0.1:{stand_in.port}")
            api = ApiServer(Session(access, user_agent="test", seconds=30.0))
            try:
                return await ask(api), stand_in.received
            finally:
                await api.close()

    return asyncio.run(test())


def written(requests: list[Received]) -> tuple[str, str, str, Any]:
    """Method, path, content type and body of the one request."""
    (one,) = requests
    return one.method, one.target, one.headers["content-type"], json.loads(one.body)


def test_an_event_at_a_full_second_keeps_its_microseconds() -> None:
    event: Object = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "node-1.0", "namespace": "default"},
        "eventTime": "2026-11-20T21:51:20.000000Z",
        "unknown": {"field": 1},
    }
    _, requests = told(b"{}", lambda api: api.create_event(event))
    path = "/apis/events.k8s.io/v1/namespaces/default/events"
    assert written(requests) == ("POST", path, "application/json", event)


def test_a_lease_is_applied_whoever_set_its_fields() -> None:
    lease: Object = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "gpu-topology-node-1", "namespace": "ns"},
        "spec": {"renewTime": "2026-11-20T21:51:20.000000Z"},
    }
    _, requests = told(b"{}", lambda api: api.apply_lease(lease, field_manager="tester"))
    path = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/gpu-topology-node-1?fieldManager=tester&force=true"
    assert written(requests) == ("PATCH", path, "application/apply-patch+yaml", lease)


def test_a_config_map_is_applied_whoever_set_its_fields() -> None:
    metadata = {"name": "a", "namespace": "ns"}
    config_map: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {}}
    _, requests = told(b"{}", lambda api: api.apply_config_map(config_map, field_manager="tester"))
    path = "/api/v1/namespaces/ns/configmaps/a?fieldManager=tester&force=true"
    assert written(requests) == ("PATCH", path, "application/apply-patch+yaml", config_map)


def test_a_node_is_merged() -> None:
    patch = {"metadata": {"labels": {"gpu.topology/nvlink": "healthy"}}}
    _, requests = told(b"{}", lambda api: api.merge_node("node-1", patch, field_manager="tester"))
    expected = ("PATCH", "/api/v1/nodes/node-1?fieldManager=tester", "application/merge-patch+json", patch)
    assert written(requests) == expected


def test_what_stands_in_a_name_or_label_stays_there() -> None:
    found, requests = told(b'{"items": [{"a": 1}, 7]}', lambda api: api.pods("a/b", label="x=?&y"))
    assert found == [{"a": 1}]
    assert requests[0].target == "/api/v1/namespaces/a%2Fb/pods?labelSelector=x%3D%3F%26y"


@pytest.mark.parametrize("page", [b"", b"<html>", b"[]", b"null", b"{", b"\xff"])
def test_a_page_that_is_no_object_is_no_answer(page: bytes) -> None:
    with pytest.raises(Malformed, match=r"^get node a: expected an object from the API server, found something else$"):
        told(page, lambda api: api.node("a"))


def test_an_object_is_given_as_it_was_sent() -> None:
    node = {"kind": "Node", "unknown": {"field": 1}}
    assert told(json.dumps(node).encode(), lambda api: api.node("a"))[0] == node


def test_an_api_that_is_not_served_has_no_device_classes() -> None:
    assert told(b"404 page not found\n", ApiServer.device_classes, "404 Not Found")[0] == []
    found = b'{"items":[{"metadata":{"name":"a"}}]}'
    assert told(found, ApiServer.device_classes)[0] == [{"metadata": {"name": "a"}}]


def test_device_classes_that_may_not_be_listed_are_not_none() -> None:
    with pytest.raises(Denied, match="list DeviceClasses: you may not"):
        told(b'{"kind":"Status","message":"you may not"}', ApiServer.device_classes, "403 Forbidden")


def test_outside_of_a_cluster_a_kubeconfig_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ConfigError, match=r"expected to run as a pod .* Outside of a cluster give --kubeconfig FILE"):
        connect_objects(None, user_agent="test")


def test_a_missing_kubeconfig_is_named(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"kubeconfig: cannot be read: No such file or directory"):
        connect_objects(tmp_path / "kubeconfig", user_agent="test")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a: b",
        "- 1",
        "just words",
        "apiVersion: v1\nkind: Config\ncurrent-context: x\ncontexts: []\nclusters: []\nusers: []\n",
        "current-context: x\ncontexts: [{name: x, context: {cluster: c}}]\nclusters: [{name: c, cluster: 7}]\n",
    ],
)
def test_a_file_that_is_no_kubeconfig_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    with pytest.raises(ConfigError, match=rf"{path}: expected a kubeconfig: "):
        connect_objects(path, user_agent="test")


def test_a_kubeconfig_that_is_no_yaml_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text("a: b\n}")
    with pytest.raises(ManifestError, match=rf"{path} line 2: expected YAML"):
        connect_objects(path, user_agent="test")


@pytest.mark.parametrize(
    ("versions", "found", "asked"),
    [
        (["v1", "v1beta2"], "v1", 2),
        (["v1beta2"], "v1beta2", 2),
        (["v1beta1", "v1alpha3"], "", 1),
        ([], "", 1),
    ],
)
def test_the_newest_version_with_device_taint_rules_is_taken(versions: list[str], found: str, asked: int) -> None:
    group = {"versions": [{"version": version} for version in versions], "resources": [{"name": "devicetaintrules"}]}
    version, requests = told(json.dumps(group).encode(), lambda api: api.taint_rules_version())
    assert (version, len(requests)) == (found, asked)


def test_a_version_without_device_taint_rules_is_not_taken() -> None:
    group = {"versions": [{"version": "v1"}, {"version": "v1beta2"}], "resources": [{"name": "resourceslices"}]}
    version, requests = told(json.dumps(group).encode(), lambda api: api.taint_rules_version())
    assert (version, len(requests)) == ("", 3)


def test_a_rule_is_deleted_only_as_it_was_read() -> None:
    delete = partial(ApiServer.delete_taint_rule, version="v1", name="rule-1", uid="u", resource_version="7")
    _, requests = told(b"{}", delete)
    path = "/apis/resource.k8s.io/v1/devicetaintrules/rule-1"
    body = {"preconditions": {"uid": "u", "resourceVersion": "7"}}
    assert written(requests) == ("DELETE", path, "application/json", body)


def test_a_list_of_slices_that_goes_on_is_too_long() -> None:
    page = json.dumps({"metadata": {"continue": "more"}, "items": []}).encode()
    with pytest.raises(Malformed, match="list ResourceSlices of node n1: expected at most 500 objects, found more"):
        told(page, lambda api: api.resource_slices(node="n1"))
