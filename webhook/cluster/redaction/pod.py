"""The reduction of a pod: see :mod:`webhook.cluster.redaction.objects`."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from webhook.cluster.redaction.parts import (
    REDACTED,
    is_kept_variable,
    kept_annotations,
    keys_like_ours,
    part,
    parts,
    texts,
)
from webhook.decisions.request.settings import CUT, Place, read_texts
from webhook.decisions.request.transfer_flags import spelled
from webhook.objects.pod import Container, MalformedPod
from webhook.words import names
from webhook.words.printable import fitted

Object = dict[str, Any]

_LABELS = (names.PREFIX, "hami.io/", "nvidia.com/", "volcano.sh/")
_OTHER_LABELS = names.MULTINODE_LABELS | {
    names.JOB_ROLE,
    "pod-template-hash",
    "leaderworkerset.sigs.k8s.io/group-key",
}
_METADATA = ("name", "generateName", "namespace", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp")
_SPEC = (
    *("hostIPC", "hostPID", "hostNetwork", "hostname", "shareProcessNamespace", "dnsPolicy", "nodeName"),
    "schedulerName",
    *("runtimeClassName", "priority", "nodeSelector", "affinity", "tolerations", "overhead", "schedulingGates"),
)
_MESSAGES = frozenset({"PodScheduled", names.PLACED_CONDITION})
"""Conditions whose messages come from schedulers and the planner."""
_UNKNOWN_DEVICE = re.compile(r"[\w./-]{1,64}: unknown device")
"""What is kept of a failed start: the GPU that nvidia-container-cli does not find."""
_LONGEST_MESSAGE = 4096
_PLACES = (names.SHARED_MEMORY_PATH, names.FILES_PATH, "/etc/ld.so.preload", "/dev/nvidia", "/var/run/nvidia")
_COMMAND_FIELDS = ("command", "args", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle")
_PROGRAM_ARGUMENTS = ("--mode", "init", "sidecar")


def kept_pod(document: Mapping[str, Any]) -> Object:
    """Keep the fields of a pod that explain and the planner read."""
    spec = part(document, "spec")
    found: Object = {key: spec[key] for key in _SPEC if spec.get(key) is not None}
    found |= {key: list(map(_container, parts(spec, key))) for key in ("initContainers", "containers") if key in spec}
    if "volumes" in spec:
        found["volumes"] = list(map(_volume, parts(spec, "volumes")))
    if "resources" in spec:
        found["resources"] = _resources(spec)
    if "resourceClaims" in spec:
        wanted = ("name", "resourceClaimName", "resourceClaimTemplateName")
        found["resourceClaims"] = [_only(claim, *wanted) for claim in parts(spec, "resourceClaims")]
    if "securityContext" in spec:
        found["securityContext"] = _only(part(spec, "securityContext"), "runAsUser")
    return {"metadata": _metadata(document), "spec": found, "status": _status(part(document, "status"))}


def _metadata(document: Mapping[str, Any]) -> Object:
    found = part(document, "metadata")
    metadata: Object = {key: found[key] for key in _METADATA if isinstance(found.get(key), str)}
    given = texts(found, "labels")
    labels = keys_like_ours(given) | {
        key: value for key, value in given.items() if key.startswith(_LABELS) or key in _OTHER_LABELS
    }
    annotations = kept_annotations(found)
    owners = [
        _only(owner, "apiVersion", "kind", "name", "uid", "controller") for owner in parts(found, "ownerReferences")
    ]
    return metadata | {
        key: value
        for key, value in (("labels", labels), ("annotations", annotations), ("ownerReferences", owners))
        if value
    }


def _only(found: Mapping[str, Any], *keys: str) -> Object:
    return {key: found[key] for key in keys if isinstance(found.get(key), str | int | bool)}


def _container(container: Mapping[str, Any]) -> Object:
    found = _only(container, "name", "restartPolicy")
    if "resources" in container:
        found["resources"] = _resources(container)
    if isinstance(container.get("env"), list):
        found["env"] = list(map(_variable, parts(container, "env")))
    if parts(container, "envFrom"):
        found["envFrom"] = [{} for _ in parts(container, "envFrom")]
    if "volumeMounts" in container:
        found["volumeMounts"] = [_mount(each, number) for number, each in enumerate(parts(container, "volumeMounts"))]
    if "securityContext" in container:
        found["securityContext"] = _only(part(container, "securityContext"), "privileged", "runAsUser")
    return found | (_program(container) or _command(container))


def _resources(holder: Mapping[str, Any]) -> Object:
    found = part(holder, "resources")
    kept: Object = {key: _amounts(part(found, key)) for key in ("limits", "requests") if found.get(key) is not None}
    if "claims" in found:
        kept["claims"] = [_only(claim, "name", "request") for claim in parts(found, "claims")]
    return kept


def _amounts(found: Mapping[str, Any]) -> Object:
    return {str(name): amount for name, amount in found.items() if isinstance(amount, str | int | float)}


def _variable(variable: Mapping[str, Any]) -> Object:
    name, value, source = variable.get("name"), variable.get("value"), variable.get("valueFrom")
    found: Object = {"name": name}
    if isinstance(value, str):
        found["value"] = value if not value or is_kept_variable(str(name)) else REDACTED
    if isinstance(source, Mapping):
        wanted = {"fieldRef": ("apiVersion", "fieldPath"), "fileKeyRef": ("volumeName", "path", "key", "optional")}
        found["valueFrom"] = {key: _only(part(source, key), *keys) for key, keys in wanted.items() if key in source}
    return found


def _mount(mount: Mapping[str, Any], number: int) -> Object:
    path = str(mount.get("mountPath", ""))
    shown = path if path.rstrip("/") in ("", "/dev", "/run") or path.startswith(_PLACES) else f"/{REDACTED}/{number}"
    return _only(mount, "name", "readOnly") | {"mountPath": shown}


def _volume(volume: Mapping[str, Any]) -> Object:
    found = _only(volume, "name")
    if isinstance(volume.get("emptyDir"), Mapping):
        found["emptyDir"] = _only(part(volume, "emptyDir"), "medium", "sizeLimit")
    host_path = volume.get("hostPath")
    if isinstance(host_path, Mapping) and str(host_path.get("path", "")).rstrip("/") == names.SHARED_MEMORY_PATH:
        found["hostPath"] = {"path": names.SHARED_MEMORY_PATH}
    return found


def _program(container: Mapping[str, Any]) -> Object | None:
    """Keep the remap program as admission writes it; None if the container runs another program."""
    command, arguments = container.get("command"), container.get("args") or []
    if command != list(names.REMAP_COMMAND) or not isinstance(arguments, list):
        return None
    if not all(argument in _PROGRAM_ARGUMENTS for argument in arguments):
        return None
    return _only(container, "image", "imagePullPolicy") | {"command": command, "args": arguments}


def _command(container: Mapping[str, Any]) -> Object:
    """Keep of a container's commands only the settings in them, and the signs that it has peers."""
    raw = {key: container[key] for key in _COMMAND_FIELDS if key in container}
    if not raw and not container.get("env"):
        return {}
    kept: dict[str, list[str]] = {place: [] for place in Place}
    try:
        decoded = msgspec.json.decode(
            msgspec.json.encode({"name": "", "env": container.get("env"), **raw}), type=Container
        )
        texts = next(read_texts([decoded]))
        for setting in texts.settings:
            kept[setting.place] += setting.words
        kept[Place.COMMAND] += spelled(decoded)
        if texts.is_cut:
            kept[Place.COMMAND].append(CUT)
    except (msgspec.MsgspecError, MalformedPod, TypeError, RecursionError):
        if raw:  # nobody knows what the commands say
            kept[Place.COMMAND].append(CUT)
    found: Object = {"command": [REDACTED, *kept[Place.COMMAND]]} if raw or kept[Place.COMMAND] else {}
    if kept[Place.ARGUMENTS]:
        found["args"] = kept[Place.ARGUMENTS]
    if kept[Place.HOOK]:
        found["livenessProbe"] = {"exec": {"command": kept[Place.HOOK]}}
    return found


