"""A state directory: a cluster as files, written by hand or by ``gpu-topology state save``.

It has ``namespaces/*.yaml``, ``pods/*.yaml``, ``claims/*.yaml`` (manifests), ``nodes/*.json`` (topologies) and
``cluster.yaml`` (facts), of which each may be missing. It may come from another person, so that no file in it may be
one that can be read without end.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from webhook.cluster.files.claim_manifests import ClaimObjects, claim_objects
from webhook.decisions.claims.slices import Pools
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.decisions.configuration import ClaimSettings
from webhook.decisions.fastest_pair import FastestPair, fastest_pair
from webhook.decisions.resolve.node import KnownNode, Origin, Sources
from webhook.hardware.topology.document import MAX_BYTES as LONGEST_TOPOLOGY
from webhook.hardware.topology.document import parse_topology
from webhook.hardware.topology.model import NodeTopology
from webhook.objects.manifest.manifest import read_yaml
from webhook.objects.manifest.pods import decode_pod, to_json
from webhook.objects.pod import Fields, Metadata, Namespace, Pod
from webhook.words import names
from webhook.words.errors import ClaimsUnreadable, GpuTopologyError, ManifestError, PodsUnreadable
from webhook.words.printable import printable
from webhook.words.shape import shape_problem
from webhook.words.version import Version

_T = TypeVar("_T")
MAX_BYTES = 1024**3
"""The most bytes of a file. A list of 100,000 pods takes a third of that."""
_NOTHING = Sources()
_NO_CLAIMS = ClaimSettings()


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
    """The state in a directory, as :class:`webhook.cluster.state.State`, ``Pods`` and ``Claims``.

    Namespaces and facts are read once, topologies and devices once on first need. Pods, claims and templates are read
    anew each time, so that they can be added while the server runs. Files are read at once, whatever the deadline.

    Args:
        root: The directory.
        claims: The settings that name the drivers of GPUs.

    Raises:
        ManifestError: ``root`` is no directory, or a file in it is unreadable or has another content.
        FormatError: ``cluster.yaml`` has a malformed version.
    """

    waiting_for = ""

    def __init__(self, root: Path, claims: ClaimSettings = _NO_CLAIMS) -> None:
        if not root.is_dir():
            raise ManifestError(f"{root}: expected a state directory (namespaces/, nodes/, cluster.yaml), found none")
        self._root, self._claims = root, claims
        found = [_read_namespace(path, document) for path, document in read_folder(root, "namespaces")]
        self._namespaces = {namespace.name: namespace for namespace in found}
        self._facts = _read_cluster(root / "cluster.yaml")

    def namespace(self, name: str) -> Namespace:
        """Return the namespace of that name."""
        return self._namespaces.get(name) or Namespace(name, known=False)

    def cluster(self) -> ClusterFacts:
        """Return the facts in ``cluster.yaml``."""
        return self._facts

    def node(self, name: str) -> Sources:
        """Return the topology of that node, as if its agent had published it.

        Raises:
            GpuTopologyError: as for :func:`load_nodes`.
        """
        return self.nodes.get(name, _NOTHING)

    def fastest_pair(self) -> FastestPair | None:
        """Return the fastest pair of GPUs of all nodes; ``None`` if the links of one are not known.

        Raises:
            GpuTopologyError: as for :func:`load_nodes`.
        """
        return self._fastest

    @cached_property
    def _fastest(self) -> FastestPair | None:
        found = [fastest_pair(sources.published) for sources in self.nodes.values() if sources.published]
        known = [pair for pair in found if pair is not None]
        return max(known) if known and len(known) == len(found) else None

    @cached_property
    def nodes(self) -> Mapping[str, Sources]:
        """The topologies, by the names of their nodes."""
        found = load_nodes(self._root).items()
        return {name: Sources(published=KnownNode(topology, origin=Origin.AGENT)) for name, topology in found}

    async def pod(self, namespace: str, name: str, *, deadline: float | None = None) -> bytes | None:  # noqa: ARG002
        """Return the pod as JSON, or ``None`` if no file has it. Of two with one name the first counts.

        Raises:
            PodsUnreadable: a file cannot be read as pods.
        """
        found = ((_namespace(pod), pod.display_name, manifest) for manifest, pod in self._pods())
        return next((manifest for of, called, manifest in found if (of, called) == (namespace, name)), None)

    async def group(
        self,
        namespace: str,
        group: str,
        node: str,
        *,
        deadline: float | None = None,  # noqa: ARG002
    ) -> list[bytes]:
        """Return the pods of a group that are on a node, as JSON.

        Raises:
            PodsUnreadable: a file cannot be read as pods.
        """
        wanted = (namespace, group, node)
        found = [(manifest, pod, pod.spec and pod.spec.node_name) for manifest, pod in self._pods()]
        return [each for each, pod, on in found if (_namespace(pod), pod.labels.get(names.GROUP), on) == wanted]

    def _pods(self) -> Iterator[tuple[bytes, Pod]]:
        """Yield each pod, as JSON and as the fields that we read."""
        try:
            for path, document in read_folder(self._root, "pods"):
                kind = document.get("kind") if isinstance(document, dict) else None
                if kind != "Pod":
                    raise PodsUnreadable(f"{path}: expected a Pod, found {kind or 'something else'}")
                manifest = to_json(document, str(path))
                pod = decode_pod(manifest, str(path))
                if not (pod.metadata and pod.metadata.name):
                    raise PodsUnreadable(f"{path}: expected a Pod with a name, found none")
                yield manifest, pod
        except ManifestError as error:
            raise PodsUnreadable(str(error)) from None

    async def claim(self, namespace: str, name: str, *, deadline: float | None = None) -> bytes | None:  # noqa: ARG002
        """Return the ResourceClaim as JSON, or ``None`` if no file has it.

        Raises:
            ClaimsUnreadable: a file cannot be read.
        """
        return self._objects().claims.get((namespace, name))

    async def template(self, namespace: str, name: str, *, deadline: float | None = None) -> bytes | None:  # noqa: ARG002
        """Return the ResourceClaimTemplate as JSON, as :meth:`claim` does."""
        return self._objects().templates.get((namespace, name))

    def _objects(self) -> ClaimObjects:
        try:
            return load_claims(self._root)
        except GpuTopologyError as error:
            raise ClaimsUnreadable(str(error)) from None

    def pools(self) -> Pools:
        """Return the devices in the files.

        Raises:
            GpuTopologyError: as for :func:`load_claims`.
        """
        return self._pools

    @cached_property
    def _pools(self) -> Pools:
        return load_claims(self._root).pools(self._claims)


def load_nodes(root: Path) -> dict[str, NodeTopology]:
    """Load the topologies in a state directory, by the names of their nodes; none if it has no ``nodes``.

    Raises:
        ManifestError: a file cannot be read, or two are of one node.
        FormatError: a topology does not parse or contradicts itself.
    """
    nodes: dict[str, NodeTopology] = {}
    for path in sorted((root / "nodes").glob("*.json")):
        topology = parse_topology(_read_bytes(path), source=str(path))
        if topology.node in nodes:
            raise ManifestError(f"{path}: expected one topology of each node, found a second one of {topology.node}")
        nodes[topology.node] = topology
    return nodes


def load_claims(root: Path) -> ClaimObjects:
    """Load the objects about claims in a state directory; other kinds are ignored.

    Raises:
        ManifestError: a file cannot be read, or is no YAML.
        FormatError: an object has another shape, or an old version of the API.
    """
    return claim_objects((document, str(path)) for path, document in read_folder(root, "claims"))


def read_folder(root: Path, folder: str) -> Iterator[tuple[Path, Any]]:
    """Yield the documents of a folder of a state directory as the API server would send them, with their files.

    Raises:
        ManifestError: a file cannot be read, or is no YAML.
    """
    for path in sorted((root / folder).glob("*.yaml")):
        _check(path)
        for document in read_yaml(path):
            yield path, json_value(document, str(path))


def json_value(document: Any, source: str) -> Any:
    """Return a document of YAML as the API server would send it: dates are texts in Kubernetes.

    Raises:
        ManifestError: a text of the document is invalid.
    """
    try:
        return msgspec.json.decode(to_json(document, source))
    except msgspec.DecodeError as error:
        raise ManifestError(f"{source}: expected text, found {error}") from None


def _read_bytes(path: Path) -> bytes:
    _check(path)
    try:
        with path.open("rb") as file:
            return file.read(LONGEST_TOPOLOGY + 1)
    except OSError as error:
        raise ManifestError(f"{path}: cannot be read: {error.strerror}") from None


def _check(path: Path) -> None:
    """Raise ManifestError for what might have no end: pipes, devices and sockets, links to them, and files of holes."""
    if not path.is_file():
        raise ManifestError(f"{path}: expected a file, found something else. Remove it")
    if path.stat().st_size > MAX_BYTES:
        raise ManifestError(f"{path}: expected at most {MAX_BYTES // 1024**2} MiB, found more. Give fewer objects")


def _namespace(pod: Pod) -> str:
    return (pod.metadata.namespace if pod.metadata else None) or names.DEFAULT_NAMESPACE


def _read_namespace(path: Path, document: Any) -> Namespace:
    manifest = _convert(path, document, _NamespaceManifest)
    if manifest.kind != "Namespace" or not manifest.metadata.name:
        raise ManifestError(f"{path}: expected a Namespace with a name, found {printable(manifest.kind)}")
    metadata = manifest.metadata
    return Namespace(manifest.metadata.name, metadata.labels or {}, metadata.annotations or {})


def _read_cluster(path: Path) -> ClusterFacts:
    if not path.exists():
        return ClusterFacts()
    _check(path)
    found = _convert(path, next(iter(read_yaml(path)), {}), _ClusterFile)
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
