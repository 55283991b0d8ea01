"""The dialect of a scheduler: the form in which it writes an allocation."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from webhook.decisions.allocation.limit import AllocationLimits
from webhook.decisions.allocation.model import Allocation


class Parse(Protocol):
    """A function that reads the allocation of one scheduler."""

    def __call__(self, text: str, source: str, limits: AllocationLimits = ...) -> Allocation:
        """Returns the allocation in an annotation's value.

        Args:
            text: The annotation's value.
            source: The name of the annotation in messages.
            limits: The limits of the allocation.

        Raises:
            FormatError: ``text`` is not in the form of the scheduler.
            LimitError: ``text`` holds too much.
        """


@dataclass(frozen=True, kw_only=True, slots=True)
class Dialect:
    """The form in which one scheduler writes an allocation."""

    family: str
    """The family of resource names in the configuration: ``hami``, ``volcano`` or ``koordinator``; or ``claim``."""
    key: str
    """The annotation that holds the allocation."""
    node_key: str
    """The annotation that holds the node of the allocation; empty if there is none."""
    parse: Parse
    format: Callable[[Allocation], str]
    """Returns the value that ``parse`` reads as this allocation, as the newest version of the scheduler writes it."""
