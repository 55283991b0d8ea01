"""Where a snapshot comes from: a cluster, or files."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from webhook.analyze.snapshot import Setting, Snapshot, read_snapshot
from webhook.cli.inputs import read_settings
from webhook.cli.manifests import ManifestFile
from webhook.cli.snapshot.documents import Documents
from webhook.model.errors import GpuTopologyError


@dataclass(frozen=True, slots=True)
class ReadSnapshot:
    """A snapshot, and what it was made of."""

    snapshot: Snapshot
    documents: Documents
    sources: Mapping[tuple[str, str, str], str] = field(default_factory=dict)
    """The file of each object, by kind, namespace and name; empty for a cluster."""


def from_cluster(
    kubeconfig: Path | None,
    namespace: str | None,
    config: Path | None,
    *,
    files: Iterable[ManifestFile] = (),
    context: str = "",
) -> ReadSnapshot:
    """A cluster as it is now.

    Args:
        kubeconfig: Of the cluster; None: the one in which this program runs as a pod.
        namespace: Whose pods are read; None: those of all.
        config: The configuration of the webhook.
        files: Manifests; the cluster is as if these objects were there, or were like that.
        context: Of the kubeconfig; empty for the current one.

    Raises:
        GpuTopologyError: it cannot be read, or has no such namespace.
    """
    from webhook.cli.snapshot.cluster import read_cluster
    from webhook.cli.snapshot.files import read_manifests

    settings, policy = read_settings(config)
    given = read_manifests(files, None)
    documents = read_cluster(kubeconfig, namespace, settings.certificates, context=context).under(given.documents)
    registration = settings.certificates.webhook_configuration
    setting = Setting(policy=policy, is_configured=config is not None, registration=registration)
    return ReadSnapshot(read_snapshot(documents.others, documents.pods, setting), documents, given.sources)


def from_files(
    files: Iterable[ManifestFile], state: Path | None, namespace: str | None, config: Path | None
) -> ReadSnapshot:
    """What manifests and a state directory say.

    Raises:
        GpuTopologyError: a file cannot be read, or no object is in this namespace.
    """
    from webhook.cli.snapshot.files import read_manifests

    settings, policy = read_settings(config)
    found = read_manifests(files, state)
    setting = Setting(
        policy=policy,
        is_configured=config is not None,
        registration=settings.certificates.webhook_configuration,
        facts=found.facts,
        topologies=found.topologies,
    )
    snapshot = read_snapshot(found.documents.others, found.documents.pods, setting)
    if namespace is not None and namespace not in {*snapshot.namespaces, *(pod.namespace for pod in snapshot.pods)}:
        raise GpuTopologyError(f"there is no namespace {namespace} in these files")
    return ReadSnapshot(snapshot, found.documents, found.sources)
