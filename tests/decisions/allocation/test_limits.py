"""How much an allocation may hold: at a limit it is read, beyond it is refused by name before it is taken apart."""

import json
import re

import pytest

from webhook.decisions.allocation.limit import AllocationLimits
from webhook.decisions.allocation.reader import read_allocation
from webhook.words import names
from webhook.words.errors import FormatError, LimitError

LIMITS = AllocationLimits(segments=3, devices=4)
HAMI, VOLCANO, KOORDINATOR = (
    ("hami", names.HAMI_DEVICES_ALLOCATED),
    ("volcano", names.VOLCANO_DEVICES_ALLOCATED),
    ("koordinator", names.KOORDINATOR_DEVICES_ALLOCATED),
)


def segments(*sizes: int, between: str = ";") -> str:
    """An allocation with so many devices in each segment."""
    numbers = iter(range(sum(sizes)))
    return between.join("".join(f"GPU-{next(numbers)},NVIDIA,0,0:" for _ in range(size)) for size in sizes)


def gpus(count: int) -> str:
    return json.dumps({"gpu": [{"minor": minor} for minor in range(count)]})


def instances(count: int) -> str:
    return json.dumps([{"gpuUUID": "GPU-0", "profile": f"{number}g"} for number in range(count)])


@pytest.mark.parametrize(
    ("dialect", "text", "devices"),
    [
        (HAMI, segments(2, 1, 1) + ";", 4),
        (VOLCANO, segments(2, 1, 1), 4),
        (KOORDINATOR, gpus(4), 4),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else None,
)
def test_at_its_limits_an_allocation_is_read(dialect: tuple[str, str], text: str, devices: int) -> None:
    family, key = dialect
    found = read_allocation({key: text}, family=family, holder="pod team-a/train", limits=LIMITS)
    assert len(found.devices) == devices


@pytest.mark.parametrize(
    ("dialect", "text", "expected"),
    [
        (HAMI, segments(1, 1, 1, 1) + ";", 'at most 3 segments (limits.segments), found "4"'),
        (HAMI, segments(5) + ";", 'at most 4 devices (limits.devices), found "5"'),
        (HAMI, ":" * 5, 'at most 4 devices (limits.devices), found "5"'),
        (VOLCANO, segments(1, 1, 1, 0), 'at most 3 segments (limits.segments), found "4"'),
        (VOLCANO, segments(3, 2), 'at most 4 devices (limits.devices), found "5"'),
        (KOORDINATOR, gpus(5), 'at most 4 devices (limits.devices), found "5"'),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else None,
)
def test_beyond_a_limit_the_message_names_it(dialect: tuple[str, str], text: str, expected: str) -> None:
    family, key = dialect
    with pytest.raises(LimitError, match=re.escape(f"annotation {key} on pod team-a/train: expected {expected}")):
        read_allocation({key: text}, family=family, holder="pod team-a/train", limits=LIMITS)


def test_more_mig_instances_than_devices_are_refused() -> None:
    annotations = {HAMI[1]: segments(1) + ";", names.HAMI_MIG_ALLOCATIONS: instances(5)}
    found = f'annotation {names.HAMI_MIG_ALLOCATIONS} on it: expected at most 4 devices (limits.devices), found "5"'
    with pytest.raises(LimitError, match=re.escape(found)):
        read_allocation(annotations, family="hami", holder="it", limits=LIMITS)


def test_more_mig_instances_than_devices_are_refused_even_of_other_gpus() -> None:
    """That they are of other GPUs would have to be found out first."""
    other = instances(5).replace("GPU-0", "GPU-other")
    annotations = {HAMI[1]: segments(1) + ";", names.HAMI_MIG_ALLOCATIONS: other}
    with pytest.raises(LimitError, match="at most 4 devices"):
        read_allocation(annotations, family="hami", holder="it", limits=LIMITS)


@pytest.mark.parametrize(
    ("named", "is_about_ours"),
    [
        ("GPU-0", True),
        ("GPU-", True),
        ("GPU-01", True),
        ("GPU-1 and GPU-2", False),
        ("GPU-1 and GPU-00", True),
        ("GPU-/ and GPU-9", True),
        ("GPU-9", False),
    ],
)
def test_a_torn_list_of_instances_counts_if_a_name_in_it_may_be_ours(named: str, is_about_ours: bool) -> None:
    annotations = {HAMI[1]: "GPU-0,NVIDIA,0,0:;", names.HAMI_MIG_ALLOCATIONS: f"[{named}"}
    if is_about_ours:
        with pytest.raises(FormatError, match="a list of MIG instances"):
            read_allocation(annotations, family="hami", holder="it")
    else:
        (device,) = read_allocation(annotations, family="hami", holder="it").devices
        assert not device.mig
