"""The reduction of Kubernetes objects to the fields that are judged, without anything that may be secret.

Every object is reduced before it is judged, whether it comes from a cluster or from a file. So ``gpu-topology state
save`` writes what ``gpu-topology analyze`` has judged. Names, scheduling terms and labels of nodes are kept unchanged.
"""

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any, Final

from webhook.cluster.redaction.claims import kept_claim, kept_slice, kept_template
from webhook.cluster.redaction.parts import kept_annotations, keys_like_ours, only, part, parts, texts, words
from webhook.cluster.redaction.pod import kept_pod
from webhook.hardware.topology.document import parse_topology
from webhook.hardware.traffic.model import parse_traffic
from webhook.objects.claims import CLAIM, SLICE, TEMPLATE
from webhook.objects.failed_creation import failed_creation
from webhook.words import names
from webhook.words.errors import FormatError
from webhook.words.printable import fitted

Object = dict[str, Any]

RUNTIME_CLASS = "RuntimeClass"
CERTIFICATES, SNAPSHOT = "ClusterCertificates", "ClusterSnapshot"
"""The kinds of our own documents: the public facts of certificates; the time and completeness of a reading."""
_OWN_VERSION = f"{names.PREFIX}v1"
_EVENT_LIMIT = 1000
"""Characters of the message of an Event."""
_NODE_ANNOTATIONS = (names.HAMI_NODE_REGISTER, names.HAMI_NODE_SCORE, names.HAMI_DEVICE_CORDON)
_NAMESPACE_LABELS = (names.PREFIX, "hami.io/", "pod-security.kubernetes.io/")


def kept(document: Mapping[str, Any]) -> Object | None:
    """Keep the judged fields of an object; None if it is of a kind that is not judged.

    Args:
        document: The object as the API server sends it, with ``apiVersion`` and ``kind``.
    """
    kind = document.get("kind")
    reader = _READERS.get(kind) if isinstance(kind, str) else None
    if reader is None or (kind in (CERTIFICATES, SNAPSHOT)) != (document.get("apiVersion") == _OWN_VERSION):
        return None
    found = reader(document)
    return None if found is None else {"apiVersion": document.get("apiVersion", "v1"), "kind": kind, **found}


def identity(document: Mapping[str, Any]) -> tuple[str, str]:
    """Return namespace and name; empty if the object has none."""
    metadata = part(document, "metadata")
    namespace, name = metadata.get("namespace"), metadata.get("name")
    return (namespace if isinstance(namespace, str) else "", name if isinstance(name, str) else "")


def _metadata(document: Mapping[str, Any], *, labels: Collection[str] | None = ()) -> Object:
    """Keep name, namespace, uid, times, and labels whose keys begin with one of ``labels`` (``None``: all)."""
    found = part(document, "metadata")
    metadata: Object = {
        key: found[key]
        for key in ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp")
        if isinstance(found.get(key), str)
    }
    chosen = texts(found, "labels")
    if labels is not None:
        chosen = {key: value for key, value in chosen.items() if key.startswith(tuple(labels))}
    return metadata | ({"labels": chosen} if chosen else {})


def _namespace(document: Mapping[str, Any]) -> Object:
    found = part(document, "metadata")
    metadata = _metadata(document, labels=_NAMESPACE_LABELS)
    labels = metadata.get("labels", {}) | keys_like_ours(texts(found, "labels"))
    annotations = kept_annotations(found)
    users = texts(found, "annotations").get(names.OPENSHIFT_USERS)
    if users is not None:
        annotations[names.OPENSHIFT_USERS] = users
    return {"metadata": metadata | {"labels": labels, "annotations": annotations}}


