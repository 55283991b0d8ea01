"""The laws of a property test: a value is drawn once, and all laws are checked with it."""

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def check_laws(laws: Iterable[Callable[[T], None]], value: T) -> None:
    """Checks each law, a function that raises if it does not hold for the value. The failure names the law.

    Raises:
        AssertionError: a law does not hold for this value.
    """
    for law in laws:
        try:
            law(value)
        except Exception as error:
            error.add_note(f"This law does not hold: {law.__name__}")
            raise
