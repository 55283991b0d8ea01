"""The annotations and lines of the env file that the variables of containers refer to."""

import re
from collections.abc import Iterator

from webhook.objects.pod import EnvVar, Pod, PodSpec, annotation_path
from webhook.words import names

_BEFORE, _AFTER = annotation_path("\0").split("\0")
_VISIBLE_KEY = re.compile(re.escape(names.CUDA_VISIBLE_DEVICES_PREFIX) + r"\d{1,3}")
_VISIBLE_LINE = re.compile(re.escape(names.ENV_CUDA_VISIBLE_DEVICES) + r"_(\d{1,3})")


def annotation_of(variable: EnvVar) -> str | None:
    """Returns the annotation whose value a variable takes; None if there is none."""
    source = variable.value_from
    if source is None or source.field_ref is None:
        return None
    path = source.field_ref.field_path
    return path[len(_BEFORE) : -len(_AFTER)] if path.startswith(_BEFORE) and path.endswith(_AFTER) else None


def visible_devices_key(variable: EnvVar | None) -> str | None:
    """Returns the ``cuda-visible-devices`` annotation that a variable refers to, directly or by the env file."""
    if variable is None:
        return None
    key = annotation_of(variable)
    if key is not None:
        return key if _VISIBLE_KEY.fullmatch(key) else None
    source = variable.value_from
    line = _VISIBLE_LINE.fullmatch(source.file_key_ref.key) if source and source.file_key_ref else None
    return f"{names.CUDA_VISIBLE_DEVICES_PREFIX}{line[1]}" if line else None


def visible_devices_line(key: str) -> str:
    """Returns the line of the env file with the same value as a ``cuda-visible-devices`` annotation."""
    return f"{names.ENV_CUDA_VISIBLE_DEVICES}_{key.removeprefix(names.CUDA_VISIBLE_DEVICES_PREFIX)}"


def referred_annotations(pod: Pod) -> frozenset[str]:
    """Returns all annotations that containers of the pod refer to, init containers included."""
    return frozenset(filter(None, map(annotation_of, _variables(pod))))


def _variables(pod: Pod) -> Iterator[EnvVar]:
    spec = pod.spec or PodSpec()
    for container in (*(spec.init_containers or ()), *(spec.containers or ())):
        yield from container.env or ()
