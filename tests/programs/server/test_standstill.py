"""Probes do not wait for reviews, and notice when these wait for ever."""

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.ports import reserved_port
from tests.programs.server.conftest import DEADLINE_S, ROOT, RunningServer, until


class Standstill(RunningServer):
    """A server whose reviews read a FIFO, and so end when the test writes to it."""

    gate: Path

    def begin(self, pool: ThreadPoolExecutor) -> int:
        """Send a review; returns the other end of the FIFO, which exists once the loop waits for it."""
        url = f"{self.url}/mutate/pods"
        pool.submit(httpx.post, url, content=b"{}", verify=False, timeout=DEADLINE_S, trust_env=False)
        return os.open(self.gate, os.O_WRONLY)


@pytest.fixture(params=[2, 1000], ids=["2 s", "1000 s"])
def standstill(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Standstill]:
    """A server that may stand still for so long."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    with reserved_port() as port, reserved_port() as ops_port, (tmp_path / "out").open("wb") as out:
        command = [sys.executable, "-m", "tests.programs.server.standstill", str(gate), str(port), str(ops_port)]
        process = subprocess.Popen([*command, str(request.param)], stdout=out, stderr=out, cwd=ROOT)
        server = Standstill(process, port, ops_port, tmp_path / "ca", tmp_path / "out", tmp_path / "out")
        server.gate = gate
        try:
            until(server.is_ready, "readiness")
            yield server
        finally:
            process.kill()
            process.wait()


@pytest.mark.parametrize("standstill", [1000], indirect=True)
def test_probes_and_metrics_are_answered_while_a_review_holds_the_loop(standstill: Standstill) -> None:
    with ThreadPoolExecutor(1) as pool:
        gate = standstill.begin(pool)
        for path in ("/healthz", "/readyz", "/metrics"):
            assert standstill.probe(path).status_code == 200
        os.close(gate)


@pytest.mark.parametrize("standstill", [2], indirect=True)
def test_health_fails_when_the_loop_has_stood_still_for_long_and_comes_back_with_it(standstill: Standstill) -> None:
    with ThreadPoolExecutor(1) as pool:
        until(lambda: standstill.probe("/healthz").status_code == 200, "health")
        gate = standstill.begin(pool)
        until(lambda: standstill.probe("/healthz").status_code == 503, "the end of patience")
        assert "reviews have stood still for" in standstill.probe("/healthz").json()["status"]
        os.close(gate)
    until(lambda: standstill.probe("/healthz").status_code == 200, "health")
    until(lambda: standstill.lines("slow") != [], "the line")
    (line,) = standstill.lines("slow")
    assert (line["level"], line["path"], line["status"], line["bytes"]) == ("warning", "/mutate/pods", 200, 2)
    assert line["microseconds"] >= 1_000_000
    assert 'gpu_topology_slow_reviews_total{path="/mutate/pods"} 1.0' in standstill.probe("/metrics").text
