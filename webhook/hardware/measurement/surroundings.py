"""Surroundings that influence a measurement: variables, by their names, and preloaded libraries."""

from collections.abc import Iterable, Mapping

from webhook.hardware.measurement.report import Warn

_PREFIXES = ("CUDA_", "GPU_TOPOLOGY_", "HAMI_", "LIBCUDA_", "NCCL_", "NVIDIA_", "UCX_")
_NAMES = ("LD_LIBRARY_PATH", "LD_PRELOAD")
_MOST, _NAME_LENGTH = 512, 256
_HAMI = "libvgpu.so"
_MOST_PRELOADED = 64
_NVLS_SINCE = [2, 18]


def telling_names(variables: Iterable[str]) -> list[str]:
    """Returns the names of the variables that influence CUDA and NCCL, sorted."""
    told = [name[:_NAME_LENGTH] for name in variables if name.startswith(_PREFIXES) or name in _NAMES]
    return sorted(told)[:_MOST]


def preloaded_libraries(text: str) -> list[str]:
    """Returns the file names in the text of ``/etc/ld.so.preload``, whose entries are separated by blanks or colons."""
    entries = text.replace(":", " ").split()
    return [entry.rsplit("/", 1)[-1][:_NAME_LENGTH] for entry in entries][:_MOST_PRELOADED]


def warnings_of(preloaded: Iterable[str]) -> list[Warn]:
    """Returns the warnings about preloaded libraries with which NCCL may hang: HAMi issue 2641."""
    return [Warn.PRELOADED_HAMI] if _HAMI in preloaded else []


def may_use_nvls(environment: Mapping[str, str], version: str) -> bool:
    """Returns whether NCCL may let NVSwitches reduce (NVLS): no variable forbids it, and the version does it by itself.

    Args:
        environment: The environment of the process that measures.
        version: NCCL's, such as ``2.27.3``. Of earlier ones than 2.18 the default does not ask the driver.
    """
    parts = [int(part) for part in version.split(".")[:2] if part.isdecimal()]
    return parts >= _NVLS_SINCE and environment.get("NCCL_NVLS_ENABLE") != "0" and not environment.get("NCCL_ALGO")
