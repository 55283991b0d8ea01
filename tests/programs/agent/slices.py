"""ResourceSlices as drivers publish them."""

from collections.abc import Sequence
from typing import Any

NVIDIA, HAMI = "gpu.nvidia.com", "hami-core-gpu.project-hami.io"


def a_slice(
    *devices: Any, driver: str = NVIDIA, pool: str = "n1", node: str = "n1", generation: int = 1, count: int = 1
) -> Any:
    about = {"name": pool, "generation": generation, "resourceSliceCount": count}
    return {"spec": {"driver": driver, "nodeName": node, "pool": about, "devices": list(devices)}}


def a_device(name: str, **strings: str) -> Any:
    """With these attributes; ``bus`` is the standard one of the PCI address."""
    named = {"resource.kubernetes.io/pciBusID" if key == "bus" else key: value for key, value in strings.items()}
    return {"name": name, "attributes": {key: {"string": value} for key, value in named.items()}}


def gpus(uuids: Sequence[str]) -> list[Any]:
    """Full GPUs, whose names are the minors of the host: here in the order from the last one."""
    return [a_device(f"gpu-{len(uuids) - 1 - index}", type="gpu", uuid=uuid) for index, uuid in enumerate(uuids)]
