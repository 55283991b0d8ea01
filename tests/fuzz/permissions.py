"""What a pod may become without its administrator's word: an oracle that shares no code with the decisions."""

import re
from typing import Any

Manifest = dict[str, Any]

_OUTPUT = re.compile(
    r"gpu\.topology/(injected|visible-uuids|nccl-nvls|node-topology|link|bandwidth|ring-order|numa|satisfied|placed"
    r"|claimed-gpus"
    r"|cuda-visible-devices\..*|nccl-env\..*)",
    re.DOTALL,
)
_HOST = {"hostIPC": "allow-host-ipc", "hostPID": "allow-host-pid", "hostNetwork": "allow-host-network"}
_NRI = re.compile(r"nvidia\.cdi\.k8s\.io(/pod|/container\..*)?", re.DOTALL)
_NOTHING = (None, "", "none", "void")
_OWN_CARDS = "metadata.annotations['gpu.topology/visible-uuids']"
_KEPT = ("name", "image", "command", "args", "securityContext", "lifecycle", "ports")
"""Fields of users' containers that stay as they are."""
_CONTAINER = r"/spec/(init)?[cC]ontainers/\d+"
_GONE = re.compile(r"remove /spec/initContainers/\d+")
_DOCUMENTED = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        r"(add|replace|remove) /metadata/annotations/gpu\.topology~1.*",
        r"(add|replace) /metadata/annotations/(hami\.io~1gpu-scheduler-policy|nvidia\.com~1numa-bind)",
        r"add /metadata(/annotations|/labels)?",
        r"(add|replace) /metadata/labels/gpu\.topology~1group",
        r"(add|replace|remove) /metadata/labels/gpu\.topology~1placement",
        r"add /spec/schedulingGates(/-)?",
        r"(add|replace) /spec/(hostIPC|hostPID|hostNetwork|shareProcessNamespace|dnsPolicy|runtimeClassName)",
        rf"(add|replace) {_CONTAINER}/(env|volumeMounts)(/\d+|/-)?",
        rf"(add|replace|remove) {_CONTAINER}/resources(/(limits|requests)(/[^/]*)?)?",
        r"(add|replace) /spec/initContainers(/\d+|/-)?",
        r"(add|replace) /spec/volumes(/-)?",
        r"(add|replace) /spec/affinity(/podAffinity(/[a-zA-Z]*(/-)?)?)?",
    )
)


def outputs(pod: Manifest) -> Manifest:
    """The annotations that only we write."""
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    return {key: value for key, value in annotations.items() if _OUTPUT.fullmatch(key)}


def with_other_outputs(pod: Manifest) -> Manifest:
    """The pod as if something else had been written into what only we write."""
    found = outputs(pod)
    if not found:
        return pod
    annotations = pod["metadata"]["annotations"] | dict.fromkeys(found, "forged")
    return pod | {"metadata": pod["metadata"] | {"annotations": annotations}}


def check_operations(operations: list[Manifest]) -> None:
    """A patch touches only what docs/injection.md names; an init container goes only to come first."""
    for number, operation in enumerate(operations):
        then = operations[number + 1] if number + 1 < len(operations) else {}
        text = f"{operation['op']} {operation['path']}"
        if _GONE.fullmatch(text) and (then.get("op"), then.get("path")) == ("add", "/spec/initContainers/0"):
            continue
        assert any(pattern.fullmatch(text) for pattern in _DOCUMENTED), f"a patch that {text[:300]}"


def check_permissions(before: Manifest, after: Manifest, labels: Manifest) -> None:
    """Nothing reaches beyond the pod unless a label of its namespace allows it."""
    old, new = before.get("spec") or {}, after.get("spec") or {}
    for field, label in _HOST.items():
        if not _allows(labels, label):
            assert not new.get(field) or old.get(field), f"{field} without {label}"
    _check_volumes(old.get("volumes") or [], new.get("volumes") or [])
    _check_containers(old, new)
    if not _allows(labels, "allow-node-gpus"):
        _check_gpus(before, after)


def _allows(labels: Manifest, permission: str) -> bool:
    return bool(labels.get(f"gpu.topology/{permission}") == "true")


