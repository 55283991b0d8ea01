"""Times as objects of the API server hold them."""

from datetime import UTC, datetime


def parse_timestamp(text: str | None) -> datetime | None:
    """A time of RFC 3339, in UTC; ``None`` if the text is none, or says no zone."""
    try:
        found = datetime.fromisoformat(text or "")
        return found.astimezone(UTC) if found.tzinfo else None
    except (ValueError, OverflowError):
        return None
