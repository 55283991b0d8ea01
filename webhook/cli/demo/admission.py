"""The creation of the example pods, with the reviews that the API server would send, and the answers."""

import base64
import enum
import json
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx
    from rich.console import Console

    from webhook.cli.workload import Injected
    from webhook.cluster.files.directory import DirectoryState
    from webhook.decisions.configuration import AdmitPolicy


class Shown(enum.Enum):
    """The amount of output about a workload."""

    OUTCOME = enum.auto()
    """One line for each pod."""
    CHANGES = enum.auto()
    """The purpose of the workload, and the changes of each pod."""
    MANIFEST = enum.auto()
    """Also the manifest before and after."""


def send_workload(
    console: "Console",
    client: "httpx.Client",
    path: Path,
    policy: "AdmitPolicy",
    state: "DirectoryState",
    *,
    shown: Shown,
) -> list[bool]:
    """Send one file through the webhook, and return for each pod whether the server and the command line agree."""
    from rich.syntax import Syntax

    from webhook.cli.inject import unified_diff
    from webhook.cli.workload import inject_manifest

    text = path.read_text(encoding="utf-8")
    injection = inject_manifest(text, path.name, policy, state)
    if shown is not Shown.OUTCOME:
        console.print()
        console.rule(f"[bold]{path.stem}", align="left", style="dim")
        console.print(_comment(text), style="dim italic")
    agreed = []
    for template in injection.templates:
        answer = _review(client, template)
        patch = base64.b64decode(answer.get("patch", ""))
        if shown is Shown.OUTCOME:
            _print_outcome(console, template, path.stem)
        else:
            _print_answer(console, template, answer, json.loads(patch or "[]"))
        agreed.append(answer["allowed"] == template.outcome.allowed and patch == template.patch)
    if shown is Shown.MANIFEST:
        console.print(
            Syntax(unified_diff(injection.before, injection.text, path.name), "diff", background_color="default")
        )
    return agreed


def _review(client: "httpx.Client", injected: "Injected") -> dict[str, Any]:
    """Return the webhook's answer to the API server's review of this pod."""
    request = {
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": injected.namespace,
        "operation": "CREATE",
        "object": json.loads(injected.pod),
    }
    return review(client, "/mutate/pods", request)


def review(client: "httpx.Client", path: str, request: dict[str, Any]) -> dict[str, Any]:
    """Return the ``response`` of the webhook to a review with this ``request``."""
    document = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {"uid": str(uuid.uuid4())} | request,
    }
    reply = client.post(path, json=document)
    reply.raise_for_status()
    response: dict[str, Any] = reply.json()["response"]
    return response


def _print_outcome(console: "Console", injected: "Injected", name: str) -> None:
    from webhook.words.outcome import SENTENCES

    outcome = injected.outcome
    colour = {"skip": "cyan", "patch": "green", "degraded": "yellow", "refuse": "red"}[outcome.kind]
    console.print(f"[{colour} bold]{outcome.kind:>8}[/]  [bold]{name}[/]  {SENTENCES[outcome.reason]}")


def _print_answer(
    console: "Console", injected: "Injected", answer: dict[str, Any], operations: list[dict[str, Any]]
) -> None:
    from webhook.cli.changes import describe
    from webhook.decisions.admit.steps import STEPS

    _print_outcome(console, injected, injected.label)
    if not answer["allowed"]:
        console.print(f"          {answer['status']['message']}", style="red", markup=False)
    for warning in answer.get("warnings", []):
        console.print(f"          warning: {warning}", style="yellow", markup=False)
    for place, changes in describe(json.loads(injected.pod), operations).items():
        console.print(f"          {place}", style="bold", markup=False)
        for change in changes:
            console.print(f"            {change}", markup=False)
    purposes = [step.purpose for step in STEPS if step.name in injected.outcome.steps and step.name != "mark"]
    if purposes:
        console.print(f"          why: to {'; '.join(purposes)}", style="dim", markup=False)


def _comment(text: str) -> str:
    """Return the comment at the top of a file."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").strip())
    return " ".join(lines)