def _node(document: Mapping[str, Any]) -> Object:
    found = texts(part(document, "metadata"), "annotations")
    annotations = {key: found[key] for key in _NODE_ANNOTATIONS if key in found}
    spec, status = part(document, "spec"), part(document, "status")
    taints = [
        {key: taint.get(key) for key in ("key", "value", "effect") if key in taint} for taint in parts(spec, "taints")
    ]
    conditions = [
        {key: each[key] for key in ("type", "status") if isinstance(each.get(key), str)}
        for each in parts(status, "conditions")
        if each.get("type") == "Ready"
    ]
    return {
        "metadata": _metadata(document, labels=None) | {"annotations": annotations},
        "spec": ({"unschedulable": True} if spec.get("unschedulable") is True else {})
        | ({"taints": taints} if taints else {}),
        "status": {"allocatable": dict(part(status, "allocatable")), "conditions": conditions},
    }


def _config_map(document: Mapping[str, Any]) -> Object | None:
    """Keep a ConfigMap that an agent published; None for another one."""
    metadata = _metadata(document, labels=(names.NODE,))
    text = texts(document, "data").get(names.TOPOLOGY_KEY)
    if names.NODE not in metadata.get("labels", {}):
        return None
    owners = [
        {key: owner[key] for key in ("kind", "name", "uid") if isinstance(owner.get(key), str)}
        for owner in parts(part(document, "metadata"), "ownerReferences")
    ]
    data = {names.TOPOLOGY_KEY: text} if text is not None and _is_topology(text) else {}
    return {"metadata": metadata | ({"ownerReferences": owners} if owners else {}), "data": data}


def _is_topology(text: str) -> bool:
    try:
        parse_topology(text, source=names.TOPOLOGY_KEY)
    except FormatError:
        return False
    return True


def _is_traffic(text: str) -> bool:
    try:
        parse_traffic(text, source=names.TRAFFIC)
    except FormatError:
        return False
    return True


def _lease(document: Mapping[str, Any]) -> Object | None:
    metadata, spec = _metadata(document, labels=(names.NODE,)), part(document, "spec")
    if names.NODE not in metadata.get("labels", {}) and metadata.get("name") != names.PLANNER_LEASE:
        return None
    traffic = texts(part(document, "metadata"), "annotations").get(names.TRAFFIC)
    if traffic and _is_traffic(traffic):
        metadata["annotations"] = {names.TRAFFIC: traffic}
    wanted = ("holderIdentity", "leaseDurationSeconds", "renewTime")
    return {"metadata": metadata, "spec": {key: spec[key] for key in wanted if isinstance(spec.get(key), str | int)}}


def _deployment(document: Mapping[str, Any]) -> Object | None:
    """Keep a Deployment of HAMi's scheduler, or of a program of ours; None for another one."""
    label, value = names.HAMI_SCHEDULER_LABEL
    metadata = _metadata(document, labels=(label, names.VERSION_LABEL))
    if metadata.get("labels", {}).get(label) != value:
        return _program(document)
    spec = part(part(part(document, "spec"), "template"), "spec")
    containers = [
        {"name": each["name"], "image": each["image"]}
        for each in parts(spec, "containers")
        if each.get("name") == names.HAMI_SCHEDULER_CONTAINER and isinstance(each.get("image"), str)
    ]
    account = spec.get("serviceAccountName")
    named = {"serviceAccountName": account} if isinstance(account, str) else {}
    return {"metadata": metadata, "spec": {"template": {"spec": named | {"containers": containers}}}}


def _program(document: Mapping[str, Any]) -> Object | None:
    """Keep how many replicas of a program of ours are wanted and ready; None for another workload."""
    label, value = names.PROGRAM_LABEL
    metadata = _metadata(document, labels=(label, names.COMPONENT_LABEL))
    if metadata.get("labels", {}).get(label) != value:
        return None
    status = part(document, "status")
    return {
        "metadata": metadata,
        "spec": only(part(document, "spec"), int, "replicas"),
        "status": only(status, int, "readyReplicas", "desiredNumberScheduled", "numberReady"),
    }


