"""The agent at a real API server, with no more than the permissions that it says it needs."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from kubernetes.client import (
    ApiException,
    CoordinationV1Api,
    CoreV1Api,
    EventsV1Api,
    V1ConfigMap,
    V1Lease,
    V1Node,
    V1ObjectMeta,
)

from tests.control_plane.accounts import permitted, without
from tests.control_plane.control_plane import ControlPlane
from tests.hardware.topology.machines import hgx_h100, uuid, with_switch_links
from tests.nvml import machines as played
from tests.nvml.machines import write_machine
from tests.nvml.stub import environment_of, nvml_library, without_library
from tests.programs.agent.waking import wake
from tests.programs.server.conftest import DEADLINE_S, until
from webhook.cluster.api.permissions import AGENT, Permission, Scope
from webhook.cluster.api.verbs import Api, Reply
from webhook.cluster.kinds import NODE, Kind
from webhook.hardware.topology.document import parse_topology
from webhook.hardware.topology.model import NodeTopology
from webhook.programs.agent.log import AgentLog
from webhook.programs.agent.publication import PublishOptions
from webhook.programs.agent.rounds import Agent, Clock
from webhook.programs.agent.run import connect_agent
from webhook.programs.agent.status import Count

__all__ = ["nvml_library"]

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("without_proxy")]

ROOT = Path(__file__).parents[2]
AT = datetime(2026, 11, 20, 21, 51, 20, tzinfo=UTC)
CORDON, CORDONED, LABEL = "hami.io/device-cordon", "gpu.topology/cordoned", "gpu.topology/nvlink"
DEGRADED = with_switch_links(hgx_h100(), 3, 12)


@dataclass
class Site:
    """A node of the cluster and a service account for its agent."""

    admin: CoreV1Api
    control_plane: ControlPlane
    namespace: str
    node: str
    kubeconfig: Path
    log: Path
    topology: NodeTopology = field(default_factory=hgx_h100)
    seconds: float = 1000.0
    now: datetime = AT
    descriptors: list[int] = field(default_factory=list)

    def agent(self, *, cordon: bool = False, connected: Callable[[], Api] | None = None) -> Agent:
        """A new agent, as after a restart."""
        self.descriptors.append(os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND))
        return Agent(
            self.node,
            PublishOptions(namespace=self.namespace, cordon=cordon),
            interval=60.0,
            discover=lambda: replace(self.topology, node=self.node),
            connect=connected or partial(connect_agent, self.kubeconfig),
            log=AgentLog(self.descriptors[-1], node=self.node),
            clock=Clock(monotonic=lambda: self.seconds, now=lambda: self.now, jitter=lambda: 0.5),
        )

    def round(self, agent: Agent, topology: NodeTopology | None = None) -> None:
        """The next discovery and publication, which must work."""
        self.topology = topology or self.topology
        self.seconds += 600.0
        wake(agent)
        assert agent.status.failure == ""

    def config_map(self) -> V1ConfigMap:
        return self.admin.read_namespaced_config_map(f"gpu-topology-{self.node}", self.namespace)

    def lease(self) -> V1Lease:
        coordination = CoordinationV1Api(self.admin.api_client)
        return coordination.read_namespaced_lease(f"gpu-topology-{self.node}", self.namespace)

    def signs_of_life(self) -> list[datetime | None]:
        """When the topology was last true; nothing before the first sign of life."""
        leases = CoordinationV1Api(self.admin.api_client).list_namespaced_lease(self.namespace).items
        return [lease.spec.renew_time for lease in leases if lease.spec]

    def published(self) -> NodeTopology:
        return parse_topology((self.config_map().data or {})["topology.json"], source="test")

    def metadata(self) -> V1ObjectMeta:
        metadata = self.admin.read_node(self.node).metadata
        assert metadata is not None
        return metadata

    def annotation(self, key: str) -> str | None:
        return (self.metadata().annotations or {}).get(key)

    def label(self) -> str | None:
        return (self.metadata().labels or {}).get(LABEL)

    def annotate(self, *, cordon: str | None) -> None:
        """An administrator writes HAMi's list."""
        patch = {"metadata": {"annotations": {CORDON: cordon}}}
        self.admin.patch_node(self.node, patch, _content_type="application/merge-patch+json")

    def events(self) -> list[tuple[str, str, str]]:
        """Type, reason and note of the node's events, in the order of their reasons."""
        found = EventsV1Api(self.admin.api_client).list_namespaced_event("default").items
        mine = [event for event in found if event.regarding and event.regarding.name == self.node]
        told = [(event.type or "", event.reason or "", event.note or "") for event in mine]
        return sorted(told, key=lambda event: event[1])

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]


