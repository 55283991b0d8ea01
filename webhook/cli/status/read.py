"""The reading of the picture: from a cluster, or from files."""

from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from webhook.cli.snapshots import from_cluster, from_files
from webhook.cluster.api.contexts import Context
from webhook.cluster.files.manifests import ManifestFile, read_files
from webhook.cluster.snapshot.lists import PodsForbidden
from webhook.cluster.snapshot.model import Snapshot
from webhook.insight.analyze.analyzers import analyze
from webhook.insight.overview.limit import limited
from webhook.insight.overview.model import Overview
from webhook.insight.overview.picture import overview


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The source of a picture, and the shown part of it."""

    cluster: Context | None
    """The cluster; None for the one in which this program runs as a pod."""
    is_cluster: bool
    """True if a cluster is read."""
    namespace: str | None
    """The namespace of the shown pods; None for all."""
    nodes: Collection[str]
    """The shown nodes; empty for all."""
    files: tuple[str, ...] = ()
    recursive: bool = False
    state: Path | None = None
    config: Path | None = None

    def read(self) -> Overview:
        """Read the present picture.

        Raises:
            GpuTopologyError: the source cannot be read, or has no such namespace or node.
        """
        snapshot, are_all_pods = self._cluster() if self.is_cluster else (self._files(), True)
        found = analyze(snapshot, namespace=None if are_all_pods else self.namespace)
        whole = overview(snapshot, found, are_all_pods=are_all_pods)
        return limited(whole, namespace=self.namespace, nodes=self.nodes)

    def _manifests(self) -> Iterator[ManifestFile]:
        return read_files(list(self.files), recursive=self.recursive)

    def _files(self) -> Snapshot:
        return from_files(self._manifests(), self.state, self.namespace, self.config).snapshot

    def _cluster(self) -> tuple[Snapshot, bool]:
        """Read the cluster; also returns whether the pods of all namespaces were read, which shows the free cards.

        A caller who may list the pods of one namespace only gets the picture without free cards.
        """
        if self.namespace is None:
            return self._pods_of(None), True
        with suppress(PodsForbidden):
            snapshot = self._pods_of(None)
            if "Namespace" not in snapshot.read or self.namespace in snapshot.namespaces:
                return snapshot, True
        return self._pods_of(self.namespace), False

    def _pods_of(self, namespace: str | None) -> Snapshot:
        return from_cluster(self.cluster, namespace, self.config, files=self._manifests()).snapshot
