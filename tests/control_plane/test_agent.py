"""The agent at a real API server, with no more than the permissions that it says it needs."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from kubernetes.client import CoordinationV1Api, V1Node, V1ObjectMeta

from tests.control_plane.accounts import without
from tests.control_plane.agents import AT, AgentSite, agent_site, running_agent
from tests.control_plane.control_plane import ControlPlane
from tests.hardware.topology.machines import hgx_h100, uuid, with_switch_links
from tests.nvml import machines as played
from tests.nvml.stub import nvml_library
from tests.programs.agent.waking import wake
from tests.programs.server.conftest import DEADLINE_S, until
from webhook.cluster.api.permissions import AGENT, Scope
from webhook.cluster.api.verbs import Api, Reply
from webhook.cluster.kinds import NODE, Kind
from webhook.hardware.topology.document import parse_topology
from webhook.hardware.topology.model import NodeTopology
from webhook.programs.agent.run import connect_agent
from webhook.programs.agent.status import Count

__all__ = ["nvml_library"]

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("without_proxy")]

CORDON = "hami.io/device-cordon"
MERGE = "application/merge-patch+json"
DEGRADED = with_switch_links(hgx_h100(), 3, 12)


@pytest.fixture
def site(control_plane: ControlPlane, tmp_path: Path) -> Iterator[AgentSite]:
    """A new node, and an agent with exactly the permissions of the list."""
    with agent_site(control_plane, tmp_path, AGENT) as found:
        yield found


def config_map(site: AgentSite) -> Any:
    return site.admin.read_namespaced_config_map(f"gpu-topology-{site.node}", site.namespace)


def lease(site: AgentSite) -> Any:
    api = CoordinationV1Api(site.admin.api_client)
    return api.read_namespaced_lease(f"gpu-topology-{site.node}", site.namespace)


def published(site: AgentSite) -> NodeTopology:
    return parse_topology(config_map(site).data["topology.json"], source="test")


def metadata(site: AgentSite) -> Any:
    return site.admin.read_node(site.node).metadata


def annotate(site: AgentSite, *, cordon: str) -> None:
    """An administrator writes HAMi's list."""
    site.admin.patch_node(site.node, {"metadata": {"annotations": {CORDON: cordon}}}, _content_type=MERGE)


def test_the_first_round_publishes_everything_in_the_name_of_the_agent(site: AgentSite) -> None:
    site.round(site.agent())
    for one in (config_map(site), lease(site)):
        assert one.metadata.labels == {"gpu.topology/node": site.node}
        (owner,) = one.metadata.owner_references
        assert (owner.kind, owner.name, owner.uid) == ("Node", site.node, metadata(site).uid)
        assert [(entry.manager, entry.operation) for entry in one.metadata.managed_fields] == [
            ("gpu-topology-agent", "Apply")
        ]
    assert "gpu-topology-agent" in [entry.manager for entry in metadata(site).managed_fields]
    assert sorted(config_map(site).data) == ["nccl-topo.xml", "topology.json"]
    assert published(site) == replace(hgx_h100(), node=site.node)
    assert (lease(site).spec.holder_identity, lease(site).spec.renew_time) == (site.node, AT)
    assert (site.label(), site.events()) == ("healthy", [])


def test_a_round_without_news_writes_nothing_but_the_sign_of_life_also_after_a_restart(site: AgentSite) -> None:
    site.round(site.agent(cordon=True), DEGRADED)
    before = (config_map(site).metadata, metadata(site), site.events())
    again = site.agent(cordon=True)
    site.round(again)
    site.round(again)
    assert (config_map(site).metadata, metadata(site), site.events()) == before
    assert again.status.count(Count.API_ERRORS) == {}


def test_an_event_is_found_as_kubectl_describe_looks_for_it(site: AgentSite) -> None:
    site.round(site.agent(), DEGRADED)
    selector = f"involvedObject.kind=Node,involvedObject.name={site.node},involvedObject.uid={metadata(site).uid}"
    (event,) = site.admin.list_namespaced_event("default", field_selector=selector).items
    assert (event.type, event.reason) == ("Warning", "NVLinkDown")
    assert (event.reporting_component, event.reporting_instance) == ("gpu.topology/agent", site.node)


