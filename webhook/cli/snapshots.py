"""Where a snapshot comes from: a cluster, or files."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from webhook.analyze.snapshot import Setting, Snapshot, read_snapshot
from webhook.cli.inputs import read_settings
from webhook.cli.manifests import ManifestFile
from webhook.cli.snapshot.documents import Documents
from webhook.config import CertificateSettings
from webhook.kube.contexts import Where
from webhook.model.errors import GpuTopologyError


@dataclass(frozen=True, slots=True)
class ReadSnapshot:
    """A snapshot, and what it was made of."""

    snapshot: Snapshot
    documents: Documents
    sources: Mapping[tuple[str, str, str], str] = field(default_factory=dict)
    """The file of each object, by kind, namespace and name; empty for a cluster."""


def cluster_setting(config: Path | None) -> tuple[Setting, CertificateSettings]:
    """What is known beside the documents of a live cluster, and how the webhook's registration and Secret are called.

    Args:
        config: The configuration of the webhook.

    Raises:
        ConfigError: it cannot be read or used.
    """
    settings, policy = read_settings(config)
    certificates = settings.certificates
    registration = certificates.webhook_configuration
    return Setting(policy=policy, is_configured=config is not None, registration=registration), certificates


def from_cluster(
    kubeconfig: Where, namespace: str | None, config: Path | None, *, files: Iterable[ManifestFile] = ()
) -> ReadSnapshot:
    """A cluster as it is now.

    Args:
        kubeconfig: Which cluster.
        namespace: Whose pods are read; None: those of all.
        config: The configuration of the webhook.
        files: Manifests; the cluster is as if these objects were there, or were like that.

    Raises:
        GpuTopologyError: it cannot be read, or has no such namespace.
    """
    from webhook.cli.snapshot.cluster import read_cluster
    from webhook.cli.snapshot.files import read_manifests

    setting, certificates = cluster_setting(config)
    given = read_manifests(files, None)
    documents = read_cluster(kubeconfig, namespace, certificates).under(given.documents)
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