def _status(status: Mapping[str, Any]) -> Object:
    found = _only(status, "phase", "startTime")
    conditions = [
        _only(
            each,
            "type",
            "status",
            "reason",
            "lastTransitionTime",
            *(("message",) if each.get("type") in _MESSAGES else ()),
        )
        for each in parts(status, "conditions")
    ]
    if conditions:
        found["conditions"] = conditions
    for key in ("initContainerStatuses", "containerStatuses"):
        states = [_program_state(each) if _is_of_remap(each) else _unstarted(each) for each in parts(status, key)]
        if any(states):
            found[key] = list(filter(None, states))
    if "resourceClaimStatuses" in status:
        found["resourceClaimStatuses"] = [
            _only(each, "name", "resourceClaimName") for each in parts(status, "resourceClaimStatuses")
        ]
    if "extendedResourceClaimStatus" in status:
        claimed = part(status, "extendedResourceClaimStatus")
        mappings = [
            _only(each, "containerName", "resourceName", "requestName") for each in parts(claimed, "requestMappings")
        ]
        found["extendedResourceClaimStatus"] = _only(claimed, "resourceClaimName") | {"requestMappings": mappings}
    return found


def _is_of_remap(found: Mapping[str, Any]) -> bool:
    return str(found.get("name", "")).startswith(names.REMAP_CONTAINER)


def _program_state(found: Mapping[str, Any]) -> Object:
    """Keep the state of the remap program: why it waits, since when it runs, how it ended."""
    kept = _only(found, "name", "started")
    for key in ("state", "lastState"):
        state = part(found, key)
        waiting, running, ended = (part(state, each) for each in ("waiting", "running", "terminated"))
        if ended:
            kept[key] = {"terminated": _only(ended, "exitCode") | _message(ended)}
        elif waiting:
            kept[key] = {"waiting": _only(waiting, "reason") | _message(waiting)}
        elif running:
            kept[key] = {"running": _only(running, "startedAt")}
    return kept


def _unstarted(found: Mapping[str, Any]) -> Object:
    """Keep the state of a container of the user that was given a GPU which its node does not have; else nothing."""
    states = {key: part(found, key) for key in ("state", "lastState")}
    kept = {
        key: {phase: {"message": said[0]}}
        for key, state in states.items()
        for phase in ("waiting", "terminated")
        if (said := _UNKNOWN_DEVICE.search(str(part(state, phase).get("message", ""))[:_LONGEST_MESSAGE]))
    }
    return _only(found, "name") | kept if kept and "running" not in states["state"] else {}


def _message(state: Mapping[str, Any]) -> Object:
    """Keep the termination message, which is the first line of the program's report, or the kubelet's message."""
    message = state.get("message")
    return {"message": fitted(message)} if isinstance(message, str) and message else {}
