"""The sentences about a value that differs from the allocation; they name the GPUs."""

import re
from collections.abc import Sequence

from webhook.hardware.topology.model import Gpu
from webhook.words.errors import shorten

_NUMBER = re.compile(r"[0-9]{1,6}")
_PLAIN = re.compile(r"[0-9,-]{1,40}")
_NAMED = 4
"""The most GPUs that one sentence names."""


def shown(value: str) -> str:
    """Returns a value of ``CUDA_VISIBLE_DEVICES`` in a form for sentences."""
    return value if _PLAIN.fullmatch(value) else shorten(value)


def named(gpu: Gpu) -> str:
    """Returns the label and the UUID of a GPU."""
    return f"{gpu.label} {gpu.uuid}" if gpu.uuid else gpu.label


def listed(parts: Sequence[str]) -> str:
    """Joins the first parts, and adds the number of the others."""
    more = len(parts) - _NAMED
    return ", ".join(parts[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def indices_differ(found: str, own: Sequence[Gpu], visible: Sequence[Gpu], scheduler: str) -> str:
    """Returns why a value of ``CUDA_VISIBLE_DEVICES`` is wrong for a container; empty if it is right.

    Args:
        found: The value of the container.
        own: The GPUs allocated to the container, in CUDA's order.
        visible: The GPUs that the container sees, in CUDA's order.
        scheduler: The name of the scheduler, or of the claim, that allocated them.
    """
    truth = ",".join(str(visible.index(gpu)) for gpu in own)
    if found == truth:
        return ""
    entries = found.split(",")
    wrong = next(filter(None, (_wrong_entry(entry, len(visible)) for entry in entries)), "")
    if wrong:
        return wrong
    numbers = [int(entry) for entry in entries]
    twice = next((number for number in numbers if numbers.count(number) > 1), None)
    if twice is not None:
        return f"{twice} stands there twice, and {scheduler} allocated {_all(own)}: {truth}"
    strays = [f"{number} is {named(visible[number])}" for number in numbers if visible[number] not in own]
    lacking = [gpu for gpu in own if visible.index(gpu) not in numbers]
    if strays or lacking:
        return _other_gpus(strays, lacking, scheduler)
    if [visible[number] for number in numbers] != list(own):
        return f"these are its GPUs, but not in the order of their PCI bus ids, {truth}"
    return f"these are its GPUs, but the value should read {truth}"


def uuids_differ(found: str, own: Sequence[Gpu], known: Sequence[Gpu], scheduler: str) -> str:
    """Returns why a list of UUIDs is wrong for a pod; empty if it is right.

    Args:
        found: The list of its containers.
        own: The GPUs allocated to the pod, in CUDA's order.
        known: The GPUs of the node.
        scheduler: The name of the scheduler, or of the claim, that allocated them.
    """
    if found == ",".join(gpu.uuid for gpu in own):
        return ""
    entries = found.split(",")
    labels = {gpu.uuid: named(gpu) for gpu in known if gpu.uuid}
    strays = [
        labels.get(entry) or f"{shorten(entry)} (no GPU of this node)"
        for entry in dict.fromkeys(entries)
        if entry not in [gpu.uuid for gpu in own]
    ]
    lacking = [gpu for gpu in own if gpu.uuid not in entries]
    if strays:
        return f"it lists {_other_gpus(strays, lacking, scheduler)}"
    if lacking:
        return _other_gpus([], lacking, scheduler)
    if len(set(entries)) < len(entries):
        return "it lists a GPU twice"
    return "these are its GPUs, but not in the order of their PCI bus ids"


def _wrong_entry(entry: str, count: int) -> str:
    if not _NUMBER.fullmatch(entry):
        return f"{shorten(entry)} is no number"
    if int(entry) >= count:
        return f"it sees {count} GPUs, so {int(entry)} is none of them"
    return ""


def _other_gpus(strays: Sequence[str], lacking: Sequence[Gpu], scheduler: str) -> str:
    if strays and lacking:
        return f"{listed(strays)}, but {scheduler} allocated {_all(lacking)}"
    if strays:
        return f"{listed(strays)}, which {scheduler} did not allocate"
    return f"{_all(lacking)}, which {scheduler} allocated, {'is' if len(lacking) == 1 else 'are'} missing"


def _all(gpus: Sequence[Gpu]) -> str:
    return listed([named(gpu) for gpu in gpus])
