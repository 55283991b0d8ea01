"""The annotation with the GPUs that claims gave."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.decisions.allocation.pods import A, B
from webhook.decisions.allocation.claim import DIALECT
from webhook.decisions.allocation.limit import AllocationLimits
from webhook.decisions.allocation.model import Allocation, Device
from webhook.words.errors import FormatError, LimitError

NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)
DEVICES = st.builds(
    Device,
    uuid=st.from_regex(r"GPU-[0-9a-f]{8}", fullmatch=True),
    mig=st.sampled_from(["", "gpu-0-mig-1g24gb-19-0"]),
)
ALLOCATIONS = st.dictionaries(NAMES, st.lists(DEVICES, min_size=1, max_size=4), max_size=5).map(
    lambda found: Allocation(segments=tuple(map(tuple, found.values())), containers=tuple(found))
)


def test_each_container_has_its_gpus() -> None:
    text = f"main={A},{B};helper={A}"
    found = DIALECT.parse(text, "it")
    assert found == Allocation(
        segments=((Device(uuid=A), Device(uuid=B)), (Device(uuid=A),)), containers=("main", "helper")
    )
    assert DIALECT.format(found) == text


@given(ALLOCATIONS)
def test_what_is_written_is_read(allocation: Allocation) -> None:
    assert DIALECT.parse(DIALECT.format(allocation), "it") == allocation


@given(st.text() | st.from_regex(r"[a-z=;,\[\]-]{0,30}", fullmatch=True))
def test_any_text_is_an_allocation_or_an_error(text: str) -> None:
    with suppress(FormatError):
        assert DIALECT.format(DIALECT.parse(text, "it")) == text


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (A, "^it: segment 1: expected another container with its GPUs"),
        (f"main={A};main={B}", "^it: segment 2: expected another container"),
        ("main=", '^it: segment 1: expected a UUID such as "GPU-5c3f", found ""$'),
        (f"main={A},", "^it: segment 1: expected a UUID"),
        ("main=GPU-a[", "^it: segment 1: expected a UUID"),
    ],
)
def test_bad_text_is_refused(text: str, match: str) -> None:
    with pytest.raises(FormatError, match=match):
        DIALECT.parse(text, "it")


def test_too_much_is_refused() -> None:
    with pytest.raises(LimitError, match="at most 1 devices"):
        DIALECT.parse(f"main={A},{B}", "it", AllocationLimits(devices=1))
    with pytest.raises(LimitError, match="at most 1 segments"):
        DIALECT.parse(f"main={A};b={B}", "it", AllocationLimits(segments=1))
