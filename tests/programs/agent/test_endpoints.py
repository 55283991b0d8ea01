"""What probes and Prometheus are told."""

import json
from dataclasses import replace
from http import HTTPStatus

import pytest

from tests.hardware.topology.machines import hgx_h100
from tests.programs.agent.looks import look
from webhook.programs.agent.endpoints import agent_endpoints
from webhook.programs.agent.log import AgentLog
from webhook.programs.agent.status import Status

WELL = Status(confirmed_at=0.0, look=look(hgx_h100()), in_step=True, failure="")


def answer(
    path: str, status: Status = WELL, *, now: float = 1000.0, alive: bool = True, accept: str = ""
) -> tuple[int, str]:
    endpoints = agent_endpoints("node-1", lambda: status, lambda: now, lambda: alive, AgentLog(-1, node="node-1"))
    code, _, body = endpoints.answer(path, accept)
    return code, body.decode()


def said(path: str, status: Status = WELL, *, now: float = 1000.0, alive: bool = True) -> tuple[int, str]:
    code, body = answer(path, status, now=now, alive=alive)
    return code, json.loads(body)["status"]


def test_an_agent_that_has_published_is_ready() -> None:
    assert said("/readyz") == (HTTPStatus.OK, "ready")


def test_an_agent_is_not_ready_before_it_has_published() -> None:
    assert said("/readyz", Status(confirmed_at=0.0)) == (503, "nothing is published yet")


def test_readiness_says_why_the_cluster_is_out_of_step() -> None:
    reason = "get node node-1: the API server cannot be reached"
    assert said("/readyz", replace(WELL, failure=reason)) == (503, reason)


@pytest.mark.parametrize("busy_since", [None, 999.0, 701.0])
def test_an_agent_between_and_in_rounds_is_healthy(busy_since: float | None) -> None:
    assert said("/healthz", replace(WELL, busy_since=busy_since)) == (200, "ok")


def test_an_agent_that_cannot_publish_is_healthy() -> None:
    assert said("/healthz", replace(WELL, failure="the API server cannot be reached"))[0] == 200


def test_an_agent_that_hangs_in_a_driver_is_not_healthy() -> None:
    assert said("/healthz", replace(WELL, busy_since=600.0)) == (503, "a round takes longer than 300 s")


def test_an_agent_without_rounds_is_not_healthy() -> None:
    assert said("/healthz", alive=False) == (503, "no more rounds are made")


@pytest.mark.parametrize("path", ["/metrics", "/metrics?name[]=x"])
def test_metrics_are_text(path: str) -> None:
    code, body = answer(path)
    assert code == 200
    assert 'gpu_topology_health{node="node-1",state="healthy"} 1.0' in body


def test_metrics_are_open_metrics_for_who_asks() -> None:
    _, body = answer("/metrics", accept="application/openmetrics-text; version=1.0.0")
    assert body.endswith("# EOF\n")


def test_other_paths_do_not_exist() -> None:
    code, body = answer("/")
    assert (code, json.loads(body)) == (404, {"error": "expected /metrics, /healthz or /readyz"})
