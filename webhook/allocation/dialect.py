"""The interface of the written forms."""

from collections.abc import Callable
from dataclasses import dataclass

from webhook.allocation.model import Allocation


@dataclass(frozen=True, kw_only=True, slots=True)
class Dialect:
    """How one scheduler writes down what it gave."""

    family: str
    """Of the resource names in the configuration: ``hami``, ``volcano`` or ``koordinator``."""
    key: str
    """The annotation that holds the allocation."""
    node_key: str
    """The annotation that holds the node for which it was made; empty if there is none."""
    parse: Callable[[str, str], Allocation]
    """From the annotation's value and what messages call it. Raises FormatError."""
    format: Callable[[Allocation], str]
    """The value that ``parse`` reads as this allocation, as the newest version of the scheduler writes it."""
