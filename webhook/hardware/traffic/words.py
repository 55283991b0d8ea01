"""Amounts of traffic for people."""

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def bytes_text(number: float) -> str:
    """``0 B``, ``1.5 GB``: three digits, in powers of 1000."""
    place = 0
    while number >= 999.5 and place < len(_UNITS) - 1:
        number, place = number / 1000, place + 1
    return f"{number:.3g} {_UNITS[place]}"
