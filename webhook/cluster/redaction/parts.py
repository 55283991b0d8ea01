"""Typed access to parts of objects: a value of another type than in Kubernetes counts as missing."""

from collections.abc import Iterator, Mapping
from typing import Any

from webhook.decisions.options import FORMER_NAMES, OPTION_NAMES, is_output
from webhook.decisions.request.ranks import WORLD_SIZES
from webhook.decisions.request.settings import TABLE
from webhook.words import names

REDACTED = "redacted"
"""The replacement of a value that is not kept."""
_VARIABLES = (names.NCCL_VARIABLE_PREFIX, "CUDA_", names.REMAP_ENV_PREFIX, "UCX_")
"""The prefixes of variables whose values decide about links."""
_OTHER_VARIABLES = frozenset({*TABLE, names.ENV_NVIDIA_DRIVER_CAPABILITIES, names.ENV_IMEX_CHANNELS, *WORLD_SIZES})
"""Further variables by their whole names, because ``NVIDIA_API_KEY`` is a secret."""
_ANNOTATIONS = (names.PREFIX, "hami.io/", "nvidia.com/", "volcano.sh/", "scheduling.koordinator.sh/")
_OTHER_ANNOTATIONS = frozenset({"leaderworkerset.sigs.k8s.io/size", names.CONFIG_MIRROR})


def part(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return a mapping in a mapping; empty if there is none."""
    found = document.get(key)
    return found if isinstance(found, Mapping) else {}


def parts(document: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """Return the mappings of a list in a mapping."""
    found = document.get(key)
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


def texts(document: Mapping[str, Any], key: str) -> dict[str, str]:
    """Return the members of a mapping in a mapping that are texts."""
    return {name: value for name, value in part(document, key).items() if isinstance(value, str)}


def words(document: Mapping[str, Any], key: str) -> Iterator[str]:
    """Return the texts of a list in a mapping."""
    found = document.get(key)
    return (word for word in (found if isinstance(found, list) else ()) if isinstance(word, str))


def only(found: Mapping[str, Any], kind: type, *keys: str) -> dict[str, Any]:
    """Return those of the members of a mapping that are of this type; a truth value is no number."""
    return {key: found[key] for key in keys if type(found.get(key)) is kind}


def is_kept_variable(name: str) -> bool:
    """Return whether the value of an environment variable is kept."""
    return name.startswith(_VARIABLES) or name in _OTHER_VARIABLES


def kept_annotations(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Keep the judged annotations: of ours the values that somebody reads, and of the others only the keys."""
    return keys_like_ours(texts(metadata, "annotations")) | {
        key: value if _is_read(key) else REDACTED
        for key, value in texts(metadata, "annotations").items()
        if key.startswith(_ANNOTATIONS) or key in _OTHER_ANNOTATIONS
    }


def keys_like_ours(members: Mapping[str, str]) -> dict[str, str]:
    """Keep the keys whose authors may have meant one of ours; their values are not kept."""
    return {key: REDACTED for key in members if key.startswith(names.LIKE_PREFIX) and not key.startswith(names.PREFIX)}


def _is_read(key: str) -> bool:
    """Return whether the value of an annotation is read. Those of variables follow the rule of variables."""
    name = key.removeprefix(names.PREFIX)
    if name == key or name in OPTION_NAMES or name in FORMER_NAMES:
        return True
    if name.startswith(names.ENV_PREFIX):
        return is_kept_variable(name.removeprefix(names.ENV_PREFIX))
    return is_output(key) or key == names.MEASURED
