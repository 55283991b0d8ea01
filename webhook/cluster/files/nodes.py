"""Topologies of nodes from files: ``nodes/*.json`` of a state directory."""

from pathlib import Path

from webhook.cluster.files.state_files import check_state_file
from webhook.hardware.topology.document import MAX_BYTES, parse_topology
from webhook.hardware.topology.model import NodeTopology
from webhook.words.errors import GpuTopologyError, ManifestError


def load_nodes(root: Path, *, wanted: str | None = None) -> dict[str, NodeTopology]:
    """Load the topologies in a state directory, by the names of their nodes; none if it has no ``nodes``.

    Args:
        root: The state directory.
        wanted: The only node that matters. If its topology is found, unreadable files are left out.

    Raises:
        ManifestError: a file cannot be read, or two are of one node.
        FormatError: a topology does not parse or contradicts itself.
    """
    nodes: dict[str, NodeTopology] = {}
    failures: list[GpuTopologyError] = []
    for path in sorted((root / "nodes").glob("*.json")):
        try:
            topology = parse_topology(_read(path), source=str(path))
        except GpuTopologyError as error:
            failures.append(error)
            continue
        if topology.node in nodes:
            raise ManifestError(f"{path}: expected one topology of each node, found a second one of {topology.node}")
        nodes[topology.node] = topology
    if failures and wanted not in nodes:
        raise failures[0]
    return nodes


def _read(path: Path) -> bytes:
    check_state_file(path)
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ManifestError(f"{path}: cannot be read: {error.strerror}") from None
