"""Events of events.k8s.io/v1, which have fields for the reporter and the action.

Limits: kubernetes pkg/apis/core/validation/events.go.
"""

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from webhook.objects.lease import micro_time
from webhook.words.node_names import fitted
from webhook.words.printable import printable

NOTE_BYTES = 1024
REPORTER_LIMIT = 128
NAME_LIMIT = 200
"""The most characters of the name of its object that the name of an Event takes."""


class Reporter(msgspec.Struct, frozen=True):
    """The reporter of an Event, and its action."""

    controller: str
    instance: str
    action: str


def event_manifest(  # noqa: PLR0913 - the fields of an Event
    regarding: Mapping[str, str],
    reporter: Reporter,
    *,
    namespace: str,
    reason: str,
    note: str,
    at: datetime,
    seed: str,
    warning: bool = True,
) -> dict[str, Any]:
    """Returns the manifest of a new Event.

    Its name follows from its content and from ``seed``. If the same is reported twice for one cause, the second Event
    has the name of the first, and the API server refuses it.

    Args:
        regarding: The object, with ``name`` and ``uid``.
        reporter: The reporter.
        namespace: The namespace of the Event.
        reason: One word.
        note: The text for people; what an Event cannot hold is cut off.
        at: The time when it happened.
        seed: A text that differs from one cause to another.
        warning: Whether the Event is a warning.
    """
    name = f"{fitted(regarding['name'], NAME_LIMIT)}.{digest(regarding['uid'], seed, reason, note)}"
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "eventTime": micro_time(at),
        "type": "Warning" if warning else "Normal",
        "reason": reason,
        "action": reporter.action,
        "note": shortened(note),
        "regarding": dict(regarding),
        "reportingController": reporter.controller,
        "reportingInstance": fitted(reporter.instance, REPORTER_LIMIT),
    }


def shortened(note: str) -> str:
    """Returns the note, or as much of it as an Event can hold, with ``...`` at its end."""
    shown = printable(note[: NOTE_BYTES + 1]).encode()
    if len(shown) <= NOTE_BYTES:
        return shown.decode()
    return shown[: NOTE_BYTES - 3].decode(errors="ignore") + "..."


def digest(*parts: str) -> str:
    """Returns sixteen characters that stand for all of these texts."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
