"""``gpu-topology demo``: the main task of the project, end to end, on this machine.

The demo starts the webhook as its own process over TLS and sends every example workload through it. Then it binds some
of the pods to a node, and runs their start programs. Only scheduler, API server, kubelet (``cluster``) and driver are
simulated.
"""

import json
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import httpx

    from webhook.cli.demo.cluster import Driver, Manifest
    from webhook.cli.workload import Injection
    from webhook.hardware.topology.model import Gpu

PACKAGED = Path(__file__).with_name("packaged_examples")
"""The folder that the build of the wheel fills: ``tool.hatch.build.targets.wheel.sources`` in pyproject.toml."""
CHECKOUT = Path(__file__).parents[3] / "examples"
NODE = "h20-node-1"
GOING_TO_THE_NODE = ("03-pd-prefill", "04-pd-decode", "08-pd-one-pod")
"""The workloads whose pods together fill the node."""
_COLOURS = {"skip": "cyan", "patch": "green", "degraded": "yellow", "refuse": "red"}
_SHOWN = ("CUDA_VISIBLE_DEVICES", "NCCL_P2P_LEVEL", "NCCL_NVLS_ENABLE", "NCCL_HOSTID")
_SIMULATED = (
    "HAMi's scheduler, the API server and the kubelet are simulated; the webhook and the remap program are real. "
)
_WITH_DRIVER = "The remap program finds a stand-in for the driver, in the place of libnvidia-ml.so.1."
_WITHOUT_DRIVER = (
    "There is no stand-in for the driver, so the remap program works from the topology alone. Only a checkout has one: "
    "'make demo' compiles it."
)


def demo(
    driver: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Directory with a stand-in for the node's driver; 'make demo' in a checkout makes one."
        ),
    ] = None,
) -> None:
    """Send the example workloads through a running webhook, bind some of their pods, and start them."""
    from webhook.cli.demo.cluster import Driver, running_webhook
    from webhook.cli.inputs import read_settings
    from webhook.cli.workload import inject_manifest
    from webhook.cluster.files.state import DirectoryState

    examples = PACKAGED if PACKAGED.is_dir() else CHECKOUT
    simulated = Driver.read(driver) if driver else None
    _, policy = read_settings(None)
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory, "state")  # in which pods are added as they are created
        shutil.copytree(examples / "state", copy)
        (copy / "pods").mkdir(exist_ok=True)
        state = DirectoryState(copy)
        workloads = {
            path.stem: inject_manifest(path.read_text(encoding="utf-8"), path.name, policy, state)
            for path in sorted((examples / "workloads").glob("*.yaml"))
        }
        with running_webhook(copy) as client:
            agreed = [same for name, injection in workloads.items() for same in _admit(client, name, injection)]
            gpus = state.node(NODE).published
            if gpus is None:
                raise LookupError(NODE)
            started = _to_the_node(client, workloads, copy, list(gpus.topology.gpus), simulated)
    typer.echo(f"\n{len(agreed)} pods of {len(workloads)} workloads went through the webhook over TLS.")
    typer.echo(f"'gpu-topology inject' gives the same patch, byte for byte, for {sum(agreed)} of them.")
    if started:
        typer.echo(started)
    typer.echo(f"What changes in a manifest: gpu-topology inject -f FILE --state {examples / 'state'} -o diff")
    if not (all(agreed) and started):
        raise typer.Exit(1)


def _admit(client: "httpx.Client", name: str, injection: "Injection") -> list[bool]:
    """Send the pods of a workload through the webhook, and return for each whether the command line agrees."""
    from webhook.cli.demo.cluster import create
    from webhook.words.outcome import SENTENCES

    agreed = []
    for template in injection.templates:
        allowed, patch = create(client, template)
        outcome = template.outcome
        typer.echo(f"{typer.style(f'{outcome.kind:>8}', _COLOURS[outcome.kind])}  {name}  {SENTENCES[outcome.reason]}")
        agreed.append(allowed == outcome.allowed and patch == template.patch)
    return agreed


def _to_the_node(
    client: "httpx.Client", workloads: "dict[str, Injection]", state: Path, gpus: "list[Gpu]", driver: "Driver | None"
) -> str:
    """Bind and start the pods of some workloads, and return a summary; empty if something went wrong."""
    from webhook.cli.demo.cluster import allocate, bind, environment_of, injected_pods, start
    from webhook.programs.remap.verdict import ExitCode

    typer.echo(f"\nto the node {NODE}\n{_SIMULATED}{_WITH_DRIVER if driver else _WITHOUT_DRIVER}")
    free, codes = gpus.copy(), []
    pods = [pod for name in GOING_TO_THE_NODE for pod in injected_pods(name, workloads[name])]
    for pod in pods:
        name = pod["metadata"]["name"]
        allocate(pod, NODE, free)
        (state / "pods" / f"{name}.yaml").write_text(json.dumps(pod), encoding="utf-8")
        bind(client, pod, NODE)
        typer.echo(f"\npod {name}")
        codes.append(_started(*start(pod, driver)))
        for container in pod["spec"]["containers"]:
            variables = environment_of(container, pod)
            if ours := [f"{key}={variables[key]}" for key in _SHOWN if variables.get(key)]:
                typer.echo(f"          container {container['name']} starts with {' '.join(ours)}")
    stopped = _started(*start(_swapped(pods[0], gpus[4]), driver))
    name = pods[0]["metadata"]["name"]
    if any(codes) or stopped != ExitCode.OTHER_GPUS:
        return ""
    return f"{len(pods)} pods started with their own cards; with one card swapped, {name} does not."


def _swapped(pod: "Manifest", other: "Gpu") -> "Manifest":
    """Return a pod with another GPU in place of its first one."""
    from webhook.decisions.allocation.hami import DIALECT

    annotations = pod["metadata"]["annotations"]
    own = annotations[DIALECT.key].split(",", 1)[0]
    typer.echo(f"\npod {pod['metadata']['name']}, had HAMi given it {other.uuid} instead of {own}")
    changed = annotations | {DIALECT.key: annotations[DIALECT.key].replace(own, other.uuid)}
    return pod | {"metadata": pod["metadata"] | {"annotations": changed}}


def _started(code: int, message: str) -> int:
    typer.secho(f"          remap: exit code {code}", fg="red" if code else "green")
    if message:
        typer.echo(f"          {message}")
    return code
