"""Where a snapshot comes from: a cluster, or files."""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from webhook.cli.inputs import read_settings
from webhook.cluster.api.contexts import Where
from webhook.cluster.files.manifests import ManifestFile
from webhook.cluster.snapshot.documents import ReadSnapshot
from webhook.cluster.snapshot.model import Setting, read_snapshot
from webhook.decisions.configuration import AdmitPolicy, CertificateSettings
from webhook.words.errors import GpuTopologyError


def setting_of(config: Path | None, policy: AdmitPolicy | None = None) -> Setting:
    """What is known beside the documents of a cluster.

    Args:
        config: The configuration of the webhook.
        policy: What follows from it, where the caller has changed that.

    Raises:
        ConfigError: it cannot be read or used.
    """
    settings, read = read_settings(config)
    registration = settings.certificates.webhook_configuration
    return Setting(policy=policy or read, is_configured=config is not None, registration=registration)


def cluster_setting(config: Path | None) -> tuple[Setting, CertificateSettings]:
    """What is known beside the documents of a live cluster, and how the webhook's registration and Secret are called.

    Args:
        config: The configuration of the webhook.

    Raises:
        ConfigError: it cannot be read or used.
    """
    return setting_of(config), read_settings(config)[0].certificates


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
    from webhook.cluster.snapshot.files import read_manifests
    from webhook.cluster.snapshot.lists import read_cluster

    setting, certificates = cluster_setting(config)
    given = read_manifests(files, None)
    documents = read_cluster(kubeconfig, namespace, certificates).under(given.documents)
    return ReadSnapshot(read_snapshot(documents.others, documents.pods, setting), documents, given.sources)


def from_files(
    files: Iterable[ManifestFile],
    state: Path | None,
    namespace: str | None,
    config: Path | None,
    *,
    policy: AdmitPolicy | None = None,
    are_strict: bool = False,
) -> ReadSnapshot:
    """What manifests and a state directory say.

    Args:
        files: Manifests; what they and the state directory both have is as they have it.
        state: A state directory.
        namespace: Whose pods are wanted; None: those of all.
        config: The configuration of the webhook.
        policy: What follows from it, where the caller has changed that.
        are_strict: Whether a pod of the manifests with a field of another type is an error in any case.

    Raises:
        GpuTopologyError: a file cannot be read, or no object is in this namespace.
    """
    from webhook.cluster.snapshot.files import read_manifests

    found = read_manifests(files, state, are_strict=are_strict)
    setting = msgspec.structs.replace(
        setting_of(config, policy), facts=found.facts, topologies=found.topologies, state=str(state or "")
    )
    snapshot = read_snapshot(found.documents.others, found.documents.pods, setting)
    if namespace is not None and namespace not in {*snapshot.namespaces, *(pod.namespace for pod in snapshot.pods)}:
        raise GpuTopologyError(f"there is no namespace {namespace} in these files")
    return ReadSnapshot(snapshot, found.documents, found.sources, tuple(found.given), tuple(found.others))
