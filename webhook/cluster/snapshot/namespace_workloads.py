"""A Namespace with all of its labels and annotations, and the templates of the workloads in it, from the API server."""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from webhook.cluster.api.api_server import ApiServer, Object, connect_objects
from webhook.cluster.api.contexts import Where
from webhook.cluster.api.errors import ApiRefused, NotFound
from webhook.cluster.kinds import Kind
from webhook.cluster.redaction.parts import part, parts, texts
from webhook.cluster.snapshot.template_pods import FoundTemplate
from webhook.objects.manifest.templates import find_templates
from webhook.objects.pod import Namespace
from webhook.words import names
from webhook.words.errors import NoNamespace
from webhook.words.printable import fitted

KINDS = (
    Kind("Deployment", "deployments", "apps/v1", has_namespaces=True),
    Kind("StatefulSet", "statefulsets", "apps/v1", has_namespaces=True),
    Kind("DaemonSet", "daemonsets", "apps/v1", has_namespaces=True),
    Kind("ReplicaSet", "replicasets", "apps/v1", has_namespaces=True),
    Kind("CronJob", "cronjobs", "batch/v1", has_namespaces=True),
    Kind("Job", "jobs", "batch/v1", has_namespaces=True),
)
_MAKERS = frozenset({"Deployment", "CronJob"})
"""The kinds whose objects make objects of other kinds here; those are left out."""


@dataclass(slots=True)
class NamespaceWorkloads:
    """A namespace and its workloads, as the API server has them."""

    namespace: Namespace
    version: dict[str, str]
    """The ``uid`` and ``resourceVersion`` of the namespace."""
    templates: list[FoundTemplate] = field(default_factory=list)
    made: set[str] = field(default_factory=set)
    """Every workload that was read, by kind and name, also those that make no more pods."""
    problems: list[str] = field(default_factory=list)
    """Why a kind could not be listed."""


def read_workloads(where: Where, name: str) -> NamespaceWorkloads:
    """Read a namespace, and the workloads of the kinds that Kubernetes has.

    Raises:
        NoNamespace: there is no such namespace.
        GpuTopologyError: it cannot be read.
    """
    api = connect_objects(where, user_agent=names.NAMESPACE_USER_AGENT)

    async def read() -> NamespaceWorkloads:
        try:
            return await _read(api, name)
        finally:
            await api.close()

    return asyncio.run(read())


async def _read(api: ApiServer, name: str) -> NamespaceWorkloads:
    try:
        document = await api.namespace(name)
    except NotFound:
        raise NoNamespace(name) from None
    found = NamespaceWorkloads(_namespace(name, document), _version(document))
    for kind in KINDS:
        try:
            objects = await api.objects(kind.having(namespace=name))
        except ApiRefused as error:
            found.problems.append(str(error))
            continue
        for each in objects:
            _add(found, kind, each)
    return found


def _add(found: NamespaceWorkloads, kind: Kind, document: Object) -> None:
    owner = str(part(document, "metadata").get("name", ""))
    found.made.add(fitted(f"{kind.name} {owner}"))
    if _MAKERS.isdisjoint(_controllers(document)) and not _has_ended(document):
        whole = {"apiVersion": kind.api, **document, "kind": kind.name}
        for template in find_templates(whole):
            source = f"{kind.word} {found.namespace.name}/{owner}"
            found.templates.append(FoundTemplate(template, source, found.namespace.name))


def _namespace(name: str, document: Object) -> Namespace:
    metadata = part(document, "metadata")
    return Namespace(name, texts(metadata, "labels"), texts(metadata, "annotations"))


def _version(document: Object) -> dict[str, str]:
    metadata = part(document, "metadata")
    return {key: str(metadata[key]) for key in ("uid", "resourceVersion") if key in metadata}


def _controllers(document: Mapping[str, Any]) -> Iterator[str]:
    owners = parts(part(document, "metadata"), "ownerReferences")
    return (str(owner.get("kind")) for owner in owners if owner.get("controller") is True)


def _has_ended(document: Mapping[str, Any]) -> bool:
    """Return whether a Job has ended, so that it makes no more pods."""
    conditions = parts(part(document, "status"), "conditions")
    return any(each.get("type") in ("Complete", "Failed") and each.get("status") == "True" for each in conditions)
