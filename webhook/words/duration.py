"""Durations as text for people."""


def duration(seconds: float) -> str:
    """Returns a duration as text: ``95 s``, ``3 minutes``, ``5 hours``, ``3 days``. A negative duration counts as 0."""
    whole = max(0, round(seconds))
    for size, noun in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if whole >= 2 * size:
            return f"{whole // size} {noun}"
    return f"{whole} s"
