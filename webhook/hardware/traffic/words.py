"""Amounts and shares of traffic as text."""

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def bytes_text(number: float) -> str:
    """Returns an amount of bytes with three digits, in powers of 1000: ``0 B``, ``1.5 GB``."""
    place = 0
    while number >= 999.5 and place < len(_UNITS) - 1:
        number, place = number / 1000, place + 1
    return f"{number:.3g} {_UNITS[place]}"


def share_text(share: float) -> str:
    """Returns a share as a percentage: ``0%``, ``<0.1%``, ``2.5%``, ``40%``."""
    if 0 < share < 0.001:
        return "<0.1%"
    return f"{share:.1%}" if 0 < share < 0.0995 else f"{share:.0%}"
