"""Kubeconfig files, merged as kubectl merges them, and the content of one of their contexts.

https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from webhook.cluster.api.contexts import Context
from webhook.objects.manifest.manifest import read_yaml
from webhook.words.errors import ConfigError, shorten
from webhook.words.names import DEFAULT_NAMESPACE
from webhook.words.printable import printable

Object = dict[str, Any]

_LISTS = {"contexts": "context", "clusters": "cluster", "users": "user"}
_FILES = {
    "clusters": ("certificate-authority",),
    "users": ("client-certificate", "client-key", "tokenFile"),
}
"""The fields that name files, by lists."""
_LISTED = 8
"""The number of names in a message."""


def read_context(context: Context) -> Object:
    """Return a kubeconfig with only this context, its cluster and its user. Names of files in it are absolute.

    Raises:
        ConfigError: a file is no kubeconfig, or the context, its cluster or its user is missing.
        ManifestError: a file cannot be read.
    """
    merged = _merged(context)
    name = context.name or merged.current
    if not name:
        raise _unusable(context, "it has no current-context. Give --context NAME")
    chosen = _named(merged, "contexts", name, context)
    lists: Object = {"contexts": [{"name": name, "context": chosen}]}
    for kind, member in (("clusters", "cluster"), ("users", "user")):
        wanted = chosen.get(member)
        if not wanted and kind == "users":
            wanted, found = name, Object()  # the client wants a user in any case
            chosen[member] = name
        else:
            found = _named(merged, kind, wanted, context)
        lists[kind] = [{"name": wanted, member: found}]
    if not isinstance(lists["clusters"][0]["cluster"].get("server"), str):
        raise _unusable(context, f"cluster {shorten(chosen['cluster'])} names no server")
    return {"apiVersion": "v1", "kind": "Config", "current-context": name} | lists


def current_context(context: Context) -> str:
    """Return the name of the context; empty if none is named and none is current.

    Raises:
        ConfigError: a file is no kubeconfig.
        ManifestError: a file cannot be read.
    """
    return context.name or _merged(context).current


def namespace_of(context: Context) -> str:
    """Return the namespace that the context names, or ``default`` if it names none, as kubectl does.

    Raises:
        ConfigError: a file is no kubeconfig, or there is no such context.
        ManifestError: a file cannot be read.
    """
    merged = _merged(context)
    name = context.name or merged.current
    if not context.name and name not in merged.lists["contexts"]:
        return DEFAULT_NAMESPACE
    namespace = _named(merged, "contexts", name, context).get("namespace")
    return namespace if isinstance(namespace, str) and namespace else DEFAULT_NAMESPACE


@dataclass(frozen=True, slots=True)
class _Merged:
    current: str
    lists: Mapping[str, Mapping[str, Object]]
    """The entries by list (such as ``clusters``), then by name."""


def _merged(context: Context) -> _Merged:
    """Merge all files. The first file that has a name counts; entries of one name are not mixed."""
    lists: dict[str, dict[str, Object]] = {kind: {} for kind in _LISTS}
    current = ""
    for path in (each for each in context.files if len(context.files) == 1 or exists(each)):
        document = _read(path)
        said = document.get("current-context")
        current = current or (said if isinstance(said, str) else "")
        for kind, found in lists.items():
            for name, entry in _entries(document, kind, path):
                found.setdefault(name, entry)
    return _Merged(current, lists)


def exists(path: Path) -> bool:
    """Return whether the path exists. One without permission counts as existing, so that reading it names the fault."""
    try:
        path.stat()
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return True


def _read(path: Path) -> Object:
    documents = read_yaml(path)
    if len(documents) > 1:
        raise ConfigError(f"{path}: expected a kubeconfig, found {len(documents)} documents")
    document = documents[0] if documents else {}
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: expected a kubeconfig: it is no mapping")
    return document


def _entries(document: Object, kind: str, path: Path) -> Iterator[tuple[str, Object]]:
    """Read the names and their entries in one file.

    Raises:
        ConfigError: a name occurs twice, which kubectl refuses too.
    """
    listed, seen = document.get(kind), set[str]()
    for each in listed if isinstance(listed, list) else ():
        name = each.get("name") if isinstance(each, dict) else None
        if not isinstance(name, str):
            continue
        if name in seen:
            raise ConfigError(f"{path}: expected a kubeconfig: two of its {kind} are called {shorten(name)}")
        seen.add(name)
        entry = each.get(_LISTS[kind])
        yield name, _absolute(entry, kind, path) if isinstance(entry, dict) else {}


def _absolute(entry: Object, kind: str, path: Path) -> Object:
    """Make the names of files absolute. They are relative to the directory of the kubeconfig."""
    found = {**entry}
    for member in _FILES.get(kind, ()):
        if isinstance(found.get(member), str) and found[member]:
            found[member] = _from(path, found[member])
    plugin = found.get("exec")
    command = plugin.get("command") if isinstance(plugin, dict) else None
    if isinstance(plugin, dict) and isinstance(command, str) and os.sep in command:  # other commands are in PATH
        found["exec"] = {**plugin, "command": _from(path, command)}
    return found


def _from(kubeconfig: Path, name: str) -> str:
    return os.path.normpath(Path.cwd() / kubeconfig.parent / name)


def _named(merged: _Merged, kind: str, name: Any, context: Context) -> Object:
    found = merged.lists[kind]
    if isinstance(name, str) and name in found:
        return {**found[name]}
    listed = ", ".join([*found][:_LISTED]) + (f" and {len(found) - _LISTED} more" if len(found) > _LISTED else "")
    what, there = _LISTS[kind], printable(listed) or "none"
    raise _unusable(context, f"there is no {what} {shorten(name)}; the {kind} there are: {there}")


def _unusable(context: Context, problem: str) -> ConfigError:
    return ConfigError(f"{context.source}: expected a kubeconfig: {problem}")
