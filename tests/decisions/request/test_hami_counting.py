"""Which GPUs of a running pod a version of HAMi counts."""

import pytest

from tests.decisions.allocation.pods import A, B, spelled, whole
from tests.decisions.request.old_allocations import JUDGES, OLD, REMAP, Old, apps, ends, stays
from webhook.decisions.allocation.hami import parse_hami
from webhook.decisions.request.hami_counting import (
    Counting,
    Member,
    ahead_of_sidecar,
    counting,
    writes_every_segment,
)
from webhook.words.version import Version

LATER = Version(2, 11)


def counted(text: str, *containers: Member, hami: Version) -> Counting | None:
    return counting(parse_hami(text, "the allocation"), containers, hami)


@pytest.mark.parametrize("old", OLD, ids=lambda old: old.name)
def test_each_version_counts_what_the_table_says(old: Old, subtests: pytest.Subtests) -> None:
    allocation = parse_hami(old.value, "the allocation")
    for (judge, version), expected in zip(JUDGES.items(), old.counted, strict=True):
        with subtests.test(judge=judge):
            found = counting(allocation, old.containers, version)
            assert found is not None
            given, lost = ({device.uuid for device in devices} for devices in (found.given, found.lost))
            assert given - lost == given & {spelled(letter).partition(",")[0] for letter in expected}


def test_what_is_lost_is_told_with_the_container_for_which_it_is_taken() -> None:
    found = counted(spelled("A:;B:;"), REMAP, *apps(1, 1), hami=LATER)
    assert found == Counting((whole(A), whole(B)), (whole(A),), ("gpu-topology-remap",))
    kept = counted(spelled("A:;B:;"), stays(), *apps(1, 1), hami=LATER)
    assert kept == Counting((whole(A), whole(B)), (), ())


def test_the_gpus_of_an_init_container_that_has_ended_are_not_lost() -> None:
    found = counted(spelled("A:;B:;"), ends(gpus=1), *apps(1), hami=LATER)
    assert found == Counting((whole(B),), (), ())


def test_two_slices_of_one_card_are_counted_one_by_one() -> None:
    half = f"{A},NVIDIA,40000,50"
    found = counted(f"{half}:;{half}:;", REMAP, *apps(1, 1), hami=LATER)
    assert found is not None
    assert (len(found.given), len(found.lost)) == (2, 1)


def test_releases_of_the_branch_of_2_10_read_as_2_10_0() -> None:
    for version, lost in ((Version(2, 10, 3), ()), (Version(2, 11, 1), (whole(A), whole(B)))):
        found = counted(spelled("A:B:;"), ends("istio-init"), stays(), *apps(2), hami=version)
        assert found is not None
        assert found.lost == lost


@pytest.mark.parametrize("text", ["", ";", spelled("A:;"), spelled("A:B:;A:;"), spelled("A:A:;")])
def test_of_an_allocation_that_is_not_of_these_containers_nothing_is_said(text: str) -> None:
    assert counted(text, REMAP, *apps(2), hami=LATER) is None


def test_init_containers_that_end_stand_ahead_of_our_sidecar_or_do_not() -> None:
    behind = (ends("istio-init"), stays("mesh"), ends("fetch"), stays(), ends("after"), *apps(2))
    assert ahead_of_sidecar(behind) == ("gpu-topology-remap", ("istio-init", "fetch"))
    assert ahead_of_sidecar((stays("mesh"), stays(), ends(), *apps(2))) == ("gpu-topology-remap", ())
    assert ahead_of_sidecar((ends("istio-init"), REMAP, *apps(2))) == ("", ())


def test_which_versions_write_a_segment_for_every_init_container() -> None:
    says = {version: writes_every_segment(version) for version in map(_version, ("2.8.3", "2.9.0", "2.10.0", "2.10.1"))}
    assert list(says.values()) == [False, True, False, True]
    assert not writes_every_segment(None)


def _version(text: str) -> Version:
    return Version.parse(text, source="the test")
