"""List entries of a pod as JSON. They are cached, because most patches consist of the same few entries."""

from functools import lru_cache
from typing import Any

import msgspec

from webhook.objects.pod import Reference
from webhook.words import names

CACHE_SIZE = 256
SHORT = 128
"""The most characters of a user's text in a cached entry. Users may write megabytes, which are not cached."""


def literal(name: str, value: str) -> dict[str, Any]:
    """Returns an entry of ``env`` with a literal value, not yet encoded."""
    return {"name": name, "value": value}


def field_reference(name: str, field_path: str) -> dict[str, Any]:
    """Returns an entry of ``env`` that reads a downward-API field, not yet encoded."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": field_path}}}


def line_reference(name: str, volume: str, line: str) -> dict[str, Any]:
    """Returns an entry of ``env`` that reads a line of the env file, not yet encoded.

    ``fileKeyRef`` is known to Kubernetes 1.35 and later: keps/sig-node/3721-support-for-env-files.
    """
    source = {"volumeName": volume, "path": names.ENV_FILE, "key": line}
    return {"name": name, "valueFrom": {"fileKeyRef": source}}


def _encode(entry: dict[str, Any]) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(entry))


def variable(name: str, value: str) -> msgspec.Raw:
    """Returns an entry of ``env`` with a literal value."""
    return _short_variable(name, value) if len(name) + len(value) <= SHORT else _encode(literal(name, value))


@lru_cache(CACHE_SIZE)
def _short_variable(name: str, value: str) -> msgspec.Raw:
    return _encode(literal(name, value))


@lru_cache(CACHE_SIZE)
def reference(name: str, source: Reference) -> msgspec.Raw:
    """Returns an entry of ``env`` that reads a downward-API field or a line of the env file."""
    if source.field_path:
        return _encode(field_reference(name, source.field_path))
    return _encode(line_reference(name, source.volume, source.line))


def mount(volume: str, path: str, read_only: bool) -> msgspec.Raw:
    """Returns an entry of ``volumeMounts``; the volume may be the user's."""
    return (_short_mount if len(volume) <= SHORT else _mount)(volume, path, read_only)


def _mount(volume: str, path: str, read_only: bool) -> msgspec.Raw:
    entry: dict[str, Any] = {"name": volume, "mountPath": path}
    return _encode(entry | {"readOnly": True} if read_only else entry)


_short_mount = lru_cache(CACHE_SIZE)(_mount)


@lru_cache(CACHE_SIZE)
def empty_dir(name: str, medium: str, size_limit: str) -> msgspec.Raw:
    """Returns an entry of ``volumes`` with an ``emptyDir``."""
    source = {"sizeLimit": size_limit}
    return _encode({"name": name, "emptyDir": {"medium": medium} | source if medium else source})
