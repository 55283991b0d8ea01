"""The parser of Kubernetes resource quantities.

The official client has a parser, but importing it costs 140 ms and 35 MiB (it loads the whole client), more than
half of what this server may use in total. A test compares the two on generated quantities.
"""

import re
from decimal import Decimal

from webhook.words.errors import FormatError

_QUANTITY = re.compile(r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:([eE][+-]?[0-9]{1,3})|([munkMGTPE]|[KMGTPE]i)?)")
MAX_DIGITS = 19
_SUFFIXES = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}


def parse_quantity(value: str | float, *, source: str, expected: str = 'a quantity such as "8Gi"') -> Decimal:
    """Returns the number that a quantity stands for.

    Raises:
        FormatError: ``value`` is not a quantity.
    """
    match = _QUANTITY.fullmatch(value if isinstance(value, str) else repr(value))
    if not match or len(match[1]) > MAX_DIGITS:
        raise FormatError(source, expected=expected, found=value)
    number, exponent, suffix = match.groups()
    return Decimal(number + exponent) if exponent else Decimal(number) * _SUFFIXES[suffix or ""]


def parse_count(value: str | float, *, source: str) -> int:
    """Returns the number in a quantity of things that cannot be divided: GPUs, per cent, MiB.

    Raises:
        FormatError: ``value`` is not a whole number of zero or more.
    """
    if isinstance(value, str) and len(value) < MAX_DIGITS and value.isascii() and value.isdigit():
        return int(value)
    number = parse_quantity(value, source=source, expected='a whole number such as "4"')
    if number < 0 or number != number.to_integral_value():
        raise FormatError(source, expected='a whole number such as "4"', found=value)
    return int(number)
