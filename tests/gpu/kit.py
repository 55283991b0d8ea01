"""What a kit has that ``make gpu-kit`` packed beside the checkout."""

from dataclasses import dataclass
from pathlib import Path

KIT = Path(__file__).parents[2] / "gpu-kit"


@dataclass(frozen=True)
class Kit:
    """What a kit has, as paths; empty where it lacks it."""

    nccl: str = ""
    """The directory with NCCL's library."""
    hami_core: str = ""


def found_in_kit(folder: Path) -> Kit:
    """What the kit in this folder has; nothing if there is none."""
    nccl, core = folder / "nccl", folder / "hami-core/libvgpu.so"
    return Kit(
        nccl=str(nccl) if (nccl / "libnccl.so.2").is_file() else "", hami_core=str(core) if core.is_file() else ""
    )
