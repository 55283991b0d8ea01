"""HAMi 2.10 tells in an annotation of its own which GPUs are cut; that annotation outlives what it is about."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.decisions.allocation.pods import A, B, C, spelled, whole
from webhook.decisions.allocation.hami import parse_mig_allocations
from webhook.decisions.allocation.model import Allocation
from webhook.decisions.allocation.reader import read_allocation
from webhook.words import names
from webhook.words.errors import FormatError

FIX = "Delete the annotation if the pod's GPUs are not in MIG mode"
WHERE = "annotation hami.io/vgpu-mig-allocations on pod team-a/train"


def instance(uuid: str, profile: str = "1g.10gb", **more: object) -> dict[str, object]:
    """As HAMi writes it before the device plugin adds what it made."""
    place = {"containerIndex": 0, "deviceIndex": 0, "placement": {"start": 0, "size": 1}}
    return place | {"gpuUUID": uuid, "profile": profile} | more


def migs(allocated: str, mig: str) -> list[tuple[str, str]]:
    """UUID and instance of each device."""
    annotations = {names.HAMI_DEVICES_ALLOCATED: spelled(allocated), names.HAMI_MIG_ALLOCATIONS: mig}
    allocation = read_allocation(annotations, family="hami", holder="pod team-a/train")
    return [(device.uuid, device.mig) for device in allocation.devices]


def test_the_gpus_that_the_annotation_names_are_cut() -> None:
    text = json.dumps([instance(A), instance(C, "2g.20gb", migUUID="MIG-1", gpuInstanceID=1, computeInstanceID=0)])
    assert migs("A:B:;C:;", text) == [(A, "1g.10gb"), (B, ""), (C, "2g.20gb")]


def test_several_instances_on_one_gpu_are_all_marked() -> None:
    text = json.dumps([instance(A), instance(A, "2g.20gb"), instance(A)])
    assert migs("A:A:A:;", text) == [(A, "1g.10gb or 2g.20gb")] * 3


@pytest.mark.parametrize("told", [{}, {"profile": ""}, {"profile": None}])
def test_an_instance_without_a_profile_is_one(told: dict[str, object]) -> None:
    assert migs("A:;", json.dumps([{"gpuUUID": A} | told])) == [(A, "mig")]


def test_the_old_form_stays_what_it_is() -> None:
    annotations = {names.HAMI_DEVICES_ALLOCATED: f"{A}[1-0],NVIDIA,10240,100:;"}
    allocation = read_allocation(annotations, family="hami", holder="it")
    assert [(device.uuid, device.mig) for device in allocation.devices] == [(A, "1-0")]


@pytest.mark.parametrize(
    "stale",
    [
        json.dumps([instance(C)]),
        "[]",
        "null",
        "",
        f'[{{"gpuUUID":"{C}"',
        f'[{{"gpuUUID":"{C}","profile":3}}]',
        f'[{{"gpuUUID":"{C}"}},{{"gpuUUID":"GPU-dd',
    ],
    ids=["others", "none", "null", "empty", "others and cut off", "others and wrong", "others, the last cut off"],
)
def test_what_is_about_other_gpus_was_left_by_an_earlier_attempt(stale: str) -> None:
    assert migs("A:B:;", stale) == [(A, ""), (B, "")]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f'[{{"gpuUUID":"{A}"', ': expected a list of MIG instances in JSON, each with gpuUUID, found "line 1, column'),
        (
            '[{"gpuUUID":"GPU-aaaa',
            ': expected a list of MIG instances in JSON, each with gpuUUID, found "line 1, column',
        ),
        ('[{"gpuUUID":"GPU-', ': expected a list of MIG instances in JSON, each with gpuUUID, found "line 1, column'),
        (
            "whatever",
            ': expected a list of MIG instances in JSON, each with gpuUUID, found "line 1, column 1: Expecting',
        ),
        ("{}", ': expected a list of MIG instances in JSON, each with gpuUUID, found "an object"'),
        ("[3]", ': [0]: expected an object with gpuUUID "GPU-...", found "3"'),
        ('[{"migUUID":"MIG-1"}]', ': [0]: expected an object with gpuUUID "GPU-...", found "gpuUUID nothing"'),
        ('[{"gpuUUID":""}]', ': [0]: expected an object with gpuUUID "GPU-...", found "gpuUUID "'),
        (f'[{{"gpuUUID":["{A}"]}}]', ': [0]: expected an object with gpuUUID "GPU-...", found "gpuUUID a list"'),
        (
            f'[{{"gpuUUID":"{C}"}},{{"gpuUUID":"{A}","profile":3}}]',
            ': [1].profile: expected a profile such as "1g.10gb", found "3"',
        ),
        (f'[{{"gpuUUID":"{C}","gpuUUID":"{A}"}}]', 'found "gpuUUID twice"'),
    ],
)
def test_what_cannot_be_read_and_may_be_about_these_gpus_is_refused(text: str, found: str) -> None:
    with pytest.raises(FormatError, match=f"^{WHERE}.*{re.escape(found)}.*{FIX}$"):
        migs("A:B:;", text)


def test_other_schedulers_do_not_read_it() -> None:
    annotations = {
        names.VOLCANO_DEVICES_ALLOCATED: spelled("A:"),
        names.HAMI_MIG_ALLOCATIONS: json.dumps([instance(A)]),
    }
    assert read_allocation(annotations, family="volcano", holder="it") == Allocation(segments=((whole(A),),))


def test_the_parents_are_told_with_their_profiles() -> None:
    text = json.dumps([instance(B), instance(A, "3g.40gb")])
    assert parse_mig_allocations(text, "it") == {B: "1g.10gb", A: "3g.40gb"}


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from([A, B, C])
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["gpuUUID", "profile", "x"]), inner, max_size=3)
    ),
)
texts = st.text(max_size=40) | values.map(json.dumps) | st.lists(values, max_size=3).map(json.dumps)


@given(texts)
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = migs("A:B:;", text)
    except FormatError:
        return
    assert [uuid for uuid, _ in found] == [A, B]


@given(texts, st.integers(0, 200))
def test_a_gpu_that_is_named_never_counts_as_whole_however_broken_the_text_is(rest: str, cut: int) -> None:
    text = (json.dumps([instance(A)]) + rest)[: 60 + cut]
    try:
        found = dict(migs("A:B:;", text))
    except FormatError:
        return
    assert found[A]
