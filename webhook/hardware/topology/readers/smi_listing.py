"""The names and UUIDs of GPUs in the output of ``nvidia-smi -L``."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from webhook.hardware.topology.readers.smi_text import Line
from webhook.words.errors import FormatError

_GPU = re.compile(r"GPU (\d{1,3}): (.*)")
_UUID = re.compile(r"([^()]{1,96}) \(UUID: (GPU-[0-9A-Za-z-]{1,60})\)")
_LONGEST_NAME = 96
"""The most characters of a name: ``NVML_DEVICE_NAME_V2_BUFFER_SIZE`` of nvml.h."""
_MIG = re.compile(r"MIG \S+ +Device +\d+:.*")
_MIG_UUID = re.compile(r"MIG \S+ +Device +\d+: \(UUID: MIG-[0-9A-Za-z/-]{1,100}\)")


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedGpu:
    """One GPU of the list."""

    index: int
    name: str
    uuid: str = ""
    """Empty in lists without UUIDs, such as that of PyTorch's collect_env."""
    mig: bool = False
    """Whether MIG instances are listed below the GPU."""

    def agrees_with(self, other: "ListedGpu") -> bool:
        """Returns whether two lines may list the same GPU: one may lack the UUID."""
        same = not self.uuid or not other.uuid or self.uuid == other.uuid
        return same and (self.index, self.name) == (other.index, other.name)


def listed_gpu(line: Line) -> ListedGpu | None:
    """Returns the GPU that a line lists; None if it lists none.

    Raises:
        FormatError: the line is cut off.
    """
    found = _GPU.fullmatch(_without_tabs(line))
    return _read_gpu(line.checked(), int(found[1]), found[2]) if found else None


def parse_listings(lines: Sequence[Line]) -> list[dict[int, ListedGpu]]:
    """Finds the lists in a text, each with its GPUs by index.

    A GPU may be listed again with the same text, as ``nvidia-smi nvlink -s`` does, in old drivers without its UUID. A
    GPU that is listed again with another text begins another list: pages that describe a fault have lists of
    containers, which number their GPUs again from 0. Tabs are blanks.

    Raises:
        FormatError: a line is cut off, two GPUs of a list share a UUID, or only some have UUIDs.
    """
    lists: list[dict[int, ListedGpu]] = []
    last: int | None = None
    for line in lines:
        text = _without_tabs(line)
        if gpu := listed_gpu(line):
            known = lists[-1].get(gpu.index, gpu) if lists else None
            if known is None or not known.agrees_with(gpu):
                lists.append({})
                known = gpu
            lists[-1][gpu.index] = replace(known, uuid=known.uuid or gpu.uuid)
            last = gpu.index
        elif _MIG.fullmatch(text):
            line.checked()
            if last is None or not _MIG_UUID.fullmatch(text):
                raise FormatError(line.where, expected="a MIG device with its UUID below its GPU", found=text)
            lists[-1][last] = replace(lists[-1][last], mig=True)
    for listed in lists:
        _check_uuids(lines, list(listed.values()))
    return lists


def _without_tabs(line: Line) -> str:
    return line.text.replace("\t", " ").strip()


def _read_gpu(line: Line, index: int, rest: str) -> ListedGpu:
    found = _UUID.fullmatch(rest)
    if found:
        return ListedGpu(index=index, name=found[1], uuid=found[2])
    if "(" in rest or not 0 < len(rest) <= _LONGEST_NAME:
        raise FormatError(line.where, expected=f"GPU {index}: NAME (UUID: GPU-...)", found=line.text.strip())
    return ListedGpu(index=index, name=rest)


def _check_uuids(lines: Sequence[Line], gpus: Sequence[ListedGpu]) -> None:
    uuids = [gpu.uuid for gpu in gpus if gpu.uuid]
    if uuids and len(uuids) < len(gpus):
        without = next(gpu.index for gpu in gpus if not gpu.uuid)
        raise FormatError(_where(lines, without), expected="a UUID for each GPU or for none", found="no UUID")
    seen: set[str] = set()
    for gpu in gpus if uuids else ():
        if gpu.uuid in seen:
            raise FormatError(_where(lines, gpu.index), expected="each UUID once", found=f"{gpu.uuid} twice")
        seen.add(gpu.uuid)


def _where(lines: Sequence[Line], index: int) -> str:
    """Returns the place of the first line that lists the GPU, however its index is spelled."""
    listed = ((line, _GPU.fullmatch(_without_tabs(line))) for line in lines)
    return next(line.where for line, found in listed if found and int(found[1]) == index)
