"""JSON Patch operations in short words for people."""

import json
from collections.abc import Iterator
from typing import Any

from jsonpointer import unescape


def describe(pod: Any, operations: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Describe the changes of each place (``container trainer``, ``pod``), one line each.

    Args:
        pod: The pod before the patch.
        operations: The patch, as JSON.
    """
    changes: dict[str, list[str]] = {}
    for operation in operations:
        place, rest = _place(pod, [unescape(part) for part in operation["path"].split("/")[1:]])
        sign = {"add": "+", "replace": "~", "remove": "-"}[operation["op"]]
        texts = [".".join(rest)] if sign == "-" else _texts(rest, operation["value"])
        changes.setdefault(place, []).extend(f"{sign} {text}" for text in texts)
    return {place: lines for place, lines in changes.items() if lines}


def _place(pod: Any, parts: list[str]) -> tuple[str, list[str]]:
    if parts[0] == "metadata":
        return "pod", parts[1:]
    section = parts[1]
    if section in ("containers", "initContainers") and len(parts) > 3:
        return f"container {pod['spec'][section][int(parts[2])]['name']}", parts[3:]
    return "pod", parts[1:]


def _texts(rest: list[str], value: Any) -> Iterator[str]:
    """Yield one line for each thing that a value adds."""
    kind = rest[0] if rest else ""
    if kind in _SINGULAR:
        for item in value if isinstance(value, list) else [value]:
            yield f"{_SINGULAR[kind]} {_item(kind, item)}"
    elif isinstance(value, dict) and (kind != "affinity" or not value):
        for key, inner in value.items():
            yield from _texts([*rest, key], inner)
    else:
        label = {"annotations": "annotation ", "labels": "label "}.get(kind, "")
        name = rest[1] if label and len(rest) > 1 else ".".join(part for part in rest if part != "-")
        yield f"{label}{name}: {value if isinstance(value, str) else json.dumps(value)}"


_START, _END = "annotations['", "']"
_SINGULAR = {"env": "env", "volumeMounts": "mount", "volumes": "volume", "initContainers": "init container"}


def _item(kind: str, item: dict[str, Any]) -> str:
    if kind == "env":
        if "valueFrom" in item:
            path = item["valueFrom"]["fieldRef"]["fieldPath"].removeprefix("metadata.").removesuffix(_END)
            return f"{item['name']} from {path.replace(_START, 'annotation ')}"
        return f"{item['name']}={item['value']}"
    if kind == "volumeMounts":
        return f"{item['name']} at {item['mountPath']}"
    if kind == "volumes":
        source = item["emptyDir"]
        return f"{item['name']} ({source.get('medium', 'disk')}, {source['sizeLimit']})"
    restartable = ", restartable" if item.get("restartPolicy") == "Always" else ""
    return f"{item['name']} ({item['image']}{restartable})"
