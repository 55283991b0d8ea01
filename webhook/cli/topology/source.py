"""The source of a node's topology in commands: a file, a state directory, or this machine."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from webhook.cli.candidates import nodes
from webhook.cluster.files.manifests import STANDARD_INPUT

if TYPE_CHECKING:
    from webhook.decisions.resolve.node import Sources
    from webhook.hardware.topology.model import NodeTopology

FORMATS = (
    "NodeTopology in JSON, the agent's ConfigMap or a Node with HAMi's annotations (kubectl get -o json or yaml),"
    " output of nvidia-smi topo -m (and -L, nvlink -s, nvlink -c), or HAMi's annotation"
)


def _named(node: str | None) -> str | None:
    if node is not None and not (node and node.isprintable()):
        raise typer.BadParameter("expected a name of printable characters")
    return node


File = Annotated[
    str | None,
    typer.Option(
        "--file",
        "-f",
        metavar="FILE",
        help=f"{FORMATS}; - reads stdin.",
    ),
]
State = Annotated[Path | None, typer.Option(metavar="DIR", help="State directory: nodes/*.json.")]
Node = Annotated[
    str | None,
    typer.Option(
        metavar="NODE",
        callback=_named,
        autocompletion=nodes,
        help="Name of the node; with --state which one it is.",
    ),
]

_UNNAMED = "node"
_LISTED = 8
"""The number of names in a message."""


def read_source(file: str | None, state: Path | None, node: str | None) -> "NodeTopology":
    """Read the topology of one node; without file and state directory that of this machine.

    Raises:
        GpuTopologyError: the source cannot be read, contradicts itself, or this machine has no GPU; the text says why.
    """
    check_source(file, state)
    if file is not None:
        return read_text(file, node)
    if state is not None:
        return _one_of(state, node)
    return _this_machine(node)


def check_source(file: str | None, state: Path | None) -> None:
    """Raises BadParameter if both a file and a state directory are given."""
    if file is not None and state is not None:
        raise typer.BadParameter("give either --file or --state", param_hint="--file")


def read_text(file: str, node: str | None) -> "NodeTopology":
    """Read the topology in a file of any of the known formats.

    Args:
        file: The path of the file; ``-`` for standard input.
        node: The name of the node; without one the topology keeps its own, or gets that of the file.
    """
    from dataclasses import replace

    from webhook.cluster.state.topology_objects import MAX_BYTES, read_published
    from webhook.hardware.topology.readers.recognition import read_topology
    from webhook.hardware.topology.readers.smi import looks_like_smi

    data, source = read_bytes(file, limit=MAX_BYTES)
    name = node or (_UNNAMED if file == STANDARD_INPUT else Path(file).stem)
    # A text with the output of nvidia-smi may also show manifests.
    printed = looks_like_smi(data.decode(errors="replace"))
    published = None if printed else read_published(data, source=source)
    topology = published or read_topology(data, node=name, source=source)
    return replace(topology, node=node) if node else topology


def sources_in(file: str, node: str | None) -> "Sources":
    """Read the topology in a file of any of the known formats, in place of the agent's publication."""
    from webhook.decisions.resolve.node import KnownNode, Origin, Sources

    topology = read_text(file, node)
    origin = Origin.HAMI if topology.source == "hami" else Origin.AGENT
    return Sources(published=KnownNode(topology, origin=origin))


def read_bytes(file: str, *, limit: int) -> tuple[bytes, str]:
    """Read the bytes of a file; returns them and the file's name in messages.

    Raises:
        ManifestError: the file cannot be read.
        FormatError: the file has more bytes than ``limit``.
    """
    from webhook.cluster.files.standard_input import standard_input
    from webhook.words.errors import FormatError, ManifestError

    source = "standard input" if file == STANDARD_INPUT else file
    try:
        if file == STANDARD_INPUT:
            data = standard_input().read(limit + 1)
        else:
            with Path(file).open("rb") as stream:
                data = stream.read(limit + 1)
    except OSError as error:
        raise ManifestError(f"{source}: cannot be read: {error.strerror}") from None
    if len(data) > limit:
        raise FormatError(source, expected=f"at most {limit} bytes", found="more")
    return data, source


def read_nodes(state: Path) -> dict[str, "NodeTopology"]:
    """Load the topologies of a state directory.

    Raises:
        GpuTopologyError: there are none, one of them cannot be read, or two are of one node.
    """
    from webhook.cluster.files.state import load_nodes
    from webhook.words.errors import ManifestError

    nodes = load_nodes(state)
    if not nodes:
        raise ManifestError(f"{state}: expected a state directory with nodes/*.json, found none")
    return nodes


def _one_of(state: Path, node: str | None) -> "NodeTopology":
    from webhook.words.errors import FormatError, ManifestError, shorten

    nodes = read_nodes(state)
    if node is None and len(nodes) == 1:
        node = next(iter(nodes))
    if node not in nodes:
        more = f" and {len(nodes) - _LISTED} more" if len(nodes) > _LISTED else ""
        listed = f"{', '.join([*nodes][:_LISTED])}{more}"
        source = str(state / "nodes")
        if node is not None:
            raise ManifestError(f"{source}: there is no node {shorten(node)}; the nodes there are {listed}")
        raise FormatError(
            source, expected=f"one node: {listed}", found=f"{len(nodes)} nodes", fix="Name one with --node"
        )
    return nodes[node]


def _this_machine(node: str | None) -> "NodeTopology":
    from platform import node as host_name

    from webhook.hardware.discovery.machine import discover
    from webhook.words.errors import GpuTopologyError

    topology = discover(node=node or host_name() or _UNNAMED)
    if not topology.gpus and not topology.lost:
        raise GpuTopologyError(f"this machine: {topology.problem or 'NVML knows of no GPU'}")
    return topology
