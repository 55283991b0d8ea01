"""The command ``demo``: its steps in their order."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

if TYPE_CHECKING:
    import httpx
    from rich.console import Console

    from webhook.cli.demo.admission import Shown
    from webhook.cli.demo.start import Driver
    from webhook.cluster.files.state import DirectoryState
    from webhook.decisions.configuration import AdmitPolicy
    from webhook.hardware.topology.model import Gpu

SHOWN_IN_FULL = "02-fsdp-video-rayjob"
NODE = "h20-node-1"
GOING_TO_THE_NODE = ("03-pd-prefill", "04-pd-decode", "08-pd-one-pod")
"""The workloads whose pods together fill the node."""


def demo(
    examples: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Directory with state/ and workloads/ instead of our own.")
    ] = None,
    driver: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Directory with a stand-in for the node's driver; 'make demo' in a checkout makes one."
        ),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Show what happens to every pod in full, not only to one of each kind.")
    ] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Show every manifest before and after; implies --all.")] = False,
) -> None:
    """Send the example workloads through a running webhook, bind some of their pods, and start them."""
    from rich.console import Console

    from webhook.cli.demo.admission import send_workload
    from webhook.cli.demo.examples import find_examples
    from webhook.cli.demo.placing import place_a_pod
    from webhook.cli.demo.process import running_webhook
    from webhook.cli.demo.start import Driver
    from webhook.cli.inputs import read_settings
    from webhook.cluster.files.state import DirectoryState
    from webhook.words.errors import ManifestError

    directory = examples or find_examples()
    files = sorted((directory / "workloads").glob("*.yaml"))
    if not files:
        raise ManifestError(f"{directory}: expected workloads/*.yaml. Name a directory that has them with --examples")
    console = Console(highlight=False, soft_wrap=True)
    played = Driver.read(driver) if driver else None
    detailed = every or diff
    _, policy = read_settings(None)
    with _copy(directory / "state") as copy:
        state = DirectoryState(copy)
        with running_webhook(copy, console) as client:
            agreed = [
                send_workload(console, client, path, policy, state, shown=_shown(path, detailed=detailed, diff=diff))
                for path in files
            ]
            stage = _Stage(console, client, copy, policy, state, played, detailed)
            right, started = _to_the_node(stage, files)
        right = place_a_pod(console, state, detailed=detailed) and right
    pods = sum(map(len, agreed))
    same = sum(map(sum, agreed))
    console.print(f"\n[bold]{pods} pods of {len(files)} workloads[/] went through the webhook over TLS.")
    console.print(f"'gpu-topology inject' gives the same patch, byte for byte, for {same} of them.")
    if started:
        console.print(started)
    if not detailed:
        console.print("What was done to each pod, and why: --all. Each manifest before and after: --diff.", style="dim")
    if same != pods or not right:
        raise typer.Exit(1)


@contextmanager
def _copy(state: Path) -> Iterator[Path]:
    """Copy the state directory, so that pods can be added to it as they are created."""
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory, "state")
        shutil.copytree(state, copy)
        (copy / "pods").mkdir(exist_ok=True)
        yield copy


class _Stage(NamedTuple):
    """The objects that pods need on their way to the node."""

    console: "Console"
    client: "httpx.Client"
    directory: Path
    policy: "AdmitPolicy"
    state: "DirectoryState"
    driver: "Driver | None"
    detailed: bool


def _shown(path: Path, *, detailed: bool, diff: bool) -> "Shown":
    """Return the amount of output about a workload."""
    from webhook.cli.demo.admission import Shown

    if diff or (detailed and path.stem == SHOWN_IN_FULL):
        return Shown.MANIFEST
    return Shown.CHANGES if detailed else Shown.OUTCOME


def _to_the_node(stage: _Stage, files: list[Path]) -> tuple[bool, str]:
    """Bind and start the pods of some workloads, and return whether all went well, with a summary."""
    from webhook.cli.demo.cluster import create_pods

    console, state = stage.console, stage.state
    node = state.node(NODE).published
    paths = [path for path in files if path.stem in GOING_TO_THE_NODE]
    if node is None or not paths:
        return True, ""
    console.print()
    console.rule(f"[bold]to the node {NODE}", align="left", style="dim")
    _say_what_is_played(console, stage.driver)
    free = list(node.topology.gpus)
    pods = [pod for path in paths for pod in create_pods(path, stage.policy, state)]
    right = [_start(stage, pod, free) for pod in pods]
    name = pods[0]["metadata"]["name"]
    stopped = _swapped(console, pods[0], free_card=node.topology.gpus[4], driver=stage.driver)
    if not (all(right) and stopped):
        return False, ""
    return True, f"[bold]{len(pods)} pods[/] started with their own cards; with one card swapped, {name} does not."


def _say_what_is_played(console: "Console", driver: "Driver | None") -> None:
    text = (
        "HAMi's scheduler, the API server and the kubelet are played here; the webhook and the remap program are real."
    )
    if driver:
        text += " The remap program finds a stand-in for the driver, in the place of libnvidia-ml.so.1."
    else:
        text += (
            " There is no stand-in for the driver, so the remap program works from the topology alone. Only a checkout "
            "has one: 'make demo' compiles it."
        )
    console.print(text, style="dim italic")


def _start(stage: _Stage, pod: dict[str, Any], free: list["Gpu"]) -> bool:
    """Allocate, bind and start one pod, and return whether it started."""
    import json

    from webhook.cli.demo.cluster import allocate, bind
    from webhook.cli.demo.start import print_started, run_remap
    from webhook.decisions.allocation.hami import DIALECT

    console, name = stage.console, pod["metadata"]["name"]
    allocate(pod, NODE, free)
    (stage.directory / "pods" / f"{name}.yaml").write_text(json.dumps(pod), encoding="utf-8")
    console.print(f"\n[bold]pod {name}[/]")
    if stage.detailed:
        console.print(f"          HAMi: {pod['metadata']['annotations'][DIALECT.key]}", markup=False)
    written = bind(stage.client, pod, NODE)
    if stage.detailed:
        _print_written(console, written)
    started = run_remap(pod, stage.driver)
    print_started(console, started, full=stage.detailed and len(pod["spec"]["containers"]) > 1)
    if stage.detailed:
        _print_variables(console, pod)
    return started.code == 0


def _print_written(console: "Console", written: dict[str, str]) -> None:
    console.print("          the Binding gets", style="bold")
    for key, value in written.items():
        text = value if len(value) <= 100 else f"{value[:100]}... ({len(value)} characters)"
        console.print(f"            annotation {key}: {text}", markup=False)


def _print_variables(console: "Console", pod: dict[str, Any]) -> None:
    from webhook.cli.demo.cluster import environment_of

    for container in pod["spec"]["containers"]:
        variables = environment_of(container, pod)
        ours = [f"{key}={variables[key]}" for key in _SHOWN if variables.get(key)]
        if ours:
            console.print(f"          container {container['name']} starts with {' '.join(ours)}", markup=False)


_SHOWN = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "NCCL_P2P_LEVEL", "NCCL_NVLS_ENABLE", "NCCL_HOSTID")


def _swapped(console: "Console", pod: dict[str, Any], *, free_card: "Gpu", driver: "Driver | None") -> bool:
    """Start a pod again with another card in place of one of its own, and return whether it refuses to run."""
    from webhook.cli.demo.start import print_started, run_remap
    from webhook.decisions.allocation.hami import DIALECT
    from webhook.programs.remap.verdict import ExitCode

    name = pod["metadata"]["name"]
    annotations = pod["metadata"]["annotations"]
    own = annotations[DIALECT.key].split(",", 1)[0]
    console.print(f"\n[bold]pod {name}, had HAMi given it {free_card.uuid} instead of {own}[/]")
    changed = {**pod, "metadata": {**pod["metadata"]}}
    changed["metadata"]["annotations"] = {
        **annotations,
        DIALECT.key: annotations[DIALECT.key].replace(own, free_card.uuid),
    }
    started = run_remap(changed, driver)
    print_started(console, started, full=False)
    return started.code == ExitCode.OTHER_GPUS