MakeSite = Callable[[tuple[Permission, ...]], Site]


@pytest.fixture
def make_site(admin: CoreV1Api, control_plane: ControlPlane, namespace: str, tmp_path: Path) -> Iterator[MakeSite]:
    """Makes a node, and a service account for its agent with these permissions."""
    made: list[Site] = []

    def make(permissions: tuple[Permission, ...]) -> Site:
        node = f"node-of-{namespace}"
        labels = {"kubernetes.io/os": "linux"}  # of an object that is created with nothing nobody tracks who writes it
        admin.create_node(V1Node(metadata=V1ObjectMeta(name=node, labels=labels)))
        kubeconfig = permitted(admin, control_plane, namespace, "agent", permissions)
        made.append(Site(admin, control_plane, namespace, node, kubeconfig, tmp_path / "log"))
        return made[-1]

    yield make
    for site in made:
        for descriptor in site.descriptors:
            os.close(descriptor)


@pytest.fixture
def site(make_site: MakeSite) -> Site:
    """A new node, and an agent with exactly the permissions of the list."""
    return make_site(AGENT)


def test_the_first_round_publishes_everything(site: Site) -> None:
    site.round(site.agent())
    config_map = site.config_map()
    assert config_map.metadata is not None
    assert config_map.metadata.labels == {"gpu.topology/node": site.node}
    (owner,) = config_map.metadata.owner_references or []
    assert (owner.kind, owner.name, owner.uid) == ("Node", site.node, site.metadata().uid)
    assert sorted(config_map.data or {}) == ["nccl-topo.xml", "topology.json"]
    assert site.published() == replace(hgx_h100(), node=site.node)
    assert site.label() == "healthy"
    assert site.events() == []


def test_what_the_agent_writes_bears_its_name(site: Site) -> None:
    site.round(site.agent())
    metadata = site.config_map().metadata
    assert metadata is not None
    assert [(entry.manager, entry.operation) for entry in metadata.managed_fields or []] == [
        ("gpu-topology-agent", "Apply")
    ]
    managers = [entry.manager for entry in site.metadata().managed_fields or []]
    assert "gpu-topology-agent" in managers


@pytest.mark.parametrize("restarted", [False, True], ids=["running", "restarted"])
def test_a_round_without_news_writes_nothing_but_the_sign_of_life(site: Site, *, restarted: bool) -> None:
    agent = site.agent(cordon=True)
    site.round(agent, DEGRADED)
    before = (site.config_map().metadata, site.metadata(), site.events())
    second = site.agent(cordon=True) if restarted else agent
    site.round(second)
    assert (site.config_map().metadata, site.metadata(), site.events()) == before
    assert second.status.count(Count.API_ERRORS) == {}


def test_the_first_round_says_when_the_topology_was_true(site: Site) -> None:
    site.round(site.agent())
    lease = site.lease()
    assert lease.metadata is not None
    assert lease.metadata.labels == {"gpu.topology/node": site.node}
    (owner,) = lease.metadata.owner_references or []
    assert (owner.kind, owner.name, owner.uid) == ("Node", site.node, site.metadata().uid)
    assert [(entry.manager, entry.operation) for entry in lease.metadata.managed_fields or []] == [
        ("gpu-topology-agent", "Apply")
    ]
    assert lease.spec is not None
    assert lease.spec.holder_identity == site.node
    assert lease.spec.lease_duration_seconds == 600
    assert site.signs_of_life() == [AT]


def test_a_topology_that_is_published_late_was_true_when_the_node_was_looked_at(site: Site, port: int) -> None:
    right = site.kubeconfig.read_text()
    site.kubeconfig.write_text(right.replace(site.control_plane.url, f"https://127.0.0.1:{port}"))
    agent = site.agent()
    wake(agent)
    site.kubeconfig.write_text(right)
    site.now, site.seconds = AT + timedelta(seconds=10), site.seconds + 10.0
    wake(agent)
    assert agent.status.failure == ""
    assert agent.status.count(Count.DISCOVERIES) == {"complete": 1}
    assert site.signs_of_life() == [AT]


