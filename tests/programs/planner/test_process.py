"""``gpu-topology place`` as a kubelet runs it, against the stand-in for the API server."""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.command import Done, gpu_topology
from tests.cluster.api.stand_in import Line, Received, kubeconfig, serving, status
from tests.programs.planner.server import LEASE, OWN, PlacingServer, pod
from tests.programs.planner.site import until
from tests.programs.server.conftest import NO_TLS

ROOT = Path(__file__).parents[3]
PLAIN = {"POD_NAMESPACE": "", "POD_NAME": "planner-7", "COLUMNS": "200", "PYTHONDONTWRITEBYTECODE": "1"}
SWITCHED_OFF = "placement: {mode: off}\n"


@dataclass
class Running:
    """A planner, and where it says something."""

    process: Process
    url: str
    out: Path
    err: Path

    def lines(self, message: str) -> list[dict[str, Any]]:
        found = [json.loads(line) for line in self.out.read_text().splitlines()]
        return [line for line in found if line["message"] == message]

    async def get(self, path: str) -> httpx.Response:
        async with httpx.AsyncClient(verify=NO_TLS, trust_env=False) as client:
            return await client.get(self.url + path)

    async def leads(self) -> None:
        await until(lambda: self.lines("leading"), self.err.read_text)


@asynccontextmanager
async def running(tmp_path: Path, server: PlacingServer, port: int, config: str) -> AsyncIterator[Running]:
    out, err = tmp_path / "out", tmp_path / "err"
    (tmp_path / "config.yaml").write_text(config)
    async with serving(server.turn) as stand_in:
        access = kubeconfig(tmp_path / "kubeconfig", f"http://127.0.0.1:{stand_in.port}")
        options = ["--kubeconfig", str(access), "--namespace", OWN, "--config", str(tmp_path / "config.yaml")]
        with out.open("wb") as to_out, err.open("wb") as to_err:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "webhook", "place", *options, "--host", "127.0.0.1", "--port", str(port)),
                cwd=ROOT,
                env={**os.environ, **PLAIN},
                stdout=to_out,
                stderr=to_err,
            )
        try:
            yield Running(process, f"http://127.0.0.1:{port}", out, err)
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)])
def test_a_planner_leads_opens_gates_answers_probes_and_gives_the_lease_back_at_the_end(
    tmp_path: Path, port: int, number: signal.Signals
) -> None:
    async def test() -> None:
        server = PlacingServer()
        server.put_pod("team-a/one", pod("one"))
        async with running(tmp_path, server, port, SWITCHED_OFF) as planner:
            await until(lambda: server.pod("team-a/one")["spec"]["schedulingGates"] == [], planner.err.read_text)
            assert server.lease["holderIdentity"].startswith("planner-7_")
            assert (await planner.get("/readyz")).json() == {"status": "ready"}
            assert (await planner.get("/healthz")).json() == {"status": "ok"}
            metrics = (await planner.get("/metrics")).text
            assert "gpu_topology_planner_leader 1.0" in metrics
            assert 'gpu_topology_placements_total{result="released"} 1.0' in metrics
            planner.process.send_signal(number)
            assert await planner.process.wait() == 0
            assert (server.lease["holderIdentity"], server.writes[-1]) == ("", f"PUT {LEASE}")
            assert [line["signal"] for line in planner.lines("stopping")] == [number.name]
            assert planner.lines("stopped")
            assert planner.err.read_text() == ""

    asyncio.run(test())


def test_a_planner_without_rights_is_alive_not_ready_and_ends_when_it_is_told_to(tmp_path: Path, port: int) -> None:
    async def test() -> None:
        server = PlacingServer(refuse=lambda _: 403)
        async with running(tmp_path, server, port, "") as planner:
            await until(lambda: any("no (403)" in line["text"] for line in planner.lines("state")))
            answer = await planner.get("/readyz")
            assert answer.status_code == 503
            assert answer.json()["status"].startswith("waiting for namespaces, nodes, configmaps, leases, pods (")
            assert (await planner.get("/healthz")).status_code == 200
            assert server.lease == {}
            planner.process.terminate()
            assert await planner.process.wait() == 0

    asyncio.run(test())


@pytest.mark.long
def test_a_planner_ends_although_the_api_server_no_longer_answers(tmp_path: Path, port: int) -> None:
    async def test() -> None:
        server = PlacingServer()
        async with running(tmp_path, server, port, SWITCHED_OFF) as planner:
            await planner.leads()
            server.before = lambda *_: True  # from now on nothing is answered
            server.put_pod("team-a/one", pod("one"))
            await until(lambda: any(one.startswith("PATCH") for one in server.writes))
            planner.process.terminate()
            assert await planner.process.wait() == 0
            assert planner.lines("stopped")

    asyncio.run(test())


def test_a_planner_loads_no_web_framework() -> None:
    imports = "import sys; import webhook.programs.planner.run, webhook.programs.planner.decisions"
    code = f"{imports}; print(*sorted(sys.modules))"

    async def test() -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", code, cwd=ROOT, stdout=asyncio.subprocess.PIPE
        )
        out, _ = await process.communicate()
        loaded = set(out.decode().split())
        assert "webhook.programs.planner.run" in loaded
        assert not loaded & {"fastapi", "starlette", "pydantic", "kubernetes"}

    asyncio.run(test())


def test_release_prints_what_it_did_and_names_what_it_could_not_do(tmp_path: Path) -> None:
    async def test() -> None:
        server = PlacingServer()
        for name in ("good", "bad"):
            server.put_pod(f"team-a/{name}", pod(name))

        def forbid(request: Received, line: Line) -> bool:
            if request.method == "PATCH" and "/bad" in request.target:
                line.say(status(403, "no"), "403 Forbidden")
                return True
            return False

        server.before = forbid
        async with serving(server.turn) as stand_in:
            access = str(kubeconfig(tmp_path / "kubeconfig", f"http://127.0.0.1:{stand_in.port}"))

            async def release() -> Done:
                return await asyncio.to_thread(gpu_topology, "place", "release", "--all", "--kubeconfig", access)

            done = await release()
            assert (done.code, done.err) == (1, "gpu-topology: pod team-a/bad: patch pod team-a/bad: no (403)\n")
            rows = [line.split() for line in done.out.splitlines()]
            assert rows == [
                ["NAMESPACE", "POD", "DONE"],
                ["team-a", "bad", "no"],
                ["team-a", "good", "gate", "opened"],
            ]
            server.before = lambda *_: False
            assert (await release()).code == 0
            assert await release() == Done(0, "no pod waits for its cards or is pinned to some\n", "")

    asyncio.run(test())


@pytest.mark.parametrize(
    ("arguments", "said"), [(("release",), "expected --all"), ((), "expected a name, or the variable POD_NAMESPACE")]
)
def test_wrong_usage_ends_with_2(arguments: tuple[str, ...], said: str) -> None:
    done = gpu_topology("place", *arguments)
    assert done.code == 2
    assert said in " ".join(done.err.replace("│", " ").split())
