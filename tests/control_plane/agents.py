"""Agents at a real API server: as values of this process, and as the program on a machine that is played."""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from kubernetes.client import CoreV1Api, EventsV1Api, V1Node, V1ObjectMeta

from tests.control_plane.accounts import namespace_for_pods, permitted
from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.processes import running
from tests.hardware.topology.machines import hgx_h100
from tests.nvml import machines as played
from tests.nvml.machines import write_machine
from tests.nvml.stub import environment_of
from tests.programs.agent.waking import wake
from webhook.cluster.api.permissions import Permission
from webhook.hardware.topology.model import NodeTopology
from webhook.programs.agent.log import AgentLog
from webhook.programs.agent.publication import PublishOptions
from webhook.programs.agent.rounds import Agent, Clock
from webhook.programs.agent.run import connect_agent

AT = datetime(2026, 11, 20, 21, 51, 20, tzinfo=UTC)


def agent_of(
    node: str, options: PublishOptions, kubeconfig: Path, log: int, discover: Callable[[], NodeTopology], **fields: Any
) -> Agent:
    """A new agent, as after a restart.

    Args:
        node: That it says it is on.
        options: What it publishes, and where.
        kubeconfig: Of its account.
        log: A file descriptor.
        discover: What it finds; the name of the node is filled in.
        fields: Of the agent, where they are others.
    """
    usual: dict[str, Any] = {
        "connect": partial(connect_agent, kubeconfig),
        "clock": Clock(monotonic=float, now=partial(datetime.now, UTC), jitter=lambda: 0.5),
    }
    log_ = AgentLog(log, node=node)
    return Agent(
        node, options, interval=60.0, discover=lambda: replace(discover(), node=node), log=log_, **(usual | fields)
    )


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """A log, for those that take a descriptor."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def publish(control_plane: ControlPlane, namespace: str, topology: NodeTopology, log: Path) -> None:
    """One round of an agent, as the administrator: ConfigMap and Lease."""
    with opened(log) as descriptor:
        options = PublishOptions(namespace=namespace, cordon=False)
        agent = agent_of(topology.node, options, control_plane.kubeconfig, descriptor, lambda: topology)
        wake(agent)
    assert agent.status.failure == ""


@dataclass
class AgentSite:
    """A node, and a service account for its agent.

    Attributes:
        log: What agents write.
        topology: What they find; at first nothing is wrong.
    """

    control_plane: ControlPlane
    admin: CoreV1Api
    namespace: str
    node: str
    kubeconfig: Path
    log: Path
    _running: ExitStack
    topology: NodeTopology = field(default_factory=hgx_h100)
    seconds: float = 1000.0

    def agent(self, *, connect: Callable[[], Any] | None = None, **options: bool) -> Agent:
        """A new one with these options of what it publishes."""
        published = PublishOptions(namespace=self.namespace, **options)
        fields: dict[str, Any] = {"connect": connect} if connect else {}
        fields["clock"] = Clock(monotonic=lambda: self.seconds, now=lambda: AT, jitter=lambda: 0.5)
        descriptor = self._running.enter_context(opened(self.log))
        return agent_of(self.node, published, self.kubeconfig, descriptor, lambda: self.topology, **fields)

    def round(self, agent: Agent, topology: NodeTopology | None = None) -> None:
        """The next discovery and publication, which must work."""
        self.topology = topology or self.topology
        self.seconds += 600.0
        wake(agent)
        assert agent.status.failure == ""

    def label(self) -> str | None:
        """What the Node says of its links."""
        metadata = self.admin.read_node(self.node).metadata
        return (metadata.labels or {}).get("gpu.topology/nvlink") if metadata else None

    def events(self, *actions: str) -> list[tuple[str, str]]:
        """Reason and note of the node's events, in their order; of these actions, or all."""
        found = EventsV1Api(self.admin.api_client).list_namespaced_event("default").items
        mine = [event for event in found if event.regarding and event.regarding.name == self.node]
        return sorted((each.reason or "", each.note or "") for each in mine if not actions or each.action in actions)

    def lines(self) -> list[dict[str, Any]]:
        """What agents have logged."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@contextmanager
def agent_site(plane: ControlPlane, directory: Path, permissions: tuple[Permission, ...]) -> Iterator[AgentSite]:
    """A new node, and an account with these permissions."""
    with plane.client() as client, ExitStack() as stack:
        admin = CoreV1Api(client)
        namespace = namespace_for_pods(admin, V1ObjectMeta(generate_name="agent-"))
        node = f"node-of-{namespace}"
        # Of an object that is created with nothing nobody tracks who writes it.
        labels = {"kubernetes.io/os": "linux", "kubernetes.io/hostname": node}
        admin.create_node(V1Node(metadata=V1ObjectMeta(name=node, labels=labels)))
        stack.callback(admin.delete_node, node)
        kubeconfig = permitted(admin, plane, namespace, "agent", permissions)
        yield AgentSite(plane, admin, namespace, node, kubeconfig, directory / "log", stack)


@contextmanager
def running_agent(
    site: AgentSite, library: Path, root: Path, *options: str
) -> Iterator[Callable[[played.Machine], None]]:
    """The program on eight H100; gives what has the driver show another machine from the next discovery on."""
    environment: Mapping[str, str] = environment_of(library, write_machine(played.hgx_h100(), root))
    command = [sys.executable, "-m", "webhook", "agent", "--node", site.node, "--namespace", site.namespace]
    command += ["--root", str(root), "--kubeconfig", str(site.kubeconfig), "--interval", "1"]
    command += ["--host", "127.0.0.1", *options]

    def play(machine: played.Machine) -> None:
        description = root / "next.txt"
        description.write_text("".join(f"{line}\n" for line in played.description_of(machine)))
        description.rename(root / "nvml.txt")

    with running("agent", command, site.log, environment) as program:
        yield play
        program.process.send_signal(signal.SIGTERM)
        assert program.process.wait(30) == 0