def test_a_change_is_published_with_its_label_and_its_event(site: Site) -> None:
    agent = site.agent()
    site.round(agent)
    before = site.config_map().metadata
    site.round(agent, DEGRADED)
    after = site.config_map().metadata
    assert before is not None
    assert after is not None
    assert after.resource_version != before.resource_version
    assert after.uid == before.uid
    assert site.published() == replace(DEGRADED, node=site.node)
    assert site.label() == "degraded"
    assert site.events() == [
        ("Warning", "NVLinkDown", f"GT701: NVLinks are down: GPU3 {uuid(3)}: 12 of 18 links up, 18 before")
    ]


def test_an_event_is_found_as_kubectl_describe_looks_for_it(site: Site) -> None:
    site.round(site.agent(), DEGRADED)
    selector = f"involvedObject.kind=Node,involvedObject.name={site.node},involvedObject.uid={site.metadata().uid}"
    (event,) = site.admin.list_namespaced_event("default", field_selector=selector).items
    assert (event.type, event.reason) == ("Warning", "NVLinkDown")
    assert event.reporting_component == "gpu.topology/agent"
    assert event.reporting_instance == site.node


def test_what_somebody_edited_is_repaired_and_what_they_added_stays(site: Site) -> None:
    agent = site.agent()
    site.round(agent)
    patch = {
        "metadata": {"labels": {"gpu.topology/node": "other", "team": "ml"}, "ownerReferences": None},
        "data": {"topology.json": "{}", "nccl-topo.xml": None, "notes": "rack 7"},
    }
    name = f"gpu-topology-{site.node}"
    site.admin.patch_namespaced_config_map(name, site.namespace, patch, _content_type="application/merge-patch+json")
    site.round(agent)
    config_map = site.config_map()
    assert config_map.metadata is not None
    assert config_map.metadata.labels == {"gpu.topology/node": site.node, "team": "ml"}
    assert [owner.kind for owner in config_map.metadata.owner_references or []] == ["Node"]
    assert sorted(config_map.data or {}) == ["nccl-topo.xml", "notes", "topology.json"]
    assert site.published() == replace(hgx_h100(), node=site.node)


def test_a_cordon_comes_and_goes_beside_that_of_an_administrator(site: Site) -> None:
    site.annotate(cordon="GPU-of-an-admin")
    agent = site.agent(cordon=True)
    site.round(agent, DEGRADED)
    assert site.annotation(CORDON) == f"GPU-of-an-admin,{uuid(3)}"
    assert site.annotation(CORDONED) == f"{uuid(3)}=links"
    site.round(agent, hgx_h100())
    assert site.annotation(CORDON) == "GPU-of-an-admin"
    assert site.annotation(CORDONED) is None
    assert [event[1] for event in site.events()] == ["GpuCordoned", "GpuUncordoned", "NVLinkDown", "NVLinkRestored"]


class Interrupted(Api):
    """A connection at whose other end somebody writes the Node right after we have read it."""

    interruptions: list[Callable[[], None]]

    async def get(self, kind: Kind, name: str, namespace: str = "", **more: Any) -> Reply:
        found = await super().get(kind, name, namespace, **more)
        if kind is NODE and self.interruptions:
            self.interruptions.pop(0)()
        return found


def interrupted(site: Site, *interruptions: Callable[[], None]) -> Callable[[], Api]:
    left = list(interruptions)

    def connected() -> Api:
        api = connect_agent(site.kubeconfig)
        api.__class__ = Interrupted
        assert isinstance(api, Interrupted)
        api.interruptions = left
        return api

    return connected


def test_who_writes_the_node_at_the_same_time_loses_nothing(site: Site) -> None:
    first, second = partial(site.annotate, cordon="GPU-x"), partial(site.annotate, cordon="GPU-x,GPU-y")
    agent = site.agent(cordon=True, connected=interrupted(site, first, second))
    site.round(agent, DEGRADED)
    assert site.annotation(CORDON) == f"GPU-x,GPU-y,{uuid(3)}"
    assert agent.status.count(Count.API_ERRORS) == {"conflict": 2}
    assert [event[1] for event in site.events()] == ["GpuCordoned", "NVLinkDown"]


