"""Pod templates, found by structure in whatever kind holds them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from webhook.model.patch import pointer


class Template(msgspec.Struct, frozen=True):
    """A pod, or the template of one, inside a document."""

    path: str
    """JSON pointer from the document to it; empty for a Pod."""
    value: Any
    """The mapping itself, with ``metadata`` and ``spec``."""


def find_templates(document: Any) -> list[Template]:
    """Every pod template of a document, in order.

    A template is a mapping whose ``spec`` has a list ``containers`` of named mappings. That holds for a Pod and, at
    whatever depth, for Deployments, Jobs, CronJobs, the kinds of Kubeflow, Ray, JobSet, LeaderWorkerSet and Volcano,
    Lists of them, and kinds that this program does not know.
    """
    return list(_walk(document, ()))


def _walk(value: Any, path: tuple[str | int, ...]) -> Iterator[Template]:
    if isinstance(value, Mapping):
        if _has_containers(value.get("spec")):
            yield Template(pointer(*path), value)
            return
        for key, child in value.items():
            yield from _walk(child, (*path, str(key)))
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        for index, child in enumerate(value):
            yield from _walk(child, (*path, index))


def _has_containers(spec: Any) -> bool:
    containers = spec.get("containers") if isinstance(spec, Mapping) else None
    if not isinstance(containers, Sequence) or isinstance(containers, str | bytes) or not containers:
        return False
    return all(isinstance(container, Mapping) and "name" in container for container in containers)
