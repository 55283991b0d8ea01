"""``gpu-topology demo``: the main job, end to end, on this machine.

Starts the webhook as its own process over TLS, sends every example workload through it, and shows what changed and why.
"""

import base64
import json
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import httpx
    from rich.console import Console

    from webhook.config import AdmitPolicy
    from webhook.state import State
    from webhook.workload import Injected

START_TIMEOUT_SECONDS = 30.0
SHOWN_IN_FULL = "02-fsdp-video-rayjob"


def demo(
    examples: Annotated[Path, typer.Option(help="Directory with state/ and workloads/.")] = Path("examples"),
    diff: Annotated[bool, typer.Option("--diff", help="Show every manifest before and after, not only one.")] = False,
) -> None:
    """Send the example workloads through a running webhook and show what becomes of them."""
    from rich.console import Console

    from webhook.cli.inputs import read_settings
    from webhook.model.errors import ManifestError
    from webhook.state.directory import load_directory

    files = sorted((examples / "workloads").glob("*.yaml"))
    if not files:
        raise ManifestError(
            f"{examples}: expected workloads/*.yaml. Run this in a checkout, or name one with --examples"
        )
    console = Console(highlight=False, soft_wrap=True)
    _, policy = read_settings(None)
    state = load_directory(examples / "state")
    with _webhook(examples / "state", console) as client:
        agreed = [_send(console, client, path, policy, state, diff) for path in files]
    pods = sum(map(len, agreed))
    same = sum(map(sum, agreed))
    console.print(f"\n[bold]{pods} pods of {len(files)} workloads[/] went through the webhook over TLS.")
    console.print(f"'gpu-topology inject' gives the same patch, byte for byte, for {same} of them.")
    if same != pods:
        raise typer.Exit(1)


@contextmanager
def _webhook(state: Path, console: "Console") -> "Iterator[httpx.Client]":
    """A running webhook and a client that trusts it; stopped at the end, whatever happens."""
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
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _wait_until_ready(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    import httpx

    from webhook.model.errors import GpuTopologyError

    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            if httpx.get(url).is_success:
                return
        except httpx.TransportError:
            time.sleep(0.02)
    raise GpuTopologyError(f"the webhook did not start:\n{log.read_text(errors='replace')}")


def _send(
    console: "Console", client: "httpx.Client", path: Path, policy: "AdmitPolicy", state: "State", diff: bool
) -> list[bool]:
    """Put one file through the webhook; says for each pod whether the server and the command line agree."""
    from rich.syntax import Syntax

    from webhook.cli.inject import unified_diff
    from webhook.workload import inject_manifest

    text = path.read_text(encoding="utf-8")
    injection = inject_manifest(text, path.name, policy, state)
    console.print()
    console.rule(f"[bold]{path.stem}", align="left", style="dim")
    console.print(_comment(text), style="dim italic")
    agreed = []
    for one in injection.templates:
        answer = _review(client, one)
        patch = base64.b64decode(answer.get("patch", ""))
        _print_answer(console, one, answer, json.loads(patch or "[]"))
        agreed.append(answer["allowed"] == one.outcome.allowed and patch == one.patch)
    if diff or path.stem == SHOWN_IN_FULL:
        console.print(Syntax(unified_diff(text, injection.text, path.name), "diff", background_color="default"))
    return agreed


def _review(client: "httpx.Client", one: "Injected") -> dict[str, Any]:
    """What the webhook answers when the API server asks it about this pod."""
    request = {
        "uid": str(uuid.uuid4()),
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": one.namespace,
        "operation": "CREATE",
        "object": json.loads(one.pod),
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    reply = client.post("/mutate/pods", json=review)
    reply.raise_for_status()
    response: dict[str, Any] = reply.json()["response"]
    return response


def _print_answer(
    console: "Console", one: "Injected", answer: dict[str, Any], operations: list[dict[str, Any]]
) -> None:
    from webhook.admit.steps import STEPS
    from webhook.cli.changes import describe
    from webhook.model.outcome import SENTENCES

    colour = {"skip": "cyan", "patch": "green", "degraded": "yellow", "refuse": "red"}[one.outcome.kind]
    console.print(f"[{colour} bold]{one.outcome.kind:>8}[/]  [bold]{one.label}[/]  {SENTENCES[one.outcome.reason]}")
    if not answer["allowed"]:
        console.print(f"          {answer['status']['message']}", style="red", markup=False)
    for warning in answer.get("warnings", []):
        console.print(f"          warning: {warning}", style="yellow", markup=False)
    for place, changes in describe(json.loads(one.pod), operations).items():
        console.print(f"          {place}", style="bold", markup=False)
        for change in changes:
            console.print(f"            {change}", markup=False)
    purposes = [step.purpose for step in STEPS if step.name in one.outcome.steps and step.name != "mark"]
    if purposes:
        console.print(f"          why: to {'; '.join(purposes)}", style="dim", markup=False)


def _comment(text: str) -> str:
    """The comment at the top of a file."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").strip())
    return " ".join(lines)