def test_a_node_that_is_written_all_the_time_is_tried_again_later(site: Site) -> None:
    busy = [partial(site.annotate, cordon=f"GPU-{number}") for number in range(5)]
    agent = site.agent(cordon=True, connected=interrupted(site, *busy))
    site.topology = DEGRADED
    wake(agent)
    assert "the object has been modified" in agent.status.failure
    site.round(agent)
    assert site.annotation(CORDON) == f"GPU-4,{uuid(3)}"


def test_a_label_does_not_conflict_with_other_writers(site: Site) -> None:
    agent = site.agent(connected=interrupted(site, partial(site.annotate, cordon="GPU-x")))
    site.round(agent)
    assert site.label() == "healthy"
    assert agent.status.count(Count.API_ERRORS) == {}


def test_a_node_that_does_not_exist_is_named_with_the_option(site: Site) -> None:
    site.node = "no-such-node"
    agent = site.agent()
    wake(agent)
    assert agent.status.failure == (
        'get node no-such-node: nodes "no-such-node" not found (404). --node, or NODE_NAME, must be the name of a Node'
    )


@pytest.mark.parametrize(
    ("scope", "resource", "verb"),
    [(permission.scope, permission.resource, verb) for permission in AGENT for verb in permission.verbs],
)
def test_every_permission_is_needed(make_site: MakeSite, scope: Scope, resource: str, verb: str) -> None:
    site = make_site(without(AGENT, scope, resource, verb))
    site.topology = DEGRADED
    agent = site.agent()
    wake(agent)
    assert agent.status.count(Count.API_ERRORS)["denied"] >= 1
    (failed,) = [line["error"] for line in site.lines() if line["message"] == "failed"]
    assert f"cannot {verb} resource" in failed
    assert resource in failed


def all_but(resource: str) -> tuple[Permission, ...]:
    return tuple(permission for permission in AGENT if permission.resource != resource)


def test_events_that_are_refused_stop_nothing(make_site: MakeSite) -> None:
    site = make_site(all_but("events"))
    site.round(site.agent(), DEGRADED)
    assert site.label() == "degraded"
    assert site.published() == replace(DEGRADED, node=site.node)


def test_a_refused_config_map_is_no_sign_of_life(make_site: MakeSite) -> None:
    site = make_site((AGENT[0], replace(AGENT[1], verbs=("get",)), *AGENT[2:]))
    agent = site.agent()
    wake(agent)
    assert f"apply ConfigMap {site.namespace}/gpu-topology-{site.node}: " in agent.status.failure
    assert site.signs_of_life() == []


def test_a_refused_sign_of_life_is_said_and_keeps_nothing_back(make_site: MakeSite) -> None:
    site = make_site(all_but("leases"))
    agent = site.agent()
    wake(agent)
    assert f"apply Lease {site.namespace}/gpu-topology-{site.node}: " in agent.status.failure
    assert 'cannot patch resource "leases"' in agent.status.failure
    assert agent.status.in_step
    assert agent.status.count(Count.ERRORS) == {"api": 1}
    site.seconds += 60.0
    site.topology = DEGRADED
    wake(agent)
    assert site.published() == replace(DEGRADED, node=site.node)
    assert site.label() == "degraded"
    assert agent.status.count(Count.API_ERRORS) == {"denied": 2}
    assert [line["kind"] for line in site.lines() if line["message"] == "failed"] == ["lease"]


def test_a_node_with_the_longest_name_is_published(site: Site) -> None:
    site.node = ".".join(["gpu-node-with-a-long-name"] * 9 + ["z" * 19])
    assert len(site.node) == 253
    site.admin.create_node(V1Node(metadata=V1ObjectMeta(name=site.node)))
    try:
        site.round(site.agent(cordon=True), DEGRADED)
        (config_map,) = site.admin.list_namespaced_config_map(site.namespace, label_selector="gpu.topology/node").items
        assert parse_topology((config_map.data or {})["topology.json"], source="test").node == site.node
        assert [event[1] for event in site.events()] == ["GpuCordoned", "NVLinkDown"]
        (lease,) = CoordinationV1Api(site.admin.api_client).list_namespaced_lease(site.namespace).items
        assert config_map.metadata is not None
        assert lease.metadata is not None
        assert lease.metadata.name == config_map.metadata.name
        assert lease.spec is not None
        assert lease.spec.holder_identity == site.node
    finally:
        site.admin.delete_node(site.node)


