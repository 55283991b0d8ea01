"""The verbs: objects go to the API server as they were given, and come back as it sent them."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.cluster.api.access import ToldAccess
from tests.cluster.api.stand_in import Received, always, serving, status
from webhook.cluster import kinds
from webhook.cluster.api.errors import ApiRefused, Denied, Malformed, NotServed
from webhook.cluster.api.session import Session, connect
from webhook.cluster.api.verbs import Api, Object, PatchForm
from webhook.words.errors import ConfigError, ManifestError

_T = TypeVar("_T")


def told(body: bytes, ask: Callable[[Api], Awaitable[_T]], code: str = "200 OK") -> tuple[_T, list[Received]]:
    """What is made of that answer, and the requests."""

    async def test() -> tuple[_T, list[Received]]:
        async with serving(always(body, code)) as stand_in:
            access = ToldAccess(f"http://127.0.0.1:{stand_in.port}")
            api = Api(Session(access, user_agent="test", seconds=30.0), field_manager="tester")
            try:
                return await ask(api), stand_in.received
            finally:
                await api.close()

    return asyncio.run(test())


async def read(api: Api, kind: kinds.Kind, name: str) -> Object:
    return (await api.get(kind, name)).object()


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
    _, requests = told(b"{}", lambda api: api.create(kinds.EVENT, event))
    path = "/apis/events.k8s.io/v1/namespaces/default/events"
    assert written(requests) == ("POST", path, "application/json", event)


def test_a_lease_is_applied_whoever_set_its_fields() -> None:
    lease: Object = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "gpu-topology-node-1", "namespace": "ns"},
        "spec": {"renewTime": "2026-11-20T21:51:20.000000Z"},
    }
    _, requests = told(b"{}", lambda api: api.apply(kinds.LEASE, lease))
    path = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/gpu-topology-node-1?fieldManager=tester&force=true"
    assert written(requests) == ("PATCH", path, "application/apply-patch+yaml", lease)


def test_a_node_is_merged() -> None:
    patch = {"metadata": {"labels": {"gpu.topology/nvlink": "healthy"}}}
    _, requests = told(b"{}", lambda api: api.patch(kinds.NODE, "node-1", "", patch, PatchForm.MERGE))
    expected = ("PATCH", "/api/v1/nodes/node-1?fieldManager=tester", "application/merge-patch+json", patch)
    assert written(requests) == expected


def test_what_stands_in_a_name_or_label_stays_there() -> None:
    pods = kinds.POD.having(namespace="a/b", labels="x=?&y", fields="a!=b")
    found, requests = told(b'{"metadata": {}, "items": [{"a": 1}, 7]}', lambda api: api.objects(pods))
    assert found == [{"a": 1}]
    selectors = "labelSelector=x%3D%3F%26y&fieldSelector=a%21%3Db"
    assert requests[0].target == f"/api/v1/namespaces/a%2Fb/pods?{selectors}&limit=500"


@pytest.mark.parametrize("page", [b"", b"<html>", b"[]", b"null", b"{", b"\xff"])
def test_a_page_that_is_no_object_is_no_answer(page: bytes) -> None:
    with pytest.raises(Malformed, match=r"^get node a: expected an object from the API server, found something else$"):
        told(page, lambda api: read(api, kinds.NODE, "a"))


def classes(api: Api) -> Awaitable[list[Object]]:
    return api.objects(kinds.DEVICE_CLASSES, what="list DeviceClasses")


def test_kinds_that_a_cluster_may_be_without_are_not_served() -> None:
    with pytest.raises(NotServed, match=r"^list DeviceClasses: the API server does not serve resource.k8s.io/v1$"):
        told(b"404 page not found\n", classes, "404 Not Found")
    with pytest.raises(NotServed, match=r"^get ResourceClaim a/b: the API server does not serve resource.k8s.io/v1$"):
        told(b"404 page not found\n", lambda api: api.find(kinds.CLAIM, "b", "a"), "404 Not Found")
    with pytest.raises(ApiRefused, match="expected the words of an API server"):
        told(b"404 page not found\n", lambda api: api.find(kinds.POD, "b", "a"), "404 Not Found")
    found = b'{"metadata":{},"items":[{"metadata":{"name":"a"}}]}'
    assert told(found, classes)[0] == [{"metadata": {"name": "a"}}]


def test_device_classes_that_may_not_be_listed_are_not_none() -> None:
    with pytest.raises(Denied, match="list DeviceClasses: you may not"):
        told(b'{"kind":"Status","message":"you may not"}', classes, "403 Forbidden")


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
        connect(path, user_agent="test", seconds=1.0)


def test_a_kubeconfig_that_is_no_yaml_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text("a: b\n}")
    with pytest.raises(ManifestError, match=rf"{path} line 2: expected YAML"):
        connect(path, user_agent="test", seconds=1.0)


@pytest.mark.parametrize(
    ("versions", "found", "asked"),
    [
        (["v1", "v1beta2"], "v1", 2),
        (["v1beta2"], "v1beta2", 2),
        (["v1beta1", "v1alpha3"], None, 1),
        ([], None, 1),
    ],
)
def test_the_newest_version_with_device_taint_rules_is_taken(
    versions: list[str], found: str | None, asked: int
) -> None:
    group = {"versions": [{"version": version} for version in versions], "resources": [{"name": "devicetaintrules"}]}
    kind, requests = told(json.dumps(group).encode(), lambda api: api.first_served(kinds.TAINT_RULES))
    assert (kind and kind.api, len(requests)) == (found and f"resource.k8s.io/{found}", asked)


def test_a_version_without_device_taint_rules_is_not_taken() -> None:
    group = {"versions": [{"version": "v1"}, {"version": "v1beta2"}], "resources": [{"name": "resourceslices"}]}
    kind, requests = told(json.dumps(group).encode(), lambda api: api.first_served(kinds.TAINT_RULES))
    assert (kind, len(requests)) == (None, 3)


def test_a_rule_is_deleted_only_as_it_was_read() -> None:
    rules = kinds.TAINT_RULES[0]
    _, requests = told(b"{}", lambda api: api.delete(rules, "rule-1", uid="u", resource_version="7"))
    path = "/apis/resource.k8s.io/v1/devicetaintrules/rule-1"
    body = {"preconditions": {"uid": "u", "resourceVersion": "7"}}
    assert written(requests) == ("DELETE", path, "application/json", body)


def test_a_list_of_slices_that_goes_on_is_too_long() -> None:
    page = json.dumps({"metadata": {"continue": "more"}, "items": []}).encode()
    slices = kinds.SLICE.having(fields="spec.nodeName=n1")
    with pytest.raises(Malformed, match="list slices of n1: expected at most 500 objects, found more"):
        told(page, lambda api: api.objects(slices, most=500, what="list slices of n1"))


@pytest.mark.parametrize("page", [b"", b"<html>", b"[]"])
def test_a_write_whose_answer_is_no_object_was_not_made(page: bytes) -> None:
    with pytest.raises(Malformed, match=r"^apply Lease ns/a: expected an object from the API server"):
        told(page, lambda api: api.apply(kinds.LEASE, {"metadata": {"name": "a", "namespace": "ns"}}))


@pytest.mark.parametrize(
    ("kind", "namespace", "name"), [(kinds.POD, "", "a"), (kinds.NODE, "a", "b"), (kinds.NODE, "", "..")]
)
def test_what_no_object_is_called_is_not_asked_for(kind: kinds.Kind, namespace: str, name: str) -> None:
    assert told(b"{}", lambda api: api.find(kind, name, namespace)) == (None, [])


def test_an_object_that_is_gone_need_not_be_deleted() -> None:
    gone = status(404, "not found", details={"kind": "devicetaintrules", "name": "a"})
    told(gone, lambda api: api.delete(kinds.TAINT_RULES[0], "a", uid="u", resource_version="7"), "404 Not Found")
