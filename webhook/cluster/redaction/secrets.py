"""The last step of the reduction: texts that look like secrets are hidden in every field that is kept."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from webhook.cluster.redaction.parts import REDACTED
from webhook.words.secret_forms import HIDDEN, may_hold_secret, says_secret, without_secrets

_COMPARED: Final = frozenset(
    {
        *("name", "generateName", "namespace", "uid", "resourceVersion", "ownerReferences", "involvedObject"),
        *("nodeName", "nodeSelector", "affinity", "tolerations", "taints", "labels", "holderIdentity"),
        *("driver", "pool", "device", "shareID", "attributes", "results", "reservedFor", "resourceClaims"),
        *("resourceClaimName", "resourceClaimStatuses", "extendedResourceClaimStatus", "data", "fingerprint"),
    }
)
"""Members whose texts are compared with others, or have a form that was checked: what only looks random stays there.

Two names of which each became the same three characters would be one, and the judgement another one.
"""


def without_secrets_in(value: dict[str, Any]) -> dict[str, Any]:
    """Return an object without what has the form of a secret in its texts, those of its keys included."""
    try:
        text = msgspec.json.encode(value).decode()
    except (TypeError, UnicodeEncodeError):  # of a file; it is refused later, or has half of a character
        return _cleaned_members(value, guess=True)
    return _cleaned_members(value, guess=True) if may_hold_secret(text) else value


def _cleaned_members(members: Mapping[str, Any], *, guess: bool) -> dict[str, Any]:
    found = {
        without_secrets(str(key), guess=guess): _cleaned(each, guess=guess and key not in _COMPARED)
        for key, each in members.items()
    }
    if isinstance(found.get("annotations"), dict):
        found["annotations"] = {key: _of_name(key, each) for key, each in found["annotations"].items()}
    if isinstance(found.get("name"), str) and "value" in found:
        found["value"] = _of_name(found["name"], found["value"])
    return found


def _of_name(name: str, value: Any) -> Any:
    """Return the value of an annotation or a variable; hidden if its name says that it is a secret."""
    is_shown = isinstance(value, str) and value not in ("", REDACTED)
    return HIDDEN if is_shown and says_secret(name) else value


def _cleaned(value: Any, *, guess: bool) -> Any:
    if isinstance(value, str):
        return without_secrets(value, guess=guess)
    if isinstance(value, dict):
        return _cleaned_members(value, guess=guess)
    if isinstance(value, list | tuple):
        return [_cleaned(each, guess=guess) for each in value]
    return value
