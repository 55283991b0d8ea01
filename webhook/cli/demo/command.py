"""The command: its steps in their order."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import httpx
    from rich.console import Console

    from webhook.cli.demo.start import Driver
    from webhook.config import AdmitPolicy
    from webhook.state.directory import DirectoryState
    from webhook.topology.model import Gpu

SHOWN_IN_FULL = "02-fsdp-video-rayjob"
NODE = "h20-node-1"
GOING_TO_THE_NODE = ("03-pd-prefill", "04-pd-decode", "08-pd-one-pod")
"""Workloads whose pods together fill the node."""


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
    diff: Annotated[bool, typer.Option("--diff", help="Show every manifest before and after, not only one.")] = False,
) -> None:
    """Send the example workloads through a running webhook, bind some of their pods, and start them."""
    from rich.console import Console

    from webhook.cli.demo.admission import send_workload
    from webhook.cli.demo.examples import find_examples
    from webhook.cli.demo.placing import place_a_pod
    from webhook.cli.demo.process import running_webhook
    from webhook.cli.demo.start import Driver
    from webhook.cli.inputs import read_settings
    from webhook.model.errors import ManifestError
    from webhook.state.directory import load_directory

    directory = examples or find_examples()
    files = sorted((directory / "workloads").glob("*.yaml"))
    if not files:
        raise ManifestError(f"{directory}: expected workloads/*.yaml. Name a directory that has them with --examples")
    console = Console(highlight=False, soft_wrap=True)
    played = Driver.read(driver) if driver else None
    _, policy = read_settings(None)
    with _copy(directory / "state") as copy:
        state = load_directory(copy)
        with running_webhook(copy, console) as client:
            agreed = [
                send_workload(console, client, path, policy, state, diff=diff or path.stem == SHOWN_IN_FULL)
                for path in files
            ]
            right = _to_the_node(console, client, copy, files, policy, state, played)
        right = place_a_pod(console, state) and right
    pods = sum(map(len, agreed))
    same = sum(map(sum, agreed))
    console.print(f"\n[bold]{pods} pods of {len(files)} workloads[/] went through the webhook over TLS.")
    console.print(f"'gpu-topology inject' gives the same patch, byte for byte, for {same} of them.")
    if same != pods or not right:
        raise typer.Exit(1)


@contextmanager
def _copy(state: Path) -> Iterator[Path]:
    """A copy of the state directory, to which pods are added as they are created."""
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory, "state")
        shutil.copytree(state, copy)
        (copy / "pods").mkdir(exist_ok=True)
        yield copy


def _to_the_node(  # noqa: PLR0913, PLR0917 - the world of the demo
    console: "Console",
    client: "httpx.Client",
    directory: Path,
    files: list[Path],
    policy: "AdmitPolicy",
    state: "DirectoryState",
    driver: "Driver | None",
) -> bool:
    """Bind and start the pods of some workloads; says whether everything went as it should."""
    from webhook.cli.demo.cluster import create_pods

    node = state.node(NODE).published
    paths = [path for path in files if path.stem in GOING_TO_THE_NODE]
    if node is None or not paths:
        return True
    console.print()
    console.rule(f"[bold]to the node {NODE}", align="left", style="dim")
    _say_what_is_played(console, driver)
    free = list(node.topology.gpus)
    pods = [pod for path in paths for pod in create_pods(path, policy, state)]
    right = [_start(console, client, directory, pod, free, driver) for pod in pods]
    name = pods[0]["metadata"]["name"]
    stopped = _swapped(console, pods[0], free_card=node.topology.gpus[4], driver=driver)
    if all(right) and stopped:
        console.print(
            f"\n[bold]{len(pods)} pods[/] started with their own cards; with one card swapped, {name} does not."
        )
    return all(right) and stopped


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


def _start(
    console: "Console",
    client: "httpx.Client",
    directory: Path,
    pod: dict[str, Any],
    free: list["Gpu"],
    driver: "Driver | None",
) -> bool:
    """Allocate, bind and start one pod."""
    import json

    from webhook.allocation.hami import DIALECT
    from webhook.cli.demo.cluster import allocate, bind, environment_of
    from webhook.cli.demo.start import print_started, run_remap

    name = pod["metadata"]["name"]
    allocate(pod, NODE, free)
    (directory / "pods" / f"{name}.yaml").write_text(json.dumps(pod), encoding="utf-8")
    console.print(f"\n[bold]pod {name}[/]")
    console.print(f"          HAMi: {pod['metadata']['annotations'][DIALECT.key]}", markup=False)
    written = bind(client, pod, NODE)
    console.print("          the Binding gets", style="bold")
    for key, value in written.items():
        text = value if len(value) <= 100 else f"{value[:100]}... ({len(value)} characters)"
        console.print(f"            annotation {key}: {text}", markup=False)
    started = run_remap(pod, driver)
    print_started(console, started, full=len(pod["spec"]["containers"]) > 1)
    for container in pod["spec"]["containers"]:
        variables = environment_of(container, pod)
        ours = [f"{key}={variables[key]}" for key in _SHOWN if variables.get(key)]
        if ours:
            console.print(f"          container {container['name']} starts with {' '.join(ours)}", markup=False)
    return started.code == 0


_SHOWN = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "NCCL_P2P_LEVEL", "NCCL_NVLS_ENABLE", "NCCL_HOSTID")


def _swapped(console: "Console", pod: dict[str, Any], *, free_card: "Gpu", driver: "Driver | None") -> bool:
    """Start a pod again, with another card in the place of one of its own: it must not run."""
    from webhook.allocation.hami import DIALECT
    from webhook.cli.demo.start import print_started, run_remap
    from webhook.remap.verdict import ExitCode

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
