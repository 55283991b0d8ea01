"""Segments find their containers, or nothing is said at all."""

import re

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st

from tests.decisions.allocation.pods import A, B, C, Container, D, given, pod, whole
from webhook.decisions.allocation.assignment import assign
from webhook.decisions.allocation.model import Allocation, Device
from webhook.words.errors import FormatError

FIX = ". Was the pod changed after it was scheduled, or is its scheduler another one?"


def segments(*each: str) -> Allocation:
    """``AB`` is a segment with the first two GPUs."""
    uuids = {"A": A, "B": B, "C": C, "D": D}
    return Allocation(segments=tuple(tuple(whole(uuids[letter]) for letter in letters) for letters in each))


def of_pod(*minors: int) -> Allocation:
    return Allocation(segments=(tuple(Device(minor=minor) for minor in minors),), of_pod=True)


def test_init_containers_come_first() -> None:
    assert given(segments("A", "B"), pod(init=(1,), app=(1,))) == {"init-0": [A], "app-0": [B]}


def test_init_containers_without_a_segment_get_nothing() -> None:
    assert given(segments("A", "B"), pod(init=(1, 1), app=(1, 1))) == {"app-0": [A], "app-1": [B]}


def test_two_containers_may_share_a_gpu() -> None:
    assert given(segments("A", "A"), pod(app=(1, 1))) == {"app-0": [A], "app-1": [A]}


@pytest.mark.parametrize(
    ("allocation", "containers", "text"),
    [
        (
            segments("ABC", "D"),
            [Container("trainer", 4)],
            (
                "the pod's GPU allocation: expected segments for 1 container: trainer with 4,"
                ' found "2 segments with 3 and 1 devices"'
            ),
        ),
        (
            segments("AB"),
            pod(app=(4,)),
            'expected segments for 1 container: app-0 with 4, found "1 segment with 2 devices"',
        ),
        (
            segments("A"),
            pod(app=(1, 2)),
            'expected segments for 2 containers: app-0 with 1, app-1 with 2, found "1 segment with 1 device"',
        ),
        (
            segments("A", "B", "C"),
            pod(app=(2, 1)),
            'segments for 2 containers: app-0 with 2, app-1 with 1, found "3 segments with 1, 1 and 1 devices"',
        ),
        (
            segments("AB", "C"),
            pod(init=(1,), app=(2,)),
            (
                "expected segments for 2 containers: init-0 with 1, app-0 with 2, or without the init containers for"
                ' 1 container: app-0 with 2, found "2 segments with 2 and 1 devices"'
            ),
        ),
        (
            segments("A"),
            pod(init=(1, 1)),
            'expected segments for 2 containers: init-0 with 1, init-1 with 1, found "1 segment with 1 device"',
        ),
        (
            segments("A"),
            pod(app=(0,)),
            'expected segments for no container, because none asks for GPUs, found "1 segment with 1 device"',
        ),
        (Allocation(), pod(app=(1,)), 'expected segments for 1 container: app-0 with 1, found "no segment"'),
        (
            of_pod(0, 1),
            pod(app=(1, 2)),
            'expected 3 devices for 2 containers: app-0 with 1, app-1 with 2, found "2 devices"',
        ),
        (of_pod(0, 1), pod(app=(1,)), 'expected 1 device for 1 container: app-0 with 1, found "2 devices"'),
    ],
)
def test_what_does_not_fit_is_refused_with_both_sides_named(
    allocation: Allocation, containers: list[Container], text: str
) -> None:
    with pytest.raises(FormatError, match=re.escape(text + FIX) + "$"):
        assign(allocation, containers)


@pytest.mark.parametrize(
    ("twice", "named"), [(whole(A), A), (Device(minor=3), "minor number 3")], ids=["by UUID", "by minor number"]
)
def test_a_container_cannot_have_a_gpu_twice(twice: Device, named: str) -> None:
    allocation = Allocation(segments=((twice, twice),))
    with pytest.raises(FormatError, match=f'each GPU of container app-0 once, found "{named} twice"'):
        assign(allocation, pod(app=(2,)))


counts = st.lists(st.integers(0, 3), max_size=5).map(tuple)


@st.composite
def served_pods(draw: st.DrawFn) -> tuple[list[Container], Allocation]:
    """A pod, and what a scheduler of some version wrote for it: empty segments come and go."""
    containers = pod(init=draw(counts), app=draw(counts))
    counted = [container for container in containers if container.count]
    uuids = iter(f"GPU-{number}" for number in range(100))
    written: list[tuple[Device, ...]] = []
    for container in counted:
        written += [()] * draw(st.integers(0, 2))
        written.append(tuple(whole(next(uuids)) for _ in range(container.count)))
    return containers, Allocation(segments=(*written, *[()] * draw(st.integers(0, 2))))


@for_all(served_pods())
def test_every_gpu_goes_to_one_container_and_the_order_stays(case: tuple[list[Container], Allocation]) -> None:
    containers, allocation = case
    dealt = assign(allocation, containers)
    assert [container for container, _ in dealt] == [container for container in containers if container.count]
    assert [len(devices) for _, devices in dealt] == [container.count for container, _ in dealt]
    assert tuple(device for _, devices in dealt for device in devices) == allocation.devices


numbers = st.lists(st.integers(0, 5), max_size=8, unique=True)


@for_all(numbers, counts, counts)
def test_gpus_of_a_pod_go_to_one_container_each_or_nowhere(
    minors: list[int], init: tuple[int, ...], app: tuple[int, ...]
) -> None:
    try:
        dealt = assign(of_pod(*minors), pod(init=init, app=app))
    except FormatError:
        assert len(minors) != sum(init + app)
    else:
        assert [device.minor for _, devices in dealt for device in devices] == minors


@for_all(st.lists(st.lists(st.sampled_from([A, B, C, D]), max_size=3), max_size=5), counts, counts)
def test_whatever_was_written_is_dealt_out_whole_or_refused(
    written: list[list[str]], init: tuple[int, ...], app: tuple[int, ...]
) -> None:
    allocation = Allocation(segments=tuple(tuple(whole(uuid) for uuid in segment) for segment in written))
    try:
        dealt = assign(allocation, pod(init=init, app=app))
    except FormatError:
        return
    assert tuple(device for _, devices in dealt for device in devices) == allocation.devices
    assert all(len(devices) == container.count for container, devices in dealt)
