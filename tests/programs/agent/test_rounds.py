"""Rounds go on whatever happens: an API server that is away, a machine that surprises us, a bug of ours."""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.hardware.topology.machines import hgx_h100, with_switch_links
from tests.programs.agent.looks import driver_away, nowhere
from tests.programs.agent.waking import wake
from webhook.hardware.topology.model import NodeTopology
from webhook.programs.agent.log import AgentLog
from webhook.programs.agent.publication import PublishOptions
from webhook.programs.agent.rounds import Agent, Clock
from webhook.programs.agent.run import connect_agent
from webhook.programs.agent.status import Count


@dataclass
class World:
    """Where an agent lives: its time, its machine, and an API server that is away."""

    kubeconfig: Path
    log: Path
    seconds: float = 1000.0
    machine: Callable[[], NodeTopology] = hgx_h100
    open_door: Callable[[], object] = dict
    """Happens before each connection."""
    connections: int = 0
    descriptors: list[int] = field(default_factory=list)

    def agent(self) -> Agent:
        descriptor = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.descriptors.append(descriptor)
        return Agent(
            "hgx-h100",
            PublishOptions(namespace="gpu-topology"),
            interval=60.0,
            discover=self._discover,
            connect=self._connect,
            log=AgentLog(descriptor, node="hgx-h100"),
            clock=Clock(
                monotonic=lambda: self.seconds, now=lambda: datetime(2026, 11, 20, tzinfo=UTC), jitter=lambda: 0.5
            ),
        )

    def _discover(self) -> NodeTopology:
        return self.machine()

    def _connect(self) -> Any:
        self.connections += 1
        self.open_door()
        return connect_agent(self.kubeconfig)

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@pytest.fixture
def world(tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(nowhere(f"https://127.0.0.1:{port}")))
    found = World(kubeconfig, tmp_path / "log")
    yield found
    for descriptor in found.descriptors:
        os.close(descriptor)


def surprising() -> NodeTopology:
    raise ZeroDivisionError("an odd GPU")


def test_an_api_server_that_is_away_is_asked_again_after_some_seconds(world: World) -> None:
    agent = world.agent()
    assert wake(agent) == pytest.approx(3.0)
    assert agent.status.failure.startswith("get node hgx-h100: https://127.0.0.1:")
    assert agent.status.count(Count.API_ERRORS) == {"away": 1}
    assert agent.status.count(Count.ERRORS) == {"api": 1}
    assert not agent.status.in_step


def test_what_was_discovered_is_known_although_it_cannot_be_published(world: World) -> None:
    agent = world.agent()
    wake(agent)
    assert agent.status.look is not None
    assert agent.status.look.topology == hgx_h100()
    assert agent.status.confirmed_at == 1000.0
    assert agent.status.busy_since is None


def test_the_waits_grow_and_discovery_keeps_its_interval(world: World) -> None:
    agent = world.agent()
    waits = []
    for _ in range(8):
        waits.append(wake(agent))
        world.seconds += waits[-1]
    # Retries 3, 6, 12, 24 and 48 s after each other; at 1060 and 1120 s only a discovery.
    assert waits == pytest.approx([3.0, 6.0, 12.0, 24.0, 15.0, 33.0, 27.0, 60.0])
    assert agent.status.count(Count.DISCOVERIES) == {"complete": 3}
    assert agent.status.count(Count.API_ERRORS) == {"away": 6}


def test_each_retry_makes_a_new_connection(world: World) -> None:
    agent = world.agent()
    for _ in range(3):
        world.seconds += wake(agent)
    assert world.connections == 3


def test_a_change_that_cannot_be_published_is_seen_all_the_same(world: World) -> None:
    agent = world.agent()
    wake(agent)
    world.machine = partial(with_switch_links, hgx_h100(), 3, 12)
    world.seconds += 60.0
    wake(agent)
    assert agent.status.look is not None
    assert agent.status.look.health.state == "degraded"
    discovered = [line for line in world.lines() if line["message"] == "discovered"]
    assert [line["state"] for line in discovered] == ["healthy", "degraded"]


