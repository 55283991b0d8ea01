"""State from files, read once: ``namespaces/*.yaml`` (manifests), ``cluster.yaml`` (facts), ``nodes/*.json``."""

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from webhook.cluster.files.nodes import load_nodes
from webhook.cluster.files.state_files import read_state_yaml
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.decisions.fastest_pair import FastestPair, fastest_pair
from webhook.decisions.resolve.node import KnownNode, Origin, Sources
from webhook.hardware.topology.model import NodeTopology
from webhook.objects.pod import Fields, Metadata, Namespace
from webhook.words.errors import ManifestError
from webhook.words.printable import printable
from webhook.words.shape import shape_problem
from webhook.words.version import Version

_T = TypeVar("_T")
_NOTHING = Sources()


class _NamespaceManifest(Fields):
    kind: str
    metadata: Metadata


class _ClusterFile(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    hami_version: str | None = None
    kubernetes_version: str | None = None
    claimed_resources: list[str] | None = None
    hami_dra: bool = False
    without_hami: bool = False
    planner: bool = False


class DirectoryState:
    """A :class:`webhook.cluster.state.State` of fixed values.

    Args:
        namespaces: The namespaces by name.
        facts: The facts about the cluster.
        read_nodes: A function that returns the topologies by the names of their nodes. It is called once, on first
            need. Most commands need none, and then an unreadable file does no harm.
    """

    waiting_for = ""

    def __init__(
        self,
        namespaces: Mapping[str, Namespace],
        facts: ClusterFacts,
        read_nodes: Callable[[], Mapping[str, NodeTopology]] = dict,
    ) -> None:
        self._namespaces = namespaces
        self._facts = facts
        self._read_nodes = read_nodes

    def namespace(self, name: str) -> Namespace:
        """Return the namespace of that name."""
        return self._namespaces.get(name) or Namespace(name, known=False)

    def cluster(self) -> ClusterFacts:
        """Return the facts in ``cluster.yaml``."""
        return self._facts

    def node(self, name: str) -> Sources:
        """Return the topology in the file of that node.

        Raises:
            ManifestError: a file of ``nodes/`` cannot be read, or two are of one node.
            FormatError: a topology does not parse or contradicts itself.
        """
        return self._nodes.get(name, _NOTHING)

    def fastest_pair(self) -> FastestPair | None:
        """Return the fastest pair of GPUs of all nodes; ``None`` if the links of one are not known.

        Raises:
            ManifestError: a file of ``nodes/`` cannot be read, or two are of one node.
            FormatError: a topology does not parse or contradicts itself.
        """
        return self._fastest

    @cached_property
    def _fastest(self) -> FastestPair | None:
        found = [fastest_pair(sources.published) for sources in self._nodes.values() if sources.published]
        known = [pair for pair in found if pair is not None]
        return max(known) if known and len(known) == len(found) else None

    def check_nodes(self) -> None:
        """Read the topologies now.

        Raises:
            ManifestError: a file of ``nodes/`` cannot be read, or two are of one node.
            FormatError: a topology does not parse or contradicts itself.
        """
        self.node("")

    @cached_property
    def _nodes(self) -> dict[str, Sources]:
        found = self._read_nodes().items()
        return {name: Sources(published=KnownNode(topology, origin=Origin.AGENT)) for name, topology in found}


def load_directory(root: Path) -> DirectoryState:
    """Read a state directory. A missing file leaves its part empty. ``nodes/`` is read on first need.

    Raises:
        ManifestError: ``root`` is no directory, or a file in it is unreadable or has another content.
        FormatError: ``cluster.yaml`` has a malformed version.
    """
    if not root.is_dir():
        raise ManifestError(f"{root}: expected a state directory (namespaces/, nodes/, cluster.yaml), found none")
    namespaces = {}
    for path in sorted((root / "namespaces").glob("*.yaml")):
        for document in read_state_yaml(path):
            namespace = _read_namespace(path, document)
            namespaces[namespace.name] = namespace
    return DirectoryState(namespaces, _read_cluster(root / "cluster.yaml"), lambda: load_nodes(root))


def _read_namespace(path: Path, document: Any) -> Namespace:
    manifest = _convert(path, document, _NamespaceManifest)
    if manifest.kind != "Namespace" or not manifest.metadata.name:
        raise ManifestError(f"{path}: expected a Namespace with a name, found {printable(manifest.kind)}")
    metadata = manifest.metadata
    return Namespace(manifest.metadata.name, metadata.labels or {}, metadata.annotations or {})


def _read_cluster(path: Path) -> ClusterFacts:
    if not path.exists():
        return ClusterFacts()
    documents = read_state_yaml(path)
    found = _convert(path, documents[0] if documents else {}, _ClusterFile)
    return ClusterFacts(
        hami=Version.parse(found.hami_version, source=f"{path}: hamiVersion") if found.hami_version else None,
        kubernetes=Version.parse(found.kubernetes_version, source=f"{path}: kubernetesVersion")
        if found.kubernetes_version
        else None,
        claimed=None if found.claimed_resources is None else frozenset(found.claimed_resources),
        has_hami_dra=found.hami_dra,
        lacks_hami=found.without_hami,
        has_planner=found.planner,
    )


def _convert(path: Path, document: Any, kind: type[_T]) -> _T:
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        raise ManifestError(f"{path}: {shape_problem(error)}") from None
