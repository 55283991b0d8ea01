"""The last step of the reduction: texts that look like secrets are hidden in every field that is kept."""

from typing import Any

import msgspec

from webhook.words.secret_forms import may_hold_secret, without_secrets


def without_secrets_in(value: dict[str, Any]) -> dict[str, Any]:
    """Return an object without what has the form of a secret in its texts, those of its keys included."""
    try:
        text = msgspec.json.encode(value).decode()
    except (TypeError, UnicodeEncodeError):  # of a file; it is refused later, or has half of a character
        return _cleaned_members(value)
    return _cleaned_members(value) if may_hold_secret(text) else value


def _cleaned_members(members: dict[str, Any]) -> dict[str, Any]:
    return {without_secrets(str(key)): _cleaned(each) for key, each in members.items()}


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, dict):
        return _cleaned_members(value)
    if isinstance(value, list | tuple):
        return [_cleaned(each) for each in value]
    return value
