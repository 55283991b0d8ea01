"""Events of events.k8s.io/v1, in which the reporter and the action have fields of their own.

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
"""What the name of an Event takes of that of its object."""


class Reporter(msgspec.Struct, frozen=True):
    """Who tells of something, and what it was doing."""

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
    """An Event, to be created.

    Its name follows from what it says and from ``seed``: where that happens twice for one cause, the second Event has
    the name of the first, and the API server refuses it.

    Args:
        regarding: The object, with ``name`` and ``uid``.
        reporter: Who tells it.
        namespace: Of the Event.
        reason: One word.
        note: For people; what an Event cannot hold is cut off.
        at: When it happened.
        seed: What tells one cause from another.
        warning: Whether it is more than news.
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
    """The note, or as much of it as an Event can hold, with ``...`` at its end."""
    shown = printable(note[: NOTE_BYTES + 1]).encode()
    if len(shown) <= NOTE_BYTES:
        return shown.decode()
    return shown[: NOTE_BYTES - 3].decode(errors="ignore") + "..."


def digest(*parts: str) -> str:
    """Sixteen characters that stand for all of these."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
