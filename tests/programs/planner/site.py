"""Parts of a planner against the stand-in for the API server, with a clock that a test may move."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence, Set
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.cluster.api.access import ToldAccess
from tests.cluster.api.stand_in import StandIn, serving
from tests.programs.planner.server import OWN, PlacingServer
from webhook.cluster.api.session import Session
from webhook.decisions.node_record import NodeRecord
from webhook.decisions.place.pod import PodRecord
from webhook.decisions.place.round import PlannerReport
from webhook.decisions.place.writes import Write
from webhook.hardware.topology.model import NodeTopology
from webhook.objects.workload import Workload, WorkloadRef
from webhook.programs.log import Log
from webhook.programs.planner.clock import Clock
from webhook.programs.planner.run import PlannerSettings, Program
from webhook.words.patch import Operation

DEADLINE_S = 20.0
NOW = datetime(2026, 1, 15, 9, 30, 10, tzinfo=UTC)


async def until(condition: Callable[[], Any], what: Callable[[], object] = lambda: "") -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, what()
        await asyncio.sleep(0.005)


@dataclass
class TestClock:
    """Time passes as it does, and by ``ahead`` seconds more."""

    __test__ = False
    ahead: float = 0.0

    def clock(self) -> Clock:
        return Clock(lambda: time.monotonic() + self.ahead, lambda: NOW)


@dataclass
class ByHand:
    """What a test lets the planner decide; it hears of pods and nodes as the real decisions do.

    Attributes:
        decide_now: Says what is to be written, from this and the pods that are busy.
    """

    decide_now: "Callable[[ByHand, Set[str]], Sequence[Write]]"
    report: PlannerReport = field(default_factory=PlannerReport)
    pods: dict[str, PodRecord] = field(default_factory=dict)
    nodes: dict[str, tuple[NodeRecord, NodeTopology | None]] = field(default_factory=dict)
    heard: list[str] = field(default_factory=list)
    wishes: set[WorkloadRef] = field(default_factory=set)
    read: dict[WorkloadRef, Workload | None] = field(default_factory=dict)

    def workload_read(self, ref: WorkloadRef, workload: Workload | None) -> bool:
        is_new = ref not in self.read
        self.read[ref] = workload
        return is_new

    def pod_changed(self, key: str, before: PodRecord | None, after: PodRecord | None) -> None:
        assert self.pods.pop(key, None) is before
        self.heard.append(key)
        if after is not None:
            self.pods[key] = after

    def node_changed(self, name: str, record: NodeRecord | None, topology: NodeTopology | None) -> None:
        self.nodes.pop(name, None)
        self.heard.append(name)
        if record is not None:
            self.nodes[name] = record, topology

    def decide(self, now: float, at: datetime, busy: Set[str], put_off: Set[str]) -> Sequence[Write]:  # noqa: ARG002 - tests decide by hand
        return self.decide_now(self, busy)


def nothing(_: ByHand, __: Set[str]) -> Sequence[Write]:
    return ()


def opening(pod: PodRecord, **members: Any) -> Write:
    """What the planner writes to let a pod go."""
    return Write(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        patch=(
            Operation("test", "/metadata/uid", pod.uid),
            Operation("test", "/spec/schedulingGates/0/name", "gpu.topology/place"),
            Operation("add", "/metadata/labels/gpu.topology~1placement", "released"),
            Operation("remove", "/spec/schedulingGates/0"),
        ),
        **members,
    )


def about(name: str = "train", **members: Any) -> Write:
    """A write about a pod of team-a."""
    return Write(namespace="team-a", name=name, uid=f"uid-of-{name}", **members)


def open_all(found: ByHand, busy: Set[str]) -> Sequence[Write]:
    """Let every waiting pod go."""
    waiting = [pod for pod in found.pods.values() if pod.unbound and pod.unbound.is_gated]
    return [opening(pod, result="released") for pod in waiting if pod.key not in busy]


@dataclass
class Site:
    """A server and the way to it."""

    server: PlacingServer
    stand_in: StandIn
    session: Session
    log: Log
    log_file: Path

    def lines(self) -> str:
        return self.log_file.read_text()

    def program(self, make: Callable[[Any], ByHand], clock: Clock | None = None) -> Program:
        return Program(settings(), make, self.session, self.log, clock)


def settings(name: str = "planner-1") -> PlannerSettings:
    return PlannerSettings(
        namespace=OWN,
        topology_namespace=OWN,
        max_age=600.0,
        pod_name=name,
        kubeconfig=None,
        host="127.0.0.1",
        port=0,
    )


@asynccontextmanager
async def site(tmp_path: Path, server: PlacingServer | None = None) -> AsyncIterator[Site]:
    server = server or PlacingServer()
    path = tmp_path / "log"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    async with serving(server.turn) as stand_in:
        session = Session(ToldAccess(f"http://127.0.0.1:{stand_in.port}"), user_agent="test", seconds=DEADLINE_S)
        try:
            yield Site(server, stand_in, session, Log(descriptor), path)
        finally:
            await session.close()
            os.close(descriptor)