def test_the_program_publishes_watches_and_stops(site: Site, nvml_library: Path, port: int, tmp_path: Path) -> None:
    root = tmp_path / "root"
    environment = environment_of(nvml_library, write_machine(played.hgx_h100(), root))
    command = [sys.executable, "-m", "webhook", "agent", "--node", site.node, "--namespace", site.namespace]
    command += ["--root", str(root), "--kubeconfig", str(site.kubeconfig), "--interval", "1"]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    with site.log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, cwd=ROOT, env=environment)
    try:
        until(lambda: is_ready(process, port, site.log), "readiness")
        assert site.label() == "healthy"
        assert len(site.published().gpus) == 8
        play(played.hgx_h100().with_links_down(3, 0, 1), root)
        until(lambda: site.label() == "degraded", "the label")
        until(lambda: [event[1] for event in site.events()] == ["NVLinkDown"], "the event")
        play(played.hgx_h100().with_lost(2), root)
        until(lambda: len(site.published().lost) == 1, "the lost GPU")
        metrics = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=DEADLINE_S, trust_env=False).text.splitlines()
        assert f'gpu_topology_gpus{{node="{site.node}",state="lost"}} 1.0' in metrics
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(30)
    assert site.published().problem == ""
    lines = site.lines()
    assert lines[0]["message"] == "started"
    assert lines[-1].items() >= {"message": "stopping", "node": site.node, "signal": "SIGTERM"}.items()


def play(machine: played.Machine, root: Path) -> None:
    """From the next discovery on, the driver shows this machine."""
    description = root / "next.txt"
    description.write_text("".join(f"{line}\n" for line in played.description_of(machine)))
    description.rename(root / "nvml.txt")


def is_ready(process: subprocess.Popen[bytes], port: int, log: Path) -> bool:
    assert process.poll() is None, log.read_text()
    try:
        return httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=DEADLINE_S, trust_env=False).status_code == 200
    except httpx.TransportError:
        time.sleep(0.05)
        return False


def test_one_round_of_the_program(site: Site, nvml_library: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    environment = environment_of(nvml_library, write_machine(played.hgx_h100(), root))
    environment |= {"NODE_NAME": site.node, "POD_NAMESPACE": site.namespace}
    command = [sys.executable, "-m", "webhook", "agent", "--once", "--root", str(root)]
    command += ["--kubeconfig", str(site.kubeconfig)]
    done = subprocess.run(command, capture_output=True, cwd=ROOT, env=environment, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(site.published().gpus) == 8
    wrote = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(line["message"], line.get("kind")) for line in wrote] == [
        ("discovered", None),
        ("wrote", "Node"),
        ("wrote", "ConfigMap"),
        ("wrote", "Lease"),
    ]


def test_one_round_of_the_program_without_a_driver_publishes_that_and_fails(site: Site, tmp_path: Path) -> None:
    environment = environment_of(without_library(tmp_path))
    command = [sys.executable, "-m", "webhook", "agent", "--once", "--node", site.node, "--namespace", site.namespace]
    command += ["--root", str(tmp_path / "root"), "--kubeconfig", str(site.kubeconfig)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=300, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"gpu-topology: published, but nothing is known of node {site.node}: libnvidia-ml")
    assert site.published().problem.startswith("libnvidia-ml.so.1 is not here")
    assert site.label() == "absent"


def test_a_client_of_the_agent_may_not_do_more(site: Site) -> None:
    with site.control_plane.client(site.kubeconfig) as client:
        core, coordination = CoreV1Api(client), CoordinationV1Api(client)
        for refused in (
            partial(core.list_node),
            partial(core.delete_node, site.node),
            partial(core.list_namespaced_config_map, site.namespace),
            partial(core.delete_namespaced_config_map, "x", site.namespace),
            partial(core.read_namespaced_config_map, "x", "default"),
            partial(core.list_namespaced_pod, site.namespace),
            partial(coordination.read_namespaced_lease, "x", site.namespace),
            partial(coordination.list_namespaced_lease, site.namespace),
            partial(coordination.delete_namespaced_lease, "x", site.namespace),
            partial(coordination.patch_namespaced_lease, "x", "kube-node-lease", {}),
        ):
            with pytest.raises(ApiException, match="forbidden"):
                refused()
