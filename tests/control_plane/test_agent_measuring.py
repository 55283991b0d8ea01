"""``gpu-topology agent --verify-at-start`` at a real API server, with stand-ins for the driver and for CUDA."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from kubernetes.client import ApiException, CoordinationV1Api, CoreV1Api, EventsV1Api, V1Node, V1ObjectMeta

from tests.control_plane.accounts import permitted
from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.processes import Program, running
from tests.cuda.machines import Bench, Way
from tests.cuda.stub import PlayBench, bench_of, cuda_libraries, play_bench
from tests.nvml.stub import nvml_library, play
from tests.ports import reserved_port
from tests.programs.server.conftest import until
from tests.programs.verify.test_run import BenchOf, h100
from webhook.cluster.api.permissions import AGENT
from webhook.hardware.topology.document import parse_topology
from webhook.hardware.topology.model import NodeTopology

__all__ = ["bench_of", "cuda_libraries", "nvml_library", "play", "play_bench"]

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("without_proxy")]

MEASURE = "--verify-at-start"


@dataclass(frozen=True)
class Site:
    """A node, and what its agent may use."""

    admin: CoreV1Api
    namespace: str
    node: str
    kubeconfig: Path
    log: Path
    play: PlayBench

    @contextmanager
    def agent(self, bench: Bench, *options: str) -> Iterator[Program]:
        """The program on a machine that behaves like that."""
        command = [sys.executable, "-m", "webhook", "agent", "--node", self.node, "--namespace", self.namespace]
        command += ["--root", str(self.play(bench)), "--kubeconfig", str(self.kubeconfig), "--interval", "1"]
        with reserved_port() as port:
            command += ["--host", "127.0.0.1", "--port", str(port), *options]
            with running("agent", command, self.log) as program:
                yield program

    def published(self) -> NodeTopology | None:
        try:
            found = self.admin.read_namespaced_config_map(f"gpu-topology-{self.node}", self.namespace)
        except ApiException:
            return None
        return parse_topology((found.data or {})["topology.json"], source="test")

    def slower(self) -> dict[str, int]:
        """Of the first GPU."""
        found = self.published()
        return dict(found.gpus[0].slower) if found else {}

    def label(self) -> str | None:
        metadata = self.admin.read_node(self.node).metadata
        return (metadata.labels or {}).get("gpu.topology/nvlink") if metadata else None

    def notes(self, reason: str) -> list[str]:
        found = EventsV1Api(self.admin.api_client).list_namespaced_event("default").items
        mine = [event for event in found if event.regarding and event.regarding.name == self.node]
        return [event.note or "" for event in mine if event.reason == reason]

    def renewed(self) -> object:
        """When the agent last said that all is still true."""
        leases = CoordinationV1Api(self.admin.api_client)
        spec = leases.read_namespaced_lease(f"gpu-topology-{self.node}", self.namespace).spec
        return spec.renew_time if spec else None

    def another_round(self) -> None:
        """Returns once the agent has published once more."""
        before = self.renewed()
        until(lambda: self.renewed() != before, "another round")


@pytest.fixture
def site(admin: CoreV1Api, control_plane: ControlPlane, namespace: str, tmp_path: Path, play_bench: PlayBench) -> Site:
    node = f"node-of-{namespace}"
    admin.create_node(V1Node(metadata=V1ObjectMeta(name=node, labels={"kubernetes.io/os": "linux"})))
    kubeconfig = permitted(admin, control_plane, namespace, "agent", AGENT)
    return Site(admin, namespace, node, kubeconfig, tmp_path / "log", play_bench)


def test_a_pair_that_is_slower_is_published_told_and_kept_over_a_restart(site: Site, bench_of: BenchOf) -> None:
    slow = h100(bench_of).with_way(0, 1, Way(gbps=120.0, over="nvlink"))
    with site.agent(slow, MEASURE):
        until(lambda: bool(site.slower()), "figures")
        until(lambda: site.label() == "degraded", "the label")
        until(lambda: bool(site.notes("BandwidthBelowExpected")), "the Event")
    (note,) = site.notes("BandwidthBelowExpected")
    assert note.startswith("GT716: less was measured than NVLink carries: GPU0-GPU1, 1")
    assert site.slower() == {"GPU1": pytest.approx(120_000, rel=0.01)}
    assert '"measured"' in site.log.read_text()
    published = site.published()
    with site.agent(h100(bench_of), MEASURE):
        site.another_round()
        site.another_round()
        assert site.published() == published
    assert '"measured"' not in site.log.read_text()
    assert len(site.notes("BandwidthBelowExpected")) == 1
