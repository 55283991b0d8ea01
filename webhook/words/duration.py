"""Durations for people."""


def duration(seconds: float) -> str:
    """``95 s``, ``3 minutes``, ``5 hours``, ``3 days``; what clocks make negative is 0."""
    whole = max(0, round(seconds))
    for size, noun in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if whole >= 2 * size:
            return f"{whole // size} {noun}"
    return f"{whole} s"
