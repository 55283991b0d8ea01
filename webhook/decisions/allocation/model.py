"""The values that every written form is read into."""

from dataclasses import dataclass
from itertools import chain

WHOLE = 100
"""Per cent of a card's cores."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Device:
    """One GPU, or a part of it, that a container was given."""

    uuid: str = ""
    """Of the whole GPU, ``GPU-...``; empty where the scheduler names minor numbers only."""
    minor: int | None = None
    """N of ``/dev/nvidiaN``, where the scheduler names it."""
    kind: str = "NVIDIA"
    """The scheduler's word for the vendor."""
    memory_mib: int = 0
    cores: int = 0
    """Per cent of the card; 0 if it was not asked for."""
    mig: str = ""
    """What names a MIG instance on the GPU, such as ``1-0``; empty for a GPU that is not cut."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Allocation:
    """What a scheduler wrote: one segment for each container, as far as its version counts them.

    Positions of segments mean nothing: which containers are counted, and whether those without a GPU leave an empty
    segment, differs from version to version (``assignment``).
    """

    segments: tuple[tuple[Device, ...], ...] = ()
    """In their order, empty ones included, each with its devices in the order in which the scheduler picked them."""
    of_pod: bool = False
    """The scheduler gives GPUs to the pod as a whole: there is one segment."""
    containers: tuple[str, ...] = ()
    """The name of the container of each segment, where the form says it: then containers may share devices. Else
    empty."""

    @property
    def given(self) -> tuple[tuple[Device, ...], ...]:
        """The segments that hold a device."""
        return tuple(filter(None, self.segments))

    @property
    def devices(self) -> tuple[Device, ...]:
        """All devices, in their order."""
        return tuple(chain.from_iterable(self.segments))
