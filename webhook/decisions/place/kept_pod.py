"""The part of a pod that the planner keeps while the pod has no node.

A user may write megabytes into a pod, and a pod that was read keeps all of its JSON alive. So only what the planner
reads is kept, in memory of its own, and no more than a limit for each pod.
"""

from typing import Any, NamedTuple

import msgspec

from webhook.objects.pod import Container, Metadata, Pod, PodSpec
from webhook.words import names

MOST_KEPT = 128 * 1024
"""The most bytes that are kept of a pod. All annotations of a pod together may have 256 KiB."""
_LONGEST_OF_OTHERS = 2048
"""The most characters that are kept of an annotation of another program."""
_TEXT_BYTES = 80
"""About the bytes that Python takes for a text beside its characters, with its place in a mapping: a user may write
thousands of short labels."""
_OBJECT_BYTES = 64
_NOT_KEPT = msgspec.Raw()
_READ = (names.PREFIX, "hami.io/", "nvidia.com/")


class KeptPod(NamedTuple):
    """What is kept of a pod."""

    pod: Pod
    size: int
    """About its bytes."""
    why_cut: str
    """Why only what opens the gate is kept, in a clause; empty: all is kept that the planner reads."""


def kept_pod(pod: Pod) -> KeptPod:
    """Returns what is kept of a pod.

    Variables, mounts, commands, probes and volumes are left out: they decide nothing about cards.
    """
    metadata, spec = pod.metadata or Metadata(), pod.spec or PodSpec()
    annotations = metadata.annotations and {key: _cut(key, value) for key, value in metadata.annotations.items()}
    kept = msgspec.structs.replace(
        pod,
        metadata=msgspec.structs.replace(metadata, annotations=annotations),
        spec=msgspec.structs.replace(
            spec, containers=spec.containers and [_reduced(each) for each in spec.containers], volumes_json=_NOT_KEPT
        ),
    )
    size = size_of(kept)
    if size > MOST_KEPT:
        return KeptPod(gate_alone(pod), 0, f"what the planner has to keep of it is longer than {MOST_KEPT // 1024} KiB")
    return KeptPod(_detached(kept), size, "")


def gate_alone(pod: Pod) -> Pod:
    """Returns what it takes to let a pod go: its names and gates, and whether it has labels and annotations."""
    metadata, spec = pod.metadata or Metadata(), pod.spec or PodSpec()
    labels = metadata.labels or {}
    return Pod(
        metadata=Metadata(
            name=metadata.name,
            namespace=metadata.namespace,
            uid=metadata.uid,
            resource_version=metadata.resource_version,
            creation_timestamp=metadata.creation_timestamp,
            labels=metadata.labels and {key: labels[key] for key in (names.PLACEMENT,) if key in labels},
            annotations=metadata.annotations and {},
        ),
        spec=PodSpec(scheduling_gates_json=spec.scheduling_gates_json.copy()),
    )


def _cut(key: str, value: str) -> str:
    return value if key.startswith(_READ) else value[:_LONGEST_OF_OTHERS]


def _reduced(container: Container) -> Container:
    return msgspec.structs.replace(
        container,
        env_json=_NOT_KEPT,
        env_from_json=_NOT_KEPT,
        mounts_json=_NOT_KEPT,
        command_json=_NOT_KEPT,
        args_json=_NOT_KEPT,
        liveness_json=_NOT_KEPT,
        readiness_json=_NOT_KEPT,
        startup_json=_NOT_KEPT,
        lifecycle_json=_NOT_KEPT,
    )


def size_of(value: Any) -> int:
    """Returns about the number of bytes of a value."""
    if isinstance(value, msgspec.Raw):
        return memoryview(value).nbytes
    if isinstance(value, str):
        return len(value) + _TEXT_BYTES
    if isinstance(value, msgspec.Struct):
        fields = value.__struct_fields__
        return _OBJECT_BYTES + 8 * len(fields) + sum(size_of(getattr(value, field)) for field in fields)
    if isinstance(value, dict):
        return _OBJECT_BYTES + sum(size_of(key) + size_of(entry) for key, entry in value.items())
    return sum(map(size_of, value)) if isinstance(value, list | tuple) else 0


def _detached(value: Any) -> Any:
    """Returns an equal value that keeps no JSON alive but its own."""
    if isinstance(value, msgspec.Raw):
        return value.copy()
    if isinstance(value, msgspec.Struct):
        own = {field: _detached(getattr(value, field)) for field in value.__struct_fields__}
        return msgspec.structs.replace(value, **own)
    return [_detached(entry) for entry in value] if isinstance(value, list) else value
