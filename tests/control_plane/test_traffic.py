"""Counters of a driver, from the stand-in for NVML through the agent's Lease to the planner's Event and ``explain``.

Everything in between is real: agent, API server, the planner with no more than its permissions, and the command.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import uvloop
from kubernetes.client import CoordinationV1Api, CoreV1Api, EventsV1Api

from tests.cli.command import gpu_topology
from tests.control_plane.accounts import permitted
from tests.control_plane.control_plane import Binaries, ControlPlane, running_control_plane
from tests.control_plane.hami.nodes import create_node
from tests.control_plane.test_place import program, running
from tests.nvml.machines import Machine, description_of, hgx_h100
from tests.nvml.stub import Play, nvml_library, play
from tests.programs.agent.waking import wake
from tests.programs.planner.site import until
from webhook.cluster.api.permissions import AGENT, EXPLAIN, PLANNER, Permission
from webhook.hardware.discovery.counters import CounterReader
from webhook.hardware.discovery.machine import discover
from webhook.programs.agent.log import AgentLog
from webhook.programs.agent.publication import PublishOptions
from webhook.programs.agent.rounds import Agent, Clock
from webhook.programs.agent.run import connect_agent
from webhook.programs.agent.traffic import Sampler
from webhook.programs.planner.traffic import PodGpu
from webhook.words import names

__all__ = ["nvml_library", "play"]

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("without_proxy")]

PCIE_PER_SECOND = 50_000_000
STEP = 15
SAMPLES = 140
"""Thirty-five minutes."""


@dataclass
class Site:
    """A node whose driver a test plays, its agent, and a pod with its first two cards."""

    admin: CoreV1Api
    control_plane: ControlPlane
    namespace: str
    directory: Path
    play: Play
    seconds: float = 0.0
    descriptors: list[int] = field(default_factory=list)
    accounts: dict[str, Path] = field(default_factory=dict)

    @property
    def node(self) -> str:
        return f"node-of-{self.namespace}"

    def begin(self) -> None:
        """The node is there, and the pod has been running for an hour."""
        self.root = self.play(hgx_h100())
        create_node(self.admin, discover(node=self.node, root=self.root))
        self.sampler = Sampler(
            CounterReader().read,
            interval=float(STEP),
            clock=lambda: self.seconds,
            spent=lambda: 0.0,
            now=lambda: datetime.now(UTC),
            bug=partial(pytest.fail, "a bug in a sample"),
        )
        card = hgx_h100().cards[0]
        devices = "".join(f"{each.uuid},NVIDIA,{card.memory_mib},0:" for each in hgx_h100().cards[:2])
        metadata = {
            "name": "train",
            "annotations": {names.HAMI_ALLOCATED_NODE: self.node, names.HAMI_DEVICES_ALLOCATED: f"{devices};"},
        }
        container = {
            "name": "main",
            "image": "example.com/train",
            "env": [{"name": "CUDA_DISABLE_CONTROL", "value": "true"}],
            "resources": {"limits": {"nvidia.com/gpu": "2"}},
        }
        manifest: Any = {"metadata": metadata, "spec": {"nodeName": self.node, "containers": [container]}}
        self.admin.create_namespaced_pod(self.namespace, manifest)
        started = (datetime.now(UTC) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        status: Any = {"status": {"phase": "Running", "startTime": started}}
        self.admin.patch_namespaced_pod_status("train", self.namespace, status)

    def sampled(self, counters: Callable[[int], Machine]) -> None:
        """The agent samples counters for half an hour, which takes no time here."""
        for number in range(SAMPLES):
            description = "".join(f"{line}\n" for line in description_of(counters(number)))
            Path(os.environ["NVML_STUB_MACHINE"]).write_text(description)
            self.sampler.sample()
            self.seconds += STEP
        self.seconds -= STEP

    def publish(self) -> None:
        """One round of the agent, with no more than its permissions."""
        kubeconfig = self.account("agent", AGENT)
        self.descriptors.append(os.open(self.directory / "agent.log", os.O_WRONLY | os.O_CREAT))
        agent = Agent(
            self.node,
            PublishOptions(namespace=self.namespace),
            interval=60.0,
            discover=partial(discover, node=self.node, root=self.root),
            connect=partial(connect_agent, kubeconfig),
            log=AgentLog(self.descriptors[-1], node=self.node),
            clock=Clock(monotonic=lambda: self.seconds, now=lambda: datetime.now(UTC), jitter=lambda: 0.5),
            traffic=lambda: self.sampler.traffic,
        )
        wake(agent)
        assert agent.status.failure == ""

    def account(self, name: str, permissions: tuple[Permission, ...]) -> Path:
        """A kubeconfig for a program with these permissions and no others."""
        if name not in self.accounts:
            self.accounts[name] = permitted(self.admin, self.control_plane, self.namespace, name, permissions)
        return self.accounts[name]

    def lease(self) -> dict[str, str]:
        api = CoordinationV1Api(self.admin.api_client)
        metadata = api.read_namespaced_lease(f"gpu-topology-{self.node}", self.namespace).metadata
        return (metadata.annotations if metadata else None) or {}

    def events(self) -> list[tuple[str, str, str]]:
        found = EventsV1Api(self.admin.api_client).list_namespaced_event(self.namespace).items
        return [(event.type or "", event.reason or "", (event.note or "")[:5]) for event in found]

    def explained(self) -> list[dict[str, Any]]:
        """What ``gpu-topology explain`` says of traffic."""
        kubeconfig = self.account("person", EXPLAIN)
        done = gpu_topology("explain", f"{self.namespace}/train", "--kubeconfig", kubeconfig, "-o", "json")
        found: list[dict[str, Any]] = msgspec.json.decode(done.out)["findings"]
        return [each for each in found if each["group"] == "Traffic"]


def traffic(*, nvlink_kib: int) -> Callable[[int], Machine]:
    """The counters of the first two cards, which are busy, after so many samples; KiB of each link in one sample."""

    def after(number: int) -> Machine:
        machine, moved = hgx_h100(), number * STEP * PCIE_PER_SECOND
        for index in (0, 1):
            kib = 7000 + number * nvlink_kib
            machine = machine.with_counters(index, nvlink_kib=(kib, kib), pcie=(moved, moved), busy=99)
        return machine

    return after


@pytest.fixture(scope="module")
def control_plane(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """One of its own: the planner looks at the traffic of one node a second, and other tests leave nodes."""
    with running_control_plane(binaries, tmp_path_factory.mktemp("traffic")) as running_plane:
        yield running_plane


@pytest.fixture
def site(admin: CoreV1Api, control_plane: ControlPlane, namespace: str, tmp_path: Path, play: Play) -> Iterator[Site]:
    found = Site(admin, control_plane, namespace, tmp_path, play)
    found.begin()
    yield found
    for descriptor in found.descriptors:
        os.close(descriptor)
    admin.delete_node(found.node)


def watched(site: Site, *, expected: int) -> dict[str, float]:
    """What the planner says of pods without use of NVLink, once it has looked at the node often enough."""
    kubeconfig = site.account("planner", PLANNER)
    signs: dict[str, float] = {}

    async def test() -> None:
        async with running(kubeconfig, lambda to: program(to, site.namespace, lambda *_: ())) as (planner,):

            def mine() -> list[PodGpu]:
                return [card for card in planner.watch.attribution.cards if card.node == site.node]

            await until(lambda: len(mine()) == 2, lambda: planner.counts.api_errors)
            turns = planner.watch.turns
            await until(lambda: planner.watch.turns > turns + 2)
            assert {(card.namespace, card.pod, card.container) for card in mine()} == {
                (site.namespace, "train", "main")
            }
            told = planner.watch.attribution.bandwidths.items()
            assert [(on.pod, ratio) for on, ratio in told if on.node == site.node] == [("train", 1.0)]
            await until(lambda: len(site.events()) >= expected)
            signs.update(planner.watch.attribution.unused)
            assert planner.counts.api_errors == {}

    uvloop.run(test())
    return signs


def test_a_pod_whose_nvlinks_nothing_goes_over_gets_a_hint(site: Site) -> None:
    site.sampled(traffic(nvlink_kib=0))
    site.publish()
    assert len(site.lease()[names.TRAFFIC]) < 4096
    assert watched(site, expected=1)["strong"] == 1
    assert site.events() == [("Normal", "NVLinkUnused", "GT900")]
    moved, hint = site.explained()
    assert (moved["condition"], moved["verdict"]) == ("traffic", "holds")
    assert "GPU0 and GPU1 moved 0 B over NVLink and 60 GB over PCIe" in moved["evidence"]
    assert (hint["verdict"], hint["code"], hint["stops"]) == ("hint", "GT900", False)


def test_a_pod_that_uses_them_a_little_gets_none(site: Site) -> None:
    """4 MB/s, as a pipeline with small activations moves."""
    site.sampled(traffic(nvlink_kib=900))
    site.publish()
    assert watched(site, expected=0) == {"strong": 0, "weak": 0}
    assert site.events() == []
    (moved,) = site.explained()
    assert "over NVLink and 60 GB over PCIe" in moved["evidence"]


def test_a_lease_that_lies_in_a_way_that_cannot_be_is_not_believed(site: Site) -> None:
    site.sampled(traffic(nvlink_kib=0))
    site.publish()
    forged = {"metadata": {"annotations": {names.TRAFFIC: '{"at":"2026-11-23T03:20:10Z","seconds":[-1],"cards":{}}'}}}
    api = CoordinationV1Api(site.admin.api_client)
    api.patch_namespaced_lease(f"gpu-topology-{site.node}", site.namespace, forged)
    assert watched(site, expected=0) == {"strong": 0, "weak": 0}
    assert site.explained() == []
    site.publish()
    assert len(site.explained()) == 2
