"""Whether peers can open each other's shared memory."""

from typing import Any

import pytest

from tests.insight.explain.situations import H20, injected, on, told
from tests.pods import Manifest, container, pod
from webhook.insight.explain.findings import Report

NODE_PEERS = {"gpu.topology/profile": "node-peers", "gpu.topology/group": "serving"}


def found(report: Report) -> list[tuple[str, str]]:
    return [(one.code, str(one.verdict)) for one in report.findings if one.condition == "users"]


def worker(name: str, user: int | None) -> Manifest:
    return container(name, 1, **({} if user is None else {"securityContext": {"runAsUser": user}}))


@pytest.mark.parametrize(
    ("first", "second", "findings"),
    [
        (1000, 2000, [("GT560", "fails")]),
        (1000, None, [("GT561", "unknown")]),
        (1000, 1000, [("", "holds")]),
        (None, None, []),
    ],
)
def test_containers_of_a_pod_need_one_user(
    first: int | None, second: int | None, findings: list[tuple[str, str]]
) -> None:
    manifest = pod(worker("a", first), worker("b", second), annotations={"gpu.topology/profile": "pod-peers"})
    assert found(told(injected(manifest))) == findings


def member(name: str, user: int | None, node: str = "h20-node-1", **spec: Any) -> Manifest:
    fields = spec if user is None else {**spec, "securityContext": {"runAsUser": user}}
    manifest = pod(annotations=dict(NODE_PEERS), labels={"gpu.topology/group": "serving"}, **fields)
    manifest["metadata"]["name"] = name
    return on(injected(manifest), node, [H20[2], H20[3]])


def test_pods_of_a_group_on_one_node_need_one_user_too() -> None:
    report = told(member("decode", 1000), others=(member("prefill", 2000),))
    assert found(report) == [("GT560", "fails")]
    (evidence,) = [one.evidence for one in report.findings if one.condition == "users"]
    assert "container train of prefill as user 2000" in evidence
    assert found(told(member("decode", 1000), others=(member("prefill", None),))) == [("GT561", "unknown")]
    assert found(told(member("decode", 1000), others=(member("prefill", 1000),))) == [("", "holds")]


def test_pods_on_other_nodes_do_not_matter() -> None:
    assert found(told(member("decode", 1000), others=(member("prefill", 2000, "elsewhere"),))) == []


def test_without_peers_users_do_not_matter() -> None:
    assert found(told(pod(worker("a", 1000), worker("b", 2000)))) == []


def test_a_peer_whose_requests_cannot_be_read_is_left_out() -> None:
    other = member("prefill", 2000)
    other["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "many"
    assert found(told(member("decode", 1000), others=(other,))) == []