def test_what_stays_the_same_is_not_logged_again(world: World) -> None:
    agent = world.agent()
    wake(agent)
    world.seconds += 60.0
    wake(agent)
    messages = [line["message"] for line in world.lines()]
    assert messages == ["discovered", "failed", "failed"]


def test_a_failure_is_one_line_with_the_reason_and_the_wait(world: World) -> None:
    wake(world.agent())
    line = world.lines()[-1]
    assert line["node"] == "hgx-h100"
    assert line["kind"] == "api"
    assert line["error"].startswith("get node hgx-h100: https://127.0.0.1:")
    assert line["retrySeconds"] == 3.0


def test_a_machine_that_surprises_us_ends_nothing(world: World) -> None:
    world.machine = surprising
    agent = world.agent()
    assert wake(agent) == pytest.approx(60.0)
    assert world.connections == 0
    (line,) = world.lines()
    assert line["message"] == "bug"
    assert "Traceback (most recent call last)" in line["error"]
    assert "ZeroDivisionError: an odd GPU" in line["error"]
    assert agent.status.count(Count.DISCOVERIES) == {"bug": 1}
    assert agent.status.count(Count.ERRORS) == {"bug": 1}
    assert "should not be possible" in agent.status.failure


def test_after_a_surprise_nothing_old_is_published(world: World) -> None:
    agent = world.agent()
    wake(agent)
    world.machine = surprising
    world.seconds += 60.0
    wake(agent)
    assert agent.status.look is None
    assert world.connections == 1


def test_after_a_surprise_rounds_go_on(world: World) -> None:
    world.machine = surprising
    agent = world.agent()
    wake(agent)
    world.machine = hgx_h100
    world.seconds += 60.0
    wake(agent)
    assert agent.status.look is not None
    assert agent.status.count(Count.DISCOVERIES) == {"bug": 1, "complete": 1}


def test_a_topology_that_contradicts_itself_is_a_problem_and_no_surprise(world: World) -> None:
    first = hgx_h100().gpus[0]
    world.machine = lambda: replace(hgx_h100(), gpus=(first, first))
    agent = world.agent()
    wake(agent)
    assert agent.status.look is not None
    assert "expected each index of a GPU once" in agent.status.look.topology.problem
    assert agent.status.count(Count.DISCOVERIES) == {"problem": 1}


def test_a_driver_that_is_away_is_counted_as_a_problem(world: World) -> None:
    world.machine = lambda: driver_away(hgx_h100())
    agent = world.agent()
    wake(agent)
    assert agent.status.count(Count.DISCOVERIES) == {"problem": 1}


def test_a_kubeconfig_that_went_away_ends_nothing(world: World) -> None:
    world.kubeconfig.unlink()
    agent = world.agent()
    assert wake(agent) == pytest.approx(3.0)
    assert str(world.kubeconfig) in agent.status.failure
    assert agent.status.count(Count.ERRORS) == {"configuration": 1}


def test_a_bug_while_publishing_is_retried_later(world: World) -> None:
    world.open_door = surprising
    agent = world.agent()
    assert wake(agent) == pytest.approx(3.0)
    assert agent.status.count(Count.ERRORS) == {"bug": 1}
    assert agent.status.look is not None
    assert [line["message"] for line in world.lines()] == ["discovered", "bug"]


def test_a_kubeconfig_with_a_nonsensical_server_ends_nothing(world: World) -> None:
    world.kubeconfig.write_text(json.dumps(nowhere("https://[nonsense")))
    agent = world.agent()
    assert wake(agent) == pytest.approx(3.0)
    assert agent.status.failure == f"{world.kubeconfig}: expected a kubeconfig: Invalid IPv6 URL"


def test_nobody_who_reads_the_log_stops_nothing(world: World) -> None:
    agent = world.agent()
    agent._log = AgentLog(-1, node="hgx-h100")  # noqa: SLF001 - a closed descriptor
    assert wake(agent) == pytest.approx(3.0)
