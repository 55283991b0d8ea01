"""The planner, beside a cluster with HAMi."""

import json
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.control_plane.control_plane import REQUEST_TIMEOUT_S
from tests.control_plane.installation import NAMESPACE, Installation
from tests.control_plane.processes import DEADLINE_S, Program, running
from tests.ports import reserved_port
from tests.programs.server.conftest import until

ALIVE = "gpu_topology_planner_alive"


@dataclass(frozen=True)
class Planner:
    """One replica that runs."""

    program: Program
    port: int

    def metrics(self) -> list[str]:
        """What it exposes, by lines."""
        url = f"http://127.0.0.1:{self.port}/metrics"
        return httpx.get(url, timeout=REQUEST_TIMEOUT_S, trust_env=False).text.splitlines()

    def leads(self) -> bool:
        """Whether it decides."""
        return "gpu_topology_planner_leader 1.0" in self.metrics()

    def kill(self) -> None:
        """As the kernel does it, without a word."""
        self.program.process.kill()
        self.program.process.wait()

    def stop(self) -> None:
        """As the kubelet does it."""
        self.program.process.send_signal(signal.SIGTERM)
        self.program.process.wait(DEADLINE_S)


@contextmanager
def running_planner(
    ours: Installation,
    directory: Path,
    name: str = "planner",
    *,
    settings: Mapping[str, int] | None = None,
    options: Sequence[str | Path] = (),
    environment: Mapping[str, str] | None = None,
) -> Iterator[Planner]:
    """One replica, from the moment on when it is ready; stopped in the end, so that pods wait no more.

    Args:
        ours: Whose configuration it has.
        directory: Takes its log.
        name: Of the replica.
        settings: Of the section ``placement``, where it has others than the webhook.
        options: More of the command line.
        environment: Its variables; those of this process if there are none.
    """
    with ExitStack() as stack:
        port = stack.enter_context(reserved_port())
        config = json.loads((ours.directory / "config.yaml").read_text(encoding="utf-8"))
        config["placement"] |= settings or {}
        file = directory / f"{name}.yaml"
        file.write_text(json.dumps(config), encoding="utf-8")
        command: list[str | Path] = [sys.executable, "-m", "webhook", "place", "--namespace", NAMESPACE]
        command += ["--config", file, "--kubeconfig", ours.planner]
        command += ["--pod-name", name, "--host", "127.0.0.1", "--port", str(port), *options]
        program = stack.enter_context(running(name, command, directory / f"{name}.log", environment))
        planner = Planner(program, port)
        program.wait_until(lambda: is_ready(port))
        yield planner
        if program.process.poll() is None:
            planner.stop()


@contextmanager
def placing(
    ours: Installation,
    directory: Path,
    *,
    settings: Mapping[str, int] | None = None,
    options: Sequence[str | Path] = (),
) -> Iterator[Planner]:
    """A planner that leads, and a webhook that has pods wait for it; the rest as in :func:`running_planner`."""
    with running_planner(ours, directory, settings=settings, options=options) as planner:
        planner.program.wait_until(planner.leads)
        until(lambda: holds_pods_back(ours), "pods that wait for the planner")
        yield planner
    until(lambda: lets_pods_go(ours), "pods that wait for no planner")


def holds_pods_back(ours: Installation) -> bool:
    """Whether pods of several cards wait for the planner, whichever replica of the webhook is asked about them."""
    return all(_hopes(ours))


def lets_pods_go(ours: Installation) -> bool:
    """Whether no pod waits for a planner, whichever replica of the webhook is asked about it.

    A pod with ``on-violation: deny`` that one of them had wait would do so for ever.
    """
    return not any(_hopes(ours))


def _hopes(ours: Installation) -> list[bool]:
    """Whether each replica takes a planner for alive."""
    return [f"{ALIVE} 1.0" in lines for lines in ours.metrics()]


def is_ready(port: int) -> bool:
    """Whether the program at this port says so at ``/readyz``."""
    try:
        url = f"http://127.0.0.1:{port}/readyz"
        return httpx.get(url, timeout=REQUEST_TIMEOUT_S, trust_env=False).status_code == httpx.codes.OK
    except httpx.TransportError:
        return False
