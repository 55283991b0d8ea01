"""The webhook as its own process."""

import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx
    from rich.console import Console

START_TIMEOUT_SECONDS = 30.0


@contextmanager
def running_webhook(state: Path, console: "Console") -> "Iterator[httpx.Client]":
    """Run a webhook, and yield a client that trusts it. The webhook is stopped at the end in any case."""
    import httpx

    from certs.bundle import authority_context

    with tempfile.TemporaryDirectory() as directory:
        authority = Path(directory, "ca.crt")
        port, ops_port = _free_ports(2)
        arguments = ["--state", str(state), "--self-signed", "--ca-file", str(authority), "--host", "127.0.0.1"]
        ports = ["--port", str(port), "--ops-port", str(ops_port)]
        command = [sys.executable, "-m", "webhook", "serve", *arguments, *ports]
        with Path(directory, "log").open("w+b") as log:
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)  # noqa: S603 - ourselves
            try:
                _wait_until_ready(process, f"http://127.0.0.1:{ops_port}/readyz", Path(directory, "log"))
                console.print(f"[dim]webhook (pid {process.pid}) answers on https://127.0.0.1:{port}[/]")
                context = authority_context(authority.read_bytes())
                with httpx.Client(base_url=f"https://127.0.0.1:{port}", verify=context, timeout=10) as client:
                    yield client
            finally:
                process.send_signal(signal.SIGINT)  # SIGTERM would drain first
                process.wait()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in sockets]
    for listener in sockets:
        listener.close()
    return ports


def _wait_until_ready(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    import httpx

    from webhook.words.errors import GpuTopologyError

    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            if httpx.get(url).is_success:
                return
        except httpx.TransportError:
            time.sleep(0.02)
    raise GpuTopologyError(f"the webhook did not start:\n{log.read_text(errors='replace')}")
