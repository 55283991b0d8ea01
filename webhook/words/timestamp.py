"""Times as objects of the API server hold them."""

from datetime import UTC, datetime


def parse_timestamp(text: str | None) -> datetime | None:
    """Returns a time of RFC 3339, in UTC; ``None`` if the text is none, or says no zone."""
    try:
        found = datetime.fromisoformat(text or "")
        return found.astimezone(UTC) if found.tzinfo else None
    except (ValueError, OverflowError):
        return None


def format_timestamp(at: datetime) -> str:
    """Returns a time with its zone in whole seconds, as ``metav1.Time`` is written."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
