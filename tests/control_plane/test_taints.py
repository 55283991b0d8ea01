"""Taints of GPUs that are ill, at a real API server and a real kube-scheduler, with the agent's own permissions."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import CoreV1Api, EventsV1Api, ResourceV1Api, V1ObjectMeta

from tests.control_plane.accounts import namespace_for_pods, permitted, without
from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.kube_scheduler import create_node_for, running_kube_scheduler
from tests.control_plane.taint_rules import GATES, Rules, device, publish, rule_manifest
from tests.go_programs.catalogue import KUBE_SCHEDULER
from tests.go_programs.left_out import GetProgram
from tests.hardware.topology.machines import hgx_h100, uuid, with_switch_links
from tests.nvml import machines as played
from tests.nvml.machines import write_machine
from tests.nvml.stub import environment_of, nvml_library
from tests.programs.agent.waking import wake
from tests.programs.server.conftest import until
from webhook.cluster.api.permissions import AGENT, AGENT_TAINTS, Permission, Scope
from webhook.hardware.topology.model import NodeTopology
from webhook.programs.agent.log import AgentLog
from webhook.programs.agent.publication import PublishOptions
from webhook.programs.agent.rounds import Agent, Clock
from webhook.programs.agent.run import connect_agent
from webhook.programs.agent.status import Count, TaintStatus
from webhook.words.node_names import taint_rule_name

__all__ = ["nvml_library"]

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("without_proxy")]

ROOT = Path(__file__).parents[2]
SCHEDULER, DRIVER = "of-taints", "gpu.nvidia.com"
DEGRADED = with_switch_links(hgx_h100(), 3, 12)
# The name of a device is not the index of its card.
DEVICES = (device("gpu-5", uuid=uuid(3)), device("gpu-3", uuid=uuid(4)), device("gpu-0", bus_id="0000:1b:00.0"))


@dataclass
class Site:
    """A node of the cluster, and an agent that may taint its devices."""

    plane: ControlPlane
    admin: CoreV1Api
    namespace: str
    node: str
    kubeconfig: Path
    log: Path
    topology: NodeTopology = field(default_factory=hgx_h100)
    seconds: float = 1000.0
    descriptors: list[int] = field(default_factory=list)

    def agent(self, *, taint_devices: bool = True) -> Agent:
        """A new agent, as after a restart."""
        self.descriptors.append(os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND))
        return Agent(
            self.node,
            PublishOptions(namespace=self.namespace, taint_devices=taint_devices),
            interval=60.0,
            discover=lambda: replace(self.topology, node=self.node),
            connect=partial(connect_agent, self.kubeconfig),
            log=AgentLog(self.descriptors[-1], node=self.node),
            clock=Clock(monotonic=lambda: self.seconds, now=lambda: datetime.now(UTC), jitter=lambda: 0.5),
        )

    def round(self, agent: Agent, topology: NodeTopology) -> None:
        """The next discovery and publication, which must work."""
        self.topology = topology
        self.seconds += 600.0
        wake(agent)
        assert agent.status.failure == ""

    @property
    def rules(self) -> Rules:
        return Rules(self.plane)

    def said(self, device_name: str, taint: str) -> str:
        return f"{DRIVER}/{self.node}/{device_name} {taint}"

    def events(self) -> list[tuple[str, str]]:
        found = EventsV1Api(self.admin.api_client).list_namespaced_event("default").items
        mine = [event for event in found if event.regarding and event.regarding.name == self.node]
        return sorted((event.reason or "", event.note or "") for event in mine if event.action == "Taint")

    def told(self) -> list[str]:
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [line["text"] for line in lines if line["message"] == "taints"]


@contextmanager
def site_of(
    plane: ControlPlane, directory: Path, permissions: tuple[Permission, ...] = AGENT + AGENT_TAINTS
) -> Iterator[Site]:
    with plane.client() as client:
        admin = CoreV1Api(client)
        namespace = namespace_for_pods(admin, V1ObjectMeta(generate_name="taints-"))
        node = f"node-of-{namespace}"
        create_node_for(admin, SCHEDULER + namespace, node)
        kubeconfig = permitted(admin, plane, namespace, "agent", permissions)
        site = Site(plane, admin, namespace, node, kubeconfig, directory / "log")
        yield site
        for descriptor in site.descriptors:
            os.close(descriptor)
        admin.delete_node(node)
        slices = ResourceV1Api(client)
        for one in slices.list_resource_slice().items:
            slices.delete_resource_slice(one.metadata.name)  # type: ignore[arg-type, union-attr]  # the API server names it


@pytest.fixture
def site(plane: ControlPlane, tmp_path: Path) -> Iterator[Site]:
    """A new node; no rule is left behind."""
    with site_of(plane, tmp_path) as found:
        yield found
        for rule in found.rules.all():
            found.rules.delete(rule["metadata"]["name"])


@pytest.fixture
def published(site: Site) -> Site:
    """With three devices of a DRA driver."""
    publish(site.admin.api_client, site.node, DEVICES)
    return site


def test_a_card_with_links_down_is_tainted_and_freed_when_they_are_back(published: Site) -> None:
    site, agent = published, published.agent()
    site.round(agent, hgx_h100())
    assert site.rules.all() == []
    site.round(agent, DEGRADED)
    (rule,) = site.rules.all()
    assert site.rules.said() == [site.said("gpu-5", "gpu.topology/nvlink-down=6:NoSchedule")]
    assert rule["metadata"]["name"] == taint_rule_name(site.node, DRIVER, site.node, "gpu-5")
    assert rule["metadata"]["labels"] == {"gpu.topology/node": site.node}
    assert rule["metadata"]["annotations"] == {"gpu.topology/gpu-uuid": uuid(3)}
    assert [owner["name"] for owner in rule["metadata"]["ownerReferences"]] == [site.node]
    assert agent.status.taints == TaintStatus(served=True, rules=1)
    site.round(agent, hgx_h100())
    assert site.rules.all() == []
    assert agent.status.taints == TaintStatus(served=True)
    assert site.events() == [
        ("GpuTainted", f"GT710: resource claims are no longer given these GPUs: {uuid(3)}"),
        ("GpuUntainted", f"GT711: resource claims may be given these GPUs again: {uuid(3)}"),
    ]


def test_another_number_of_links_is_told_and_what_a_person_made_of_the_effect_stays(published: Site) -> None:
    site, agent = published, published.agent()
    site.round(agent, DEGRADED)
    (rule,) = site.rules.all()
    site.rules.patch(rule["metadata"]["name"], {"spec": {"taint": {"effect": "None"}}})
    site.round(agent, with_switch_links(hgx_h100(), 3, 10))
    assert site.rules.said() == [site.said("gpu-5", "gpu.topology/nvlink-down=8:None")]


@pytest.mark.parametrize("restarted", [False, True], ids=["running", "restarted"])
def test_a_round_without_news_writes_no_rule(published: Site, *, restarted: bool) -> None:
    agent = published.agent()
    published.round(agent, DEGRADED)
    before = published.rules.all()
    second = published.agent() if restarted else agent
    published.round(second, DEGRADED)
    assert published.rules.all() == before
    assert second.status.count(Count.WRITES).get("devicetaintrule", 0) == (0 if restarted else 1)


def forged(site: Site, case: str) -> Any:
    """A rule that bears the label of the agent and is not its own."""
    whole = {"driver": DRIVER, "pool": site.node, "device": "gpu-3"}
    own_name = taint_rule_name(site.node, DRIVER, site.node, "gpu-3")
    make = partial(rule_manifest, label=site.node)
    return {
        "another name": make("rule-of-an-admin", **whole),
        "every device of the cluster": make(own_name),
        "every device of the driver": make(own_name, driver=DRIVER),
        "another device": make(own_name, **(whole | {"device": "gpu-9"})),
        "another key": make(own_name, key="example.com/broken", **whole),
        "another node": make(
            taint_rule_name(site.node, DRIVER, "other-node", "gpu-3"), **(whole | {"pool": "other-node"})
        ),
        "no label": rule_manifest(own_name, label=None, **whole),
        "the label of another node": rule_manifest(own_name, label="other-node", **whole),
    }[case]


@pytest.mark.parametrize(
    "case",
    [
        "another name",
        "every device of the cluster",
        "every device of the driver",
        "another device",
        "another key",
        "another node",
        "no label",
        "the label of another node",
    ],
)
def test_a_rule_that_is_not_its_own_is_left_alone(published: Site, case: str) -> None:
    site, agent = published, published.agent()
    site.rules.create(forged(site, case))
    before = site.rules.all()
    site.round(agent, DEGRADED)
    site.round(agent, hgx_h100())
    assert site.rules.all() == before


def test_an_api_server_without_the_rules_is_told_of_once_and_fails_no_round(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    with site_of(control_plane, tmp_path, AGENT) as site:
        agent = site.agent()
        for _ in range(2):
            site.round(agent, DEGRADED)
        assert [text.partition(":")[0] for text in site.told()] == ["GT712"]
        assert agent.status.taints == TaintStatus(served=False, unmatched=1)
        site.round(agent, hgx_h100())
        assert agent.status.taints == TaintStatus(served=False)
        assert agent.status.count(Count.API_ERRORS) == {}


def test_without_the_permission_everything_else_is_published(plane: ControlPlane, tmp_path: Path) -> None:
    fewer = without(AGENT + AGENT_TAINTS, Scope.CLUSTER, "devicetaintrules", "create")
    with site_of(plane, tmp_path, fewer) as site:
        publish(site.admin.api_client, site.node, DEVICES)
        site.topology, agent = DEGRADED, site.agent()
        wake(agent)
        assert "devicetaintrules.resource.k8s.io is forbidden" in agent.status.failure
        assert site.admin.read_namespaced_config_map(f"gpu-topology-{site.node}", site.namespace).data
        assert (site.admin.read_node(site.node).metadata.labels or {})["gpu.topology/nvlink"] == "degraded"  # type: ignore[union-attr]  # read
        assert site.rules.all() == []


@pytest.mark.parametrize(
    ("resource", "verb"), [(each.resource, verb) for each in AGENT_TAINTS for verb in each.verbs], ids=str
)
def test_every_permission_is_needed(plane: ControlPlane, tmp_path: Path, resource: str, verb: str) -> None:
    with site_of(plane, tmp_path, without(AGENT + AGENT_TAINTS, Scope.CLUSTER, resource, verb)) as site:
        publish(site.admin.api_client, site.node, DEVICES)
        agent, said = site.agent(), ""
        for site.topology in (DEGRADED, with_switch_links(hgx_h100(), 3, 10), hgx_h100()):
            site.seconds += 600.0
            wake(agent)
            said += agent.status.failure
        assert re.search(rf"{resource}[^:]* is forbidden: .* cannot {verb} resource", said), said
        for rule in site.rules.all():
            site.rules.delete(rule["metadata"]["name"])


@pytest.fixture(scope="module")
def scheduler(plane: ControlPlane, go_program: GetProgram, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """It and the API server have the feature gate."""
    directory = tmp_path_factory.mktemp("scheduler-of-taints")
    program = go_program(KUBE_SCHEDULER)
    with running_kube_scheduler(program, plane.kubeconfig, directory, name=SCHEDULER, options=[GATES]):
        yield


@dataclass(frozen=True)
class Program:
    """``gpu-topology agent`` on a machine that the stub of NVML plays."""

    process: subprocess.Popen[bytes]
    root: Path

    def play(self, machine: played.Machine) -> None:
        """From the next discovery on, the driver shows this machine."""
        description = self.root / "next.txt"
        description.write_text("".join(f"{line}\n" for line in played.description_of(machine)))
        description.rename(self.root / "nvml.txt")


@contextmanager
def running_agent(site: Site, library: Path, root: Path, *options: str) -> Iterator[Program]:
    environment = environment_of(library, write_machine(played.hgx_h100(), root))
    command = [sys.executable, "-m", "webhook", "agent", "--node", site.node, "--namespace", site.namespace]
    command += ["--root", str(root), "--kubeconfig", str(site.kubeconfig), "--interval", "1"]
    command += ["--host", "127.0.0.1", "--port", "0", *options]
    with site.log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, cwd=ROOT, env=environment)
    try:
        yield Program(process, root)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(30)


def claim_pod(site: Site, name: str, count: int) -> None:
    """A pod with a claim for so many whole cards."""
    request = {"name": "gpus", "exactly": {"deviceClassName": DRIVER, "count": count}}
    claim: Any = {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}
    ResourceV1Api(site.admin.api_client).create_namespaced_resource_claim(site.namespace, claim)
    container = {"name": "main", "image": "x", "resources": {"claims": [{"name": "gpus"}]}}
    spec = {
        "schedulerName": SCHEDULER,
        "nodeSelector": {"kubernetes.io/hostname": site.node},
        "resourceClaims": [{"name": "gpus", "resourceClaimName": name}],
        "containers": [container],
    }
    body: Any = {"metadata": {"name": name}, "spec": spec}
    site.admin.create_namespaced_pod(site.namespace, body)


def allocated(site: Site, name: str) -> list[str]:
    claims = ResourceV1Api(site.admin.api_client)
    answer: Any = claims.read_namespaced_resource_claim(name, site.namespace, _preload_content=False)
    status = json.loads(answer.data).get("status") or {}
    results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or []
    return sorted(one["device"] for one in results)


def why_it_waits(site: Site, name: str) -> str:
    pod: Any = site.admin.read_namespaced_pod(name, site.namespace)
    return " ".join(condition.message or "" for condition in pod.status.conditions or [])


@pytest.fixture
def device_class(site: Site) -> Iterator[None]:
    api = ResourceV1Api(site.admin.api_client)
    selector = {"cel": {"expression": f"device.driver == '{DRIVER}'"}}
    body: Any = {"metadata": {"name": DRIVER}, "spec": {"selectors": [selector]}}
    api.create_device_class(body)
    yield
    api.delete_device_class(DRIVER)


@pytest.mark.long
@pytest.mark.usefixtures("scheduler", "device_class")
def test_the_scheduler_gives_no_claim_a_card_with_links_down_until_they_are_back(
    published: Site, nvml_library: Path, tmp_path: Path
) -> None:
    site = published
    with running_agent(site, nvml_library, tmp_path / "root", "--taint-devices") as program:
        program.play(played.hgx_h100().with_links_down(3, 0, 1))
        until(lambda: site.rules.said() == [site.said("gpu-5", "gpu.topology/nvlink-down=2:NoSchedule")], "the rule")
        claim_pod(site, "two", 2)
        until(lambda: allocated(site, "two") == ["gpu-0", "gpu-3"], "the two cards that are well")
        claim_pod(site, "one", 1)
        until(lambda: "cannot allocate all claims" in why_it_waits(site, "one"), "the scheduler has looked")
        assert allocated(site, "one") == []
        program.play(played.hgx_h100())
        until(lambda: allocated(site, "one") == ["gpu-5"], "the card whose links are back")
    assert site.rules.all() == []


@pytest.mark.long
@pytest.mark.usefixtures("scheduler", "device_class")
def test_without_the_option_the_scheduler_gives_claims_the_card_with_links_down(
    published: Site, nvml_library: Path, tmp_path: Path
) -> None:
    site = published
    with running_agent(site, nvml_library, tmp_path / "root") as program:
        program.play(played.hgx_h100().with_links_down(3, 0, 1))
        metadata = partial(site.admin.read_node, site.node)
        until(lambda: (metadata().metadata.labels or {}).get("gpu.topology/nvlink") == "degraded", "the label")  # type: ignore[union-attr]  # read
        claim_pod(site, "three", 3)
        until(lambda: allocated(site, "three") == ["gpu-0", "gpu-3", "gpu-5"], "all cards")
