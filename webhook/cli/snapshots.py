"""The sources of snapshots: a cluster, or files."""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from webhook.cli.inputs import read_settings
from webhook.cluster.api.contexts import Where
from webhook.cluster.files.manifests import ManifestFile
from webhook.cluster.snapshot.documents import ReadSnapshot
from webhook.cluster.snapshot.model import Setting, read_snapshot
from webhook.decisions.configuration import AdmitPolicy, CertificateSettings
from webhook.words.errors import NoNamespace
from webhook.words.names import DEFAULT_NAMESPACE


def setting_of(config: Path | None, policy: AdmitPolicy | None = None) -> Setting:
    """Return the facts beside the documents of a cluster.

    Args:
        config: The configuration file of the webhook.
        policy: The policy, if the caller has changed the one that follows from the configuration.

    Raises:
        ConfigError: the file cannot be read or used.
    """
    return cluster_setting(config, policy)[0]


def cluster_setting(config: Path | None, policy: AdmitPolicy | None = None) -> tuple[Setting, CertificateSettings]:
    """Return the facts beside the documents of a live cluster, and the names of the webhook's registration and Secret.

    Args:
        config: The configuration file of the webhook.
        policy: The policy, if the caller has changed the one that follows from the configuration.

    Raises:
        ConfigError: the file cannot be read or used.
    """
    settings, read = read_settings(config)
    policy = policy or read
    setting = Setting(
        policy=policy,
        is_configured=config is not None,
        registration=settings.certificates.webhook_configuration,
        names_hami=policy.versions.hami != read.versions.hami,
    )
    return setting, settings.certificates


def from_cluster(
    kubeconfig: Where,
    namespace: str | None,
    config: Path | None,
    *,
    files: Iterable[ManifestFile] = (),
    policy: AdmitPolicy | None = None,
) -> ReadSnapshot:
    """Read the present cluster.

    Args:
        kubeconfig: The cluster.
        namespace: The namespace of the pods; None for all.
        config: The configuration file of the webhook.
        files: Manifests, whose objects are added to the cluster or replace those of it.
        policy: The policy, if the caller has changed the one that follows from the configuration.

    Raises:
        GpuTopologyError: the cluster cannot be read, or has no such namespace.
    """
    from webhook.cluster.snapshot.files import read_manifests
    from webhook.cluster.snapshot.lists import read_cluster

    setting, certificates = cluster_setting(config, policy)
    given = read_manifests(files, None, default_namespace=DEFAULT_NAMESPACE)
    setting = msgspec.structs.replace(setting, workloads=tuple(given.workloads))
    documents = read_cluster(kubeconfig, namespace, certificates).under(given.documents)
    snapshot = read_snapshot(documents.others, documents.pods, setting)
    return ReadSnapshot(snapshot, documents, given.sources, templates=tuple(given.templates))


def from_files(  # noqa: PLR0913 - the inputs, and how they are read
    files: Iterable[ManifestFile],
    state: Path | None,
    namespace: str | None,
    config: Path | None,
    *,
    policy: AdmitPolicy | None = None,
    are_strict: bool = False,
    default_namespace: str = "",
) -> ReadSnapshot:
    """Read manifests and a state directory.

    Args:
        files: The manifests. An object in both is taken from them.
        state: The state directory.
        namespace: The namespace of the pods; None for all.
        config: The configuration file of the webhook.
        policy: The policy, if the caller has changed the one that follows from the configuration.
        are_strict: True if a field of another type in a pod of the manifests is always an error.
        default_namespace: The namespace of pods and workloads in manifests that name none. Without it, no template of a
            workload is read.

    Raises:
        GpuTopologyError: a file cannot be read, or no object is in this namespace.
    """
    from webhook.cluster.snapshot.files import read_manifests

    found = read_manifests(files, state, are_strict=are_strict, default_namespace=default_namespace)
    setting = msgspec.structs.replace(
        setting_of(config, policy),
        facts=found.facts,
        topologies=found.topologies,
        state=str(state or ""),
        workloads=tuple(found.workloads),
    )
    snapshot = read_snapshot(found.documents.others, found.documents.pods, setting)
    if namespace is not None and namespace not in {*snapshot.namespaces, *(pod.namespace for pod in snapshot.pods)}:
        raise NoNamespace(namespace, "these files")
    given, others, templates = tuple(found.given), tuple(found.others), tuple(found.templates)
    return ReadSnapshot(snapshot, found.documents, found.sources, given, others, templates)
