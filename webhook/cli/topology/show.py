"""``gpu-topology topology show``: the matrix of a node, or a picture of it."""

import enum
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from webhook.cli.complaint import complain
from webhook.cli.kubeconfig import ContextOption, KubeconfigOption, OfflineOption, cluster_if_any
from webhook.cli.topology.source import File, Node, State

if TYPE_CHECKING:
    from webhook.cluster.api.contexts import Where
    from webhook.hardware.topology.model import NodeTopology
    from webhook.hardware.topology.sets import GpuSet


class Output(enum.StrEnum):
    """The form of the output."""

    TEXT = "text"
    JSON = "json"
    SVG = "svg"


def show(  # noqa: PLR0913, PLR0917 - one argument for each option of the command
    file: File = None,
    state: State = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = "",
    offline: OfflineOption = False,
    node: Node = None,
    gpus: Annotated[
        str | None, typer.Option(metavar="INDICES", help="A set of GPUs to mark and to judge, such as 0,3.")
    ] = None,
    bandwidth: Annotated[bool, typer.Option("--bandwidth", help="GB/s per direction instead of words.")] = False,
    output: Annotated[Output, typer.Option("--output", "-o", help="text, json (NodeTopology) or svg.")] = Output.TEXT,
) -> None:
    """Show how the GPUs of a node are joined: this machine's, a file's, a state directory's, or a cluster's.

    With --node NAME and without files it is that node of the cluster, as it is now; this machine under that name with
    --offline, and where kubectl would find no cluster.
    On a terminal in colours and within its width. Elsewhere the words of nvidia-smi topo -m; what is wrong with the
    node goes to stderr.
    Ends with exit code 1 if the node has no GPU.
    """
    from webhook.cli.topology.source import read_source
    from webhook.words.errors import GpuTopologyError

    if output is Output.JSON and gpus is not None:
        raise typer.BadParameter("the document has no place for a set", param_hint="--gpus")
    if output is not Output.TEXT and bandwidth:
        raise typer.BadParameter("only text shows bandwidths", param_hint="--bandwidth")
    indices = parse_indices(gpus)
    in_files = file is not None or state is not None
    cluster = cluster_if_any(kubeconfig, context, offline=offline, in_files=in_files, described=node is None)
    if cluster:
        topology = _of_cluster(cluster.where, node)
    else:
        with _hint(None if in_files or offline or node else "A node of the cluster is shown with --node NAME"):
            topology = read_source(file, state, node)
    if not topology.gpus and not topology.lost:
        raise GpuTopologyError(f"node {topology.node}: {topology.problem or 'it has no GPU'}")
    if output is Output.JSON:
        from webhook.hardware.topology.document import format_topology

        typer.echo(format_topology(topology, indent=2))
        return
    chosen = _judge(topology, indices)
    if output is Output.SVG:
        from webhook.insight.drawings.node import draw

        typer.echo(draw(topology, chosen), nl=False)
        _print_notes(topology)
    else:
        _print_text(topology, chosen, bandwidth=bandwidth)


@contextmanager
def _hint(text: str | None) -> Iterator[None]:
    """Add the text to an error of the block."""
    from webhook.words.errors import GpuTopologyError

    try:
        yield
    except GpuTopologyError as error:
        raise (GpuTopologyError(f"{error}. {text}") if text else error) from None


def _of_cluster(cluster: "Where", node: str | None) -> "NodeTopology":
    if node is None:
        raise typer.BadParameter("expected the name of a node of the cluster", param_hint="--node")
    from webhook.cli.topology.cluster_node import node_of_cluster

    return node_of_cluster(cluster, node)


def parse_indices(text: str | None) -> list[int]:
    """Return the indices of ``--gpus``; none if it is not given."""
    parts = text.split(",") if text is not None else []
    if not all(part.strip().isdecimal() and len(part) < 9 for part in parts):
        raise typer.BadParameter(f"expected indices such as 0,3, found {text}", param_hint="--gpus")
    indices = [int(part) for part in parts]
    if len(set(indices)) < len(indices):
        raise typer.BadParameter(f"expected each index once, found {text}", param_hint="--gpus")
    return indices


def _judge(topology: "NodeTopology", gpus: list[int]) -> "GpuSet | None":
    from webhook.hardware.topology.sets import assess

    return assess(topology, gpus) if gpus else None


def _print_text(topology: "NodeTopology", chosen: "GpuSet | None", *, bandwidth: bool) -> None:
    from webhook.cli.topology.colours import terminal
    from webhook.insight.drawings.terminal import picture, plain

    console = terminal()
    if console:
        console.print(picture(topology, chosen=chosen, bandwidth=bandwidth, width=console.width), end="")
        return
    typer.echo(plain(topology, chosen=chosen, bandwidth=bandwidth), nl=False)
    _print_notes(topology)


def _print_notes(topology: "NodeTopology") -> None:
    from webhook.insight.drawings.sentences import notes

    for note in notes(topology):
        complain(note)
