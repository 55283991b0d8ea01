"""Times in the form of objects of the API server."""

from datetime import UTC, datetime


def parse_timestamp(text: str | None) -> datetime | None:
    """Returns an RFC 3339 time in UTC; ``None`` if the text is not a time, or has no zone."""
    try:
        found = datetime.fromisoformat(text or "")
        return found.astimezone(UTC) if found.tzinfo else None
    except (ValueError, OverflowError):
        return None


def format_timestamp(at: datetime) -> str:
    """Returns a time with its zone as text, in whole seconds, in the form of ``metav1.Time``."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
