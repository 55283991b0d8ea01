"""Real servers: the program itself in a process of its own, with TLS, on free ports of this machine."""

import json
import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.pods import Manifest
from tests.ports import reserved_port

ROOT = Path(__file__).parents[3]
EXAMPLE_STATE = ROOT / "examples" / "state"
DEADLINE_S = 120.0
"""Nothing is waited for so long, but on a machine that stands still in between."""

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For requests in the clear: a context of httpx's own reads the authorities of the whole web, for each request."""


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait until ``condition`` holds; fails after the deadline."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {DEADLINE_S} s"
        time.sleep(0.01)


@dataclass
class RunningServer:
    """A server process and where to reach it."""

    process: subprocess.Popen[bytes]
    port: int
    ops_port: int
    authority: Path
    out: Path
    err: Path

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.authority))

    def client(self) -> httpx.Client:
        return httpx.Client(verify=self.context(), base_url=self.url, timeout=DEADLINE_S, trust_env=False)

    def probe(self, path: str) -> httpx.Response:
        url = f"http://127.0.0.1:{self.ops_port}{path}"
        return httpx.get(url, verify=NO_TLS, timeout=DEADLINE_S, trust_env=False)

    def is_ready(self) -> bool:
        assert self.process.poll() is None, self.err.read_text()
        try:
            return self.probe("/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def lines(self, *messages: str) -> list[Manifest]:
        """What it has logged so far; only lines with one of these messages, if any are given."""
        complete = self.out.read_bytes().rpartition(b"\n")[0].splitlines()
        found: list[Manifest] = [json.loads(line) for line in complete]
        return [line for line in found if not messages or line["message"] in messages]

    def answers(self) -> bool:
        """Whether it listens, ready or not."""
        assert self.process.poll() is None, self.err.read_text()
        try:
            return self.probe("/healthz").status_code == 200
        except httpx.TransportError:
            return False

    def stop(self, how: signal.Signals) -> int:
        """Send the signal and wait for the end; returns the exit code."""
        self.process.send_signal(how)
        return self.process.wait(DEADLINE_S)


StartServer = Callable[..., RunningServer]


class Starter:
    """Starts servers and ends those that a test leaves running."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._servers: list[RunningServer] = []
        self._ports = ExitStack()

    def __call__(
        self, *arguments: str, state: Path = EXAMPLE_STATE, config: str = "", ready: bool = True, managed: bool = False
    ) -> RunningServer:
        base = self._directory / str(len(self._servers))
        base.mkdir()
        if config:
            (base / "config.yaml").write_text(config)
            arguments = (*arguments, "--config", str(base / "config.yaml"))
        if "--tls" not in arguments and not managed:
            arguments = (*arguments, "--self-signed", "--ca-file", str(base / "ca.crt"))
        port, ops_port = (self._ports.enter_context(reserved_port()) for _ in range(2))
        command = [sys.executable, "-m", "webhook", "serve", "--state", str(state), "--host", "127.0.0.1"]
        command += ["--port", str(port), "--ops-port", str(ops_port), *arguments]
        with (base / "out").open("wb") as out, (base / "err").open("wb") as err:
            pod = {"POD_NAME": f"webhook-{len(self._servers)}"} if managed else {}
            process = subprocess.Popen(command, stdout=out, stderr=err, cwd=ROOT, env=os.environ | pod)
        server = RunningServer(process, port, ops_port, base / "ca.crt", base / "out", base / "err")
        self._servers.append(server)
        if ready:
            until(server.is_ready, "readiness")
        else:
            until(server.answers, "probes")
        return server

    def stop_all(self) -> None:
        for server in self._servers:
            if server.process.poll() is None:
                server.process.kill()
                server.process.wait(DEADLINE_S)
        self._ports.close()


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[StartServer]:
    """Starts a server with these arguments, state and configuration text."""
    starter = Starter(tmp_path)
    try:
        yield starter
    finally:
        starter.stop_all()


@pytest.fixture(scope="session")
def example_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """One server with the example state, for tests that only ask."""
    starter = Starter(tmp_path_factory.mktemp("server"))
    try:
        yield starter()
    finally:
        starter.stop_all()


@pytest.fixture
def client(example_server: RunningServer) -> Iterator[httpx.Client]:
    """A keep-alive client of the server with the example state."""
    with example_server.client() as connected:
        yield connected