def test_what_somebody_edited_is_repaired_and_what_they_added_stays(site: AgentSite) -> None:
    agent = site.agent()
    site.round(agent)
    patch = {
        "metadata": {"labels": {"gpu.topology/node": "other", "team": "ml"}, "ownerReferences": None},
        "data": {"topology.json": "{}", "nccl-topo.xml": None, "notes": "rack 7"},
    }
    name = f"gpu-topology-{site.node}"
    site.admin.patch_namespaced_config_map(name, site.namespace, patch, _content_type=MERGE)
    site.round(agent)
    found = config_map(site)
    assert found.metadata.labels == {"gpu.topology/node": site.node, "team": "ml"}
    assert [owner.kind for owner in found.metadata.owner_references] == ["Node"]
    assert sorted(found.data) == ["nccl-topo.xml", "notes", "topology.json"]
    assert published(site) == replace(hgx_h100(), node=site.node)


class Interrupted(Api):
    """A connection at whose other end somebody writes the Node right after we have read it."""

    interruptions: list[Callable[[], None]]

    async def get(self, kind: Kind, name: str, namespace: str = "", **more: Any) -> Reply:
        found = await super().get(kind, name, namespace, **more)
        if kind is NODE and self.interruptions:
            self.interruptions.pop(0)()
        return found


def test_who_writes_the_node_at_the_same_time_loses_nothing(site: AgentSite) -> None:
    interruptions = [partial(annotate, site, cordon=value) for value in ("GPU-x", "GPU-x,GPU-y")]

    def connected() -> Api:
        api: Any = connect_agent(site.kubeconfig)
        api.__class__, api.interruptions = Interrupted, interruptions
        return api  # type: ignore[no-any-return]  # it was one before

    agent = site.agent(cordon=True, connect=connected)
    site.round(agent, DEGRADED)
    assert metadata(site).annotations[CORDON] == f"GPU-x,GPU-y,{uuid(3)}"
    assert agent.status.count(Count.API_ERRORS) == {"conflict": 2}
    assert [reason for reason, _ in site.events()] == ["GpuCordoned", "NVLinkDown"]


def test_a_node_that_does_not_exist_is_named_with_the_option(site: AgentSite) -> None:
    real, site.node = site.node, "no-such-node"
    agent = site.agent()
    wake(agent)
    assert agent.status.failure == (
        'get node no-such-node: nodes "no-such-node" not found (404). --node, or NODE_NAME, must be the name of a Node'
    )
    site.node = real


@pytest.mark.parametrize(
    ("scope", "resource", "verb"),
    [(permission.scope, permission.resource, verb) for permission in AGENT for verb in permission.verbs],
)
def test_every_permission_is_needed(
    control_plane: ControlPlane, tmp_path: Path, scope: Scope, resource: str, verb: str
) -> None:
    with agent_site(control_plane, tmp_path, without(AGENT, scope, resource, verb)) as site:
        site.topology, agent = DEGRADED, site.agent()
        wake(agent)
        assert agent.status.count(Count.API_ERRORS)["denied"] >= 1
        (failed,) = [line["error"] for line in site.lines() if line["message"] == "failed"]
        assert f"cannot {verb} resource" in failed
        assert resource in failed


def test_a_node_with_the_longest_name_is_published(site: AgentSite) -> None:
    site.node = ".".join(["gpu-node-with-a-long-name"] * 9 + ["z" * 19])
    assert len(site.node) == 253
    site.admin.create_node(V1Node(metadata=V1ObjectMeta(name=site.node)))
    try:
        site.round(site.agent(cordon=True), DEGRADED)
        (found,) = site.admin.list_namespaced_config_map(site.namespace, label_selector="gpu.topology/node").items
        assert parse_topology((found.data or {})["topology.json"], source="test").node == site.node
        assert [reason for reason, _ in site.events()] == ["GpuCordoned", "NVLinkDown"]
        (alive,) = CoordinationV1Api(site.admin.api_client).list_namespaced_lease(site.namespace).items
        assert alive.metadata
        assert found.metadata
        assert alive.metadata.name == found.metadata.name
    finally:
        site.admin.delete_node(site.node)


def test_the_program_publishes_watches_and_stops(
    site: AgentSite, nvml_library: Path, port: int, tmp_path: Path
) -> None:
    with running_agent(site, nvml_library, tmp_path / "root", "--port", str(port)) as play:
        until(lambda: site.label() == "healthy", "the first publication")
        play(played.hgx_h100().with_links_down(3, 0, 1))
        until(lambda: [reason for reason, _ in site.events()] == ["NVLinkDown"], "the event")
        assert site.label() == "degraded"
        play(played.hgx_h100().with_lost(2))
        until(lambda: len(published(site).lost) == 1, "the lost GPU")
        metrics = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=DEADLINE_S, trust_env=False).text.splitlines()
        assert f'gpu_topology_gpus{{node="{site.node}",state="lost"}} 1.0' in metrics
    lines = site.lines()
    assert lines[0]["message"] == "started"
    assert lines[-1].items() >= {"message": "stopping", "node": site.node, "signal": "SIGTERM"}.items()
