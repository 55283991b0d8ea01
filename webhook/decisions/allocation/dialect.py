"""The interface of the written forms."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from webhook.decisions.allocation.limit import AllocationLimits
from webhook.decisions.allocation.model import Allocation


class Parse(Protocol):
    """Reads what one scheduler wrote."""

    def __call__(self, text: str, source: str, limits: AllocationLimits = ...) -> Allocation:
        """From the annotation's value, what messages call it, and how much it may hold.

        Raises:
            FormatError: it is not what the scheduler writes.
            LimitError: it holds too much.
        """


@dataclass(frozen=True, kw_only=True, slots=True)
class Dialect:
    """How one scheduler writes down what it gave."""

    family: str
    """Of the resource names in the configuration: ``hami``, ``volcano`` or ``koordinator``; or ``claim``."""
    key: str
    """The annotation that holds the allocation."""
    node_key: str
    """The annotation that holds the node for which it was made; empty if there is none."""
    parse: Parse
    format: Callable[[Allocation], str]
    """The value that ``parse`` reads as this allocation, as the newest version of the scheduler writes it."""
