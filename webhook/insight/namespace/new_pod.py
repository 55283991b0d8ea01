"""A running pod without what was written to it since it was created, as its controller would make it anew.

What admission replaced or completed, such as requests for whole cards, is not known any more and stays.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from webhook.decisions.options import is_output
from webhook.objects.pod import Pod, decode_stored_pod
from webhook.words import names
from webhook.words.choices import Profile

_OF_SCHEDULERS = frozenset(
    {
        *names.HAMI_CHOICE,
        *(names.HAMI_MIG_ALLOCATIONS, names.VOLCANO_DEVICES_ALLOCATED, names.VOLCANO_ALLOCATED_NODE),
        names.KOORDINATOR_DEVICES_ALLOCATED,
    }
)
_LABELS = (names.PLACEMENT, names.GROUP)
_VOLUMES = frozenset({names.FILES_VOLUME, names.SHARED_MEMORY_VOLUME})
_VARIABLES = frozenset({names.ENV_DISABLE_CONTROL, names.ENV_NCCL_TOPO_FILE})
_OF_NODE_PEERS = frozenset({names.ENV_NCCL_HOSTID, names.ENV_NCCL_CUMEM_ENABLE, names.ENV_NVIDIA_VISIBLE_DEVICES})
"""Further variables that admission sets, to values that a user may write too, in this profile alone."""
_OF_ADMISSION = ("hostIPC", "hostPID", "shareProcessNamespace", "nodeName", "schedulingGates")

Object = dict[str, Any]


def as_new(document: bytes) -> Pod:
    """Returns the pod of a stored document as a new one.

    Raises:
        msgspec.DecodeError: a field has another type than in a pod.
    """
    pod: Object = msgspec.json.decode(document)
    metadata, spec = pod["metadata"], pod["spec"]
    annotations = metadata.get("annotations", {})
    metadata["annotations"] = {key: value for key, value in annotations.items() if not _was_written(key)}
    if names.INJECTED in annotations:
        labels = metadata.get("labels", {})
        metadata["labels"] = {key: value for key, value in labels.items() if key not in _LABELS}
        _strip(spec, was_node_peers=annotations[names.INJECTED].endswith(f" {Profile.NODE_PEERS}"))
    spec.pop("nodeName", None)
    return decode_stored_pod(msgspec.json.encode(pod))


def _was_written(key: str) -> bool:
    return is_output(key) or key in _OF_SCHEDULERS


def _strip(spec: Object, *, was_node_peers: bool) -> None:
    """Removes what admission adds to the spec of a pod."""
    added = _VARIABLES | _OF_NODE_PEERS if was_node_peers else _VARIABLES
    for field in _OF_ADMISSION:
        spec.pop(field, None)
    spec["volumes"] = _without(spec.get("volumes"), _VOLUMES)
    for field in ("initContainers", "containers"):
        spec[field] = [dict(_stripped(each, added)) for each in _without(spec.get(field), {names.REMAP_CONTAINER})]


def _stripped(container: Mapping[str, Any], added: frozenset[str]) -> Iterator[tuple[str, Any]]:
    for key, value in container.items():
        if key == "volumeMounts":
            yield key, _without(value, _VOLUMES)
        elif key == "env":
            yield key, [each for each in value if not _is_added(each, added)]
        else:
            yield key, value


def _is_added(variable: Mapping[str, Any], added: frozenset[str]) -> bool:
    """Returns whether admission adds such a variable."""
    path = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", "")
    name = variable["name"]
    return name in added or name.startswith(names.REMAP_ENV_PREFIX) or names.PREFIX in path


def _without(found: list[Object] | None, unwanted: "frozenset[str] | set[str]") -> list[Object]:
    return [each for each in found or () if each.get("name") not in unwanted]
