"""The pod of a reference: the pod itself, the newest pod of a workload, or the one that its template would make."""

from collections.abc import Callable, Mapping
from typing import Any

from webhook.cluster.api.api_server import Object
from webhook.cluster.api.errors import NotFound
from webhook.cluster.snapshot.pod_reference import POD, Wanted
from webhook.cluster.snapshot.pod_surroundings import Around
from webhook.words.errors import FormatError, GpuTopologyError, NoNamespace

_OPERATORS: Mapping[str, Callable[[str, str], str]] = {
    "In": lambda key, values: f"{key} in ({values})",
    "NotIn": lambda key, values: f"{key} notin ({values})",
    "Exists": lambda key, _: key,
    "DoesNotExist": lambda key, _: f"!{key}",
}


def find_pod(cluster: Around, wanted: Wanted) -> Object:
    """Find the pod. If a workload is named, this writes a note on standard error.

    Raises:
        GpuTopologyError: there is no such pod or workload, or it cannot be read.
    """
    try:
        if wanted.kind is POD:
            return cluster.ask(cluster.api.pod(wanted.namespace, wanted.name))
        return _pod_of_workload(cluster, wanted)
    except NotFound:
        raise _missing(cluster, wanted) from None


def _missing(cluster: Around, wanted: Wanted) -> GpuTopologyError:
    """Return an error that names the missing object: the pod, or its namespace already."""
    try:
        cluster.ask(cluster.api.namespace(wanted.namespace))
    except NotFound:
        return NoNamespace(wanted.namespace)
    except GpuTopologyError:  # without the right to read namespaces, the message names the pod alone
        pass
    return GpuTopologyError(f"there is no {wanted.kind.word} {wanted.namespace}/{wanted.name} in this cluster")


def _pod_of_workload(cluster: Around, wanted: Wanted) -> Object:
    """Find the newest pod of a workload, or make one of its template; a note on standard error says so.

    Raises:
        NotFound: there is no such workload.
        GpuTopologyError: the workload cannot be read, or has no template.
    """
    kind, namespace, name = wanted.kind, wanted.namespace, wanted.name
    what = f"{kind.word} {namespace}/{name}"
    workload = cluster.ask(cluster.api.workload(kind.group, kind.resource, namespace, name))
    spec = _object(workload, "spec")
    selector = label_selector(_object(spec, "selector"), what)
    pods = cluster.ask(cluster.api.pods(namespace, label=selector)) if selector else []
    if pods:
        newest = max(pods, key=_created)
        others = f" of {len(pods)}" if len(pods) > 1 else ""
        cluster.tell(f"gpu-topology: {what}: the newest pod{others} is {_object(newest, 'metadata').get('name')}")
        return newest
    template = _object(spec, "template")
    if not template:
        raise GpuTopologyError(f"{what} has no template of pods")
    cluster.tell(f"gpu-topology: {what} has no pod; what follows is about its template")
    metadata = _object(template, "metadata") | {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": _object(template, "spec")}


def label_selector(selector: Mapping[str, Any], what: str) -> str:
    """Return a selector of objects as queries write it; empty if it selects by nothing.

    Raises:
        FormatError: an operator is not known.
    """
    labels = selector.get("matchLabels")
    parts = [f"{key}={value}" for key, value in (labels.items() if isinstance(labels, dict) else ())]
    expressions = selector.get("matchExpressions")
    for each in expressions if isinstance(expressions, list) else ():
        operator = str(each.get("operator"))
        if operator not in _OPERATORS:
            raise FormatError(f"{what}: selector", expected=", ".join(_OPERATORS), found=operator)
        parts.append(_OPERATORS[operator](str(each.get("key")), ",".join(map(str, each.get("values") or ()))))
    return ",".join(parts)


def _created(pod: Object) -> tuple[str, str]:
    """Return a key that sorts pods by age: RFC 3339 in UTC sorts as text, and pods of one second by name."""
    metadata = _object(pod, "metadata")
    return str(metadata.get("creationTimestamp", "")), str(metadata.get("name", ""))


def _object(document: Mapping[str, Any], member: str) -> dict[str, Any]:
    value = document.get(member)
    return value if isinstance(value, dict) else {}