def _endpoints(document: Mapping[str, Any]) -> Object:
    """Keep of the endpoints of a Service whether they are ready."""
    ready = [only(part(each, "conditions"), bool, "ready") for each in parts(document, "endpoints")]
    return {
        "metadata": _metadata(document, labels=(names.SERVICE_LABEL,)),
        "endpoints": [{"conditions": each} for each in ready],
    }


def _event(document: Mapping[str, Any]) -> Object | None:
    """Keep an Event about a pod that a webhook or a quota refused, or about which a webhook gave no answer."""
    message = document.get("message")
    if document.get("reason") != "FailedCreate" or not isinstance(message, str) or failed_creation(message) is None:
        return None
    found = {"metadata": _metadata(document), "reason": "FailedCreate", "message": fitted(message, _EVENT_LIMIT)}
    found["involvedObject"] = only(part(document, "involvedObject"), str, "kind", "namespace", "name", "uid")
    found["series"] = only(part(document, "series"), str, "lastObservedTime")
    return found | only(document, str, "lastTimestamp", "eventTime")


def _registration(document: Mapping[str, Any]) -> Object:
    return {"metadata": _metadata(document), "webhooks": list(map(_webhook, parts(document, "webhooks")))}


def _webhook(webhook: Mapping[str, Any]) -> Object:
    service = part(part(webhook, "clientConfig"), "service")
    wanted = ("operations", "apiGroups", "resources")
    rules = [{key: list(words(rule, key)) for key in wanted if key in rule} for rule in parts(webhook, "rules")]
    found: Object = {key: webhook[key] for key in ("name", "reinvocationPolicy") if isinstance(webhook.get(key), str)}
    found["clientConfig"] = {"service": texts(part(webhook, "clientConfig"), "service")} if service else {}
    found["rules"] = rules
    conditions = [
        {key: each[key] for key in ("name", "expression") if isinstance(each.get(key), str)}
        for each in parts(webhook, "matchConditions")
    ]
    is_ours = str(webhook.get("name", "")).endswith(names.PREFIX.rstrip("/"))
    return found | ({"matchConditions": conditions} if conditions and is_ours else {})


def _runtime_class(document: Mapping[str, Any]) -> Object:
    return {"metadata": _metadata(document)}


def _device_class(document: Mapping[str, Any]) -> Object:
    served = part(document, "spec").get("extendedResourceName")
    return {
        "metadata": _metadata(document),
        "spec": {"extendedResourceName": served} if isinstance(served, str) else {},
    }


def _certificates(document: Mapping[str, Any]) -> Object:
    wanted = ("place", "fingerprint", "begins", "ends")
    found = [
        {key: each[key] for key in wanted if isinstance(each.get(key), str)} for each in parts(document, "certificates")
    ]
    return {"metadata": _metadata(document), "places": list(words(document, "places")), "certificates": found}


def _snapshot(document: Mapping[str, Any]) -> Object:
    found = {key: document[key] for key in ("at", "kubernetes") if isinstance(document.get(key), str)}
    unread = [
        {key: each[key] for key in ("what", "problem") if isinstance(each.get(key), str)}
        | ({"denied": True} if each.get("denied") is True else {})
        for each in parts(document, "unread")
    ]
    return {"metadata": _metadata(document), **found, "read": list(words(document, "read")), "unread": unread}


_READERS: Final[Mapping[str, Callable[[Mapping[str, Any]], Object | None]]] = MappingProxyType(
    {
        "Pod": kept_pod,
        "Namespace": _namespace,
        "Node": _node,
        "ConfigMap": _config_map,
        "Lease": _lease,
        "Deployment": _deployment,
        "DaemonSet": _program,
        "EndpointSlice": _endpoints,
        "Event": _event,
        "MutatingWebhookConfiguration": _registration,
        RUNTIME_CLASS: _runtime_class,
        "DeviceClass": _device_class,
        CLAIM: kept_claim,
        TEMPLATE: kept_template,
        SLICE: kept_slice,
        CERTIFICATES: _certificates,
        SNAPSHOT: _snapshot,
    }
)
