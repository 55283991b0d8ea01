"""The model of an allocation, into which each scheduler's form is read."""

from dataclasses import dataclass
from itertools import chain

WHOLE = 100
"""All cores of a card, in per cent."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Device:
    """A GPU, or a part of one, that a container was given."""

    uuid: str = ""
    """The UUID of the whole GPU, ``GPU-...``; empty where the scheduler names minor numbers only."""
    minor: int | None = None
    """N of ``/dev/nvidiaN``, where the scheduler names it."""
    kind: str = "NVIDIA"
    """The scheduler's word for the vendor."""
    memory_mib: int = 0
    cores: int = 0
    """Cores in per cent of the card; 0 if none were asked for."""
    mig: str = ""
    """The name of a MIG instance on the GPU, such as ``1-0``; empty for a GPU that is not cut."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Allocation:
    """The allocation that a scheduler wrote: one segment for each container that its version counts.

    Positions of segments mean nothing: versions differ in the containers that they count, and in whether a container
    without a GPU leaves an empty segment (``assignment``).
    """

    segments: tuple[tuple[Device, ...], ...] = ()
    """The segments in order, empty ones included, each with its devices in the order of the scheduler's picks."""
    of_pod: bool = False
    """Whether the scheduler gives GPUs to the pod as a whole: there is one segment."""
    containers: tuple[str, ...] = ()
    """The name of the container of each segment, where the form has it: then containers may share devices. Else
    empty."""

    @property
    def given(self) -> tuple[tuple[Device, ...], ...]:
        """The segments that hold a device."""
        return tuple(filter(None, self.segments))

    @property
    def devices(self) -> tuple[Device, ...]:
        """All devices, in order."""
        return tuple(chain.from_iterable(self.segments))
