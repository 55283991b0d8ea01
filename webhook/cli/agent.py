"""``gpu-topology agent``: the discovery and publication of this node's topology."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from webhook.cli.complaint import complain
from webhook.words import names

if TYPE_CHECKING:
    from webhook.programs.agent.publication import PublishOptions

# A DNS subdomain, as the names of Nodes are: k8s.io/apimachinery, pkg/util/validation, IsDNS1123Subdomain.
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NODE_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")


def agent(  # noqa: PLR0913, PLR0917 - one argument for each option of the command
    node: Annotated[
        str, typer.Option(metavar="NODE", envvar=names.AGENT_NODE_NAME, help="Name of the Node that this machine is.")
    ] = "",
    namespace: Annotated[
        str, typer.Option(metavar="NAMESPACE", envvar=names.AGENT_NAMESPACE, help="Namespace of what is published.")
    ] = "",
    interval: Annotated[
        int, typer.Option(metavar="SECONDS", min=1, max=86400, help="Seconds between two discoveries.")
    ] = 60,
    traffic_interval: Annotated[
        int,
        typer.Option(
            metavar="SECONDS", min=0, max=60, help="Seconds between two samples of the GPUs' traffic; 0 for none."
        ),
    ] = 15,
    cordon: Annotated[
        bool, typer.Option("--cordon", help="Have HAMi (2.10 or later) allocate no GPU that is lost or has lost links.")
    ] = False,
    taint_devices: Annotated[
        bool,
        typer.Option(
            "--taint-devices",
            help="Keep resource claims from such GPUs, by DeviceTaintRules (Kubernetes 1.37 or later).",
        ),
    ] = False,
    verify_at_start: Annotated[
        bool,
        typer.Option(
            "--verify-at-start", help="Measure the bandwidth between GPUs that are free, and publish the figures."
        ),
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="Make one round and stop.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what one round would publish, and stop. Needs no cluster.")
    ] = False,
    root: Annotated[Path, typer.Option(metavar="DIR", help="Where the host's /sys and /proc are.")] = Path("/"),
    kubeconfig: Annotated[Path | None, typer.Option(metavar="FILE", help="For a try outside of a cluster.")] = None,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Address of metrics and probes.")] = "0.0.0.0",  # noqa: S104 - scraped over the pod network
    port: Annotated[
        int, typer.Option(metavar="PORT", min=0, max=65535, help="Plain port of metrics and probes.")
    ] = 8080,
) -> None:
    """Publish the GPU topology of this node, again and again."""
    from webhook.programs.agent.publication import PublishOptions

    options = PublishOptions(namespace=namespace, cordon=cordon, taint_devices=taint_devices)
    if dry_run:
        _preview(node or _name_of_machine(), options, root)
        return
    for option, value, variable in (
        ("--node", node, names.AGENT_NODE_NAME),
        ("--namespace", namespace, names.AGENT_NAMESPACE),
    ):
        if not value:
            raise typer.BadParameter(f"expected a name, or the variable {variable}", param_hint=option)
    _check_name(node)
    if once and verify_at_start:
        raise typer.BadParameter("one round does not wait for a measurement", param_hint="--verify-at-start")
    from webhook.programs.agent.run import AgentSettings, run, run_once

    settings = AgentSettings(
        node=node,
        options=options,
        interval=interval,
        traffic_interval=traffic_interval,
        verify_at_start=verify_at_start,
        root=root,
        kubeconfig=kubeconfig,
        host=host,
        port=port,
    )
    (run_once if once else run)(settings)


def _name_of_machine() -> str:
    import platform

    return platform.node().lower()


def _check_name(node: str) -> None:
    """Raises BadParameter if no Node can have this name."""
    from webhook.words.errors import shorten
    from webhook.words.node_names import NAME_LIMIT

    if len(node) > NAME_LIMIT or not _NODE_NAME.fullmatch(node):
        found = f"expected the name of a Node, a DNS subdomain such as gpu-node-1, found {shorten(node)}"
        raise typer.BadParameter(found, param_hint="--node")


def _preview(node: str, options: "PublishOptions", root: Path) -> None:
    """Print the objects that one round would publish.

    Raises:
        GpuTopologyError: there is no driver, or it cannot be used.
    """
    _check_name(node)
    from webhook.hardware.discovery.machine import discover
    from webhook.programs.agent.preview import preview
    from webhook.words.errors import GpuTopologyError

    topology = discover(node=node, root=root)
    typer.echo(preview(topology, options), nl=False)
    if topology.problem and not topology.gpus:
        raise GpuTopologyError(f"no topology of node {topology.node}: {topology.problem}")
    if topology.problem:
        complain(f"gpu-topology: incomplete: {topology.problem}")
