"""What HAMi and Volcano write is read, and what they would write is written."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.decisions.allocation.pods import A, B, C, spelled, whole
from webhook.decisions.allocation import hami, volcano
from webhook.decisions.allocation.dialect import Dialect
from webhook.decisions.allocation.model import Allocation, Device
from webhook.words.errors import FormatError

BOTH = pytest.mark.parametrize("dialect", [hami.DIALECT, volcano.DIALECT], ids=lambda dialect: dialect.family)


def read(dialect: Dialect, value: str) -> list[list[str]]:
    """The UUIDs of each segment."""
    return [[device.uuid for device in segment] for segment in dialect.parse(value, "it").segments]


@BOTH
def test_fields_of_later_versions_are_ignored(dialect: Dialect) -> None:
    assert dialect.parse(f"{A},NVIDIA,81559,100,0,whatever:", "it").devices == (whole(A),)


@BOTH
@pytest.mark.parametrize("piece", [",,0,0", "", ",", ",NVIDIA,no,number"])
def test_what_is_no_device_leaves_its_segment_empty(dialect: Dialect, piece: str) -> None:
    assert read(dialect, spelled("A:;") + piece + spelled(":;B:")) == [[A], [], [B]]


@BOTH
@pytest.mark.parametrize("piece", ["hello", "GPU-only", "GPU-a,NVIDIA", "GPU-a,NVIDIA,1"])
def test_what_is_half_a_device_is_refused(dialect: Dialect, piece: str) -> None:
    found = re.escape(f'it: segment 2: expected uuid,type,MiB,percent for each device, found "{piece}"')
    with pytest.raises(FormatError, match=found):
        dialect.parse(spelled("A:;") + piece + spelled(":;B:"), "it")


@BOTH
def test_what_is_no_device_does_not_hide_its_neighbours(dialect: Dialect) -> None:
    assert read(dialect, spelled("A:,,0,0:B:")) == [[A, B]]


@BOTH
@pytest.mark.parametrize("instance", ["1-0", "group-0", "1g.10gb-3"])
def test_brackets_name_a_mig_instance(dialect: Dialect, instance: str) -> None:
    value = f"{A}[{instance}],NVIDIA,10240,100:"
    allocation = Allocation(segments=((Device(uuid=A, memory_mib=10240, cores=100, mig=instance),),))
    assert dialect.parse(value, "it") == allocation
    assert dialect.parse(dialect.format(allocation), "it") == allocation


@pytest.mark.parametrize(
    ("value", "segments"),
    [
        ("", []),
        (";", [[]]),
        (";;", [[], []]),
        ("A:B:;", [[A, B]]),
        ("A:B:", [[A, B]]),
        ("A:B:;C:;", [[A, B], [C]]),
        (";A:;;", [[], [A], []]),
    ],
)
def test_hami_ends_every_container_with_a_semicolon(value: str, segments: list[list[str]]) -> None:
    assert read(hami.DIALECT, spelled(value)) == segments


@pytest.mark.parametrize(
    ("value", "segments"),
    [
        ("", []),
        (";", [[], []]),
        ("A:B:", [[A, B]]),
        ("A:B:;", [[A, B], []]),
        ("A:;B:C:", [[A], [B, C]]),
        ("A:;B:C:;", [[A], [B, C], []]),
        (";A:;;B:", [[], [A], [], [B]]),
    ],
)
def test_volcano_puts_semicolons_between_containers(value: str, segments: list[list[str]]) -> None:
    assert read(volcano.DIALECT, spelled(value)) == segments


@pytest.mark.parametrize(
    ("dialect", "value"), [(hami.DIALECT, ";A:B:;;C:;"), (volcano.DIALECT, ";A:B:;;C:")], ids=["hami", "volcano"]
)
def test_each_scheduler_has_its_own_way_to_write(dialect: Dialect, value: str) -> None:
    allocation = Allocation(segments=((), (whole(A), whole(B)), (), (whole(C),)))
    assert dialect.format(allocation) == spelled(value)


@BOTH
@pytest.mark.parametrize(
    ("value", "text"),
    [
        (f"{A},NVIDIA,much,100:", 'it: segment 1: expected a number for MiB of memory, such as "100", found "much"'),
        (f"{A},NVIDIA,-1,100:", 'it: segment 1: expected a number for MiB of memory, such as "100", found "-1"'),
        (f"{A},NVIDIA,²,100:", 'it: segment 1: expected a number for MiB of memory, such as "100", found "²"'),
        (f";{A},NVIDIA,1,:", 'it: segment 2: expected a number for cores in percent, such as "100", found ""'),
        (f"{A},NVIDIA,1,1.5:", 'it: segment 1: expected a number for cores in percent, such as "100", found "1.5"'),
        (f"{A},NVIDIA,1,{'1' * 11}:", f'such as "100", found "{"1" * 11}"'),
        ("GPU-a[1-0,NVIDIA,1,1:", 'expected a UUID such as "GPU-5c3f..." or "GPU-5c3f...[1-0]", found "GPU-a[1-0"'),
        ("GPU-a[],NVIDIA,1,1:", 'found "GPU-a[]"'),
        ("GPU-a[1][2],NVIDIA,1,1:", 'found "GPU-a[1][2]"'),
        ("[1-0],NVIDIA,1,1:", 'found "[1-0]"'),
        ("GPU a,NVIDIA,1,1:", 'found "GPU a"'),
        (" ,NVIDIA,1,1:", 'found " "'),
        ("A\n", 'it: expected printable characters, found "A\\n"'),
        ("A" * 65537, 'it: expected at most 65536 characters, found "65537 characters"'),
    ],
)
def test_what_could_name_a_wrong_gpu_is_refused(dialect: Dialect, value: str, text: str) -> None:
    with pytest.raises(FormatError, match=re.escape(text)):
        dialect.parse(value, "it")


@BOTH
@pytest.mark.parametrize(
    "allocation",
    [
        Allocation(segments=((Device(minor=0),),)),
        Allocation(segments=((Device(uuid=A, minor=0),),)),
        Allocation(segments=((whole(A),),), of_pod=True),
        Allocation(segments=((Device(uuid=A, kind="a,b"),),)),
    ],
    ids=["by minor number", "with minor number", "of the pod", "with a comma"],
)
def test_what_the_form_has_no_place_for_is_not_written(dialect: Dialect, allocation: Allocation) -> None:
    with pytest.raises(FormatError, match=f"the allocation.*(expected what annotation {dialect.key} can hold|number)"):
        dialect.format(allocation)


def test_volcano_cannot_write_a_single_empty_segment() -> None:
    with pytest.raises(FormatError, match=r"expected what annotation volcano\.sh/vgpu-ids-new can hold"):
        volcano.DIALECT.format(Allocation(segments=((),)))


marks = st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters=",:;[]"), min_size=1, max_size=12)
kinds = st.text(st.characters(categories=["L", "N", "P", "S"], exclude_characters=",:;"), max_size=12)
numbers = st.integers(0, 10**10 - 1)
devices = st.builds(
    Device, uuid=marks, kind=kinds, memory_mib=numbers, cores=numbers, mig=st.just("") | marks, minor=st.none()
)
allocations = st.lists(st.lists(devices, max_size=4).map(tuple), max_size=5).map(
    lambda segments: Allocation(segments=tuple(segments))
)


@given(allocations)
def test_hami_reads_back_whatever_it_can_express(allocation: Allocation) -> None:
    assert hami.DIALECT.parse(hami.DIALECT.format(allocation), "it") == allocation


@given(allocations.filter(lambda allocation: allocation.segments != ((),)))
def test_volcano_reads_back_whatever_it_can_express(allocation: Allocation) -> None:
    assert volcano.DIALECT.parse(volcano.DIALECT.format(allocation), "it") == allocation


texts = st.one_of(
    st.text(max_size=60),
    st.text(alphabet=",:;[]019GPU-", max_size=60),
    st.lists(st.sampled_from([A, ",NVIDIA,1,2:", ",,0,0:", ";", "[1-0]", ",", ":", "x"]), max_size=20).map("".join),
)


@BOTH
@given(text=texts)
@example(text="\ud800,NVIDIA,1,1:")
def test_any_text_is_read_or_refused_and_what_was_read_is_written_in_one_way(dialect: Dialect, text: str) -> None:
    try:
        allocation = dialect.parse(text, "it")
    except FormatError:
        return
    written = dialect.format(allocation)
    assert dialect.parse(written, "it") == allocation
    assert dialect.format(dialect.parse(written, "it")) == written