def _check_volumes(before: list[Manifest], after: list[Manifest]) -> None:
    assert after[: len(before)] == before
    for volume in after[len(before) :]:
        assert volume.keys() == {"name", "emptyDir"}, f"a volume {volume}"


def _check_containers(before: Manifest, after: Manifest) -> None:
    """No container becomes more than it was, and one that was added is ours."""
    inits = _in_new_order(before.get("initContainers") or [], after.get("initContainers") or [])
    old = [*inits, *(before.get("containers") or [])]
    new = [*(after.get("initContainers") or []), *(after.get("containers") or [])]
    added = None
    if len(new) > len(old):
        added, *new = new
        assert len(new) == len(old), f"{len(new) - len(old)} more containers than one"
    for one, other in zip(old, new, strict=True):
        if other.get("command") == ["gpu-topology", "remap"] and one != other:
            is_mended = _is_ours(other) and one.get("name") == other.get("name")
            is_kept = all(one.get(key) == other.get(key) for key in _KEPT)
            assert is_mended or is_kept, f"container {one.get('name')} becomes another"
            continue
        assert all(one.get(key) == other.get(key) for key in _KEPT), f"container {one['name']} becomes another"
    assert added is None or _is_ours(added), f"a container {added}"


def _in_new_order(before: list[Manifest], after: list[Manifest]) -> list[Manifest]:
    """The init containers of before, ours first if it is the first one now."""
    if len(before) != len(after) or not _is_ours(after[0] if after else {}):
        return before
    place = next((place for place, each in enumerate(before) if each.get("name") == after[0].get("name")), 0)
    return [before[place], *before[:place], *before[place + 1 :]]


def _is_ours(container: Manifest) -> bool:
    """Whether it is the remap container, with no more rights than that needs."""
    context = container.get("securityContext")
    return (
        container.get("command") == ["gpu-topology", "remap"]
        and isinstance(context, dict)
        and not context.get("privileged")
        and context.get("allowPrivilegeEscalation") is False
        and context.get("runAsNonRoot") is True
        and context.get("capabilities") == {"drop": ["ALL"]}
    )


def _check_gpus(before: Manifest, after: Manifest) -> None:
    """The pod shows its containers no GPU but their own and each other's."""
    shown = _shown(before)
    for container, entry in _shown(after):
        assert (container, entry) in shown or _is_own(entry), f"container {container} sees {entry}"


def _is_own(entry: Manifest) -> bool:
    """Whether a list of GPUs is empty, or the one that bind writes of the pod's own."""
    source = entry.get("valueFrom")
    if not source:
        return entry.get("value") in _NOTHING
    if len(source) > 1:
        return True  # the API server refuses the pod (pkg/apis/core/validation, validateEnvVarValueFrom)
    return bool(source.keys() == {"fieldRef"} and source["fieldRef"].get("fieldPath") == _OWN_CARDS)


def _shown(pod: Manifest) -> list[tuple[str, Manifest]]:
    """The entries of ``env`` that show GPUs, each with the name of its container.

    Variables that no step looks at are not decoded, so an entry may be something else than in a pod.
    """
    spec = pod.get("spec") or {}
    containers = [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]
    return [
        (container["name"], entry)
        for container in containers
        for entry in container.get("env") or []
        if isinstance(entry, dict) and entry.get("name") == "NVIDIA_VISIBLE_DEVICES"
    ]


def check_injected(after: Manifest, labels: Manifest) -> None:
    """A pod that we prepared shows no GPU of others by a list of its own, whatever it brought along."""
    mark = outputs(after).get("gpu.topology/injected", "observe")
    if mark.endswith("observe") or _allows(labels, "allow-node-gpus"):
        return
    last = dict(_shown(after))  # of several entries the kubelet takes the last
    for container, entry in last.items():
        assert _is_own(entry), f"container {container} has an own list of GPUs: {entry}"
    annotations = (after.get("metadata") or {}).get("annotations") or {}
    asked = [key for key, devices in annotations.items() if _NRI.fullmatch(key) and "/gpu=" in devices]
    assert asked == [], f"NVIDIA's NRI plugin is asked for GPUs: {asked}"
    shown = outputs(after).get("gpu.topology/visible-uuids", "none")
    assert shown == "none", f"GPUs by the word of an annotation: {shown}"
