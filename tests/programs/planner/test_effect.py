"""Whether a pod is as a patch makes it."""

import json
from typing import Any

import jsonpatch
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.programs.planner.effect import has_effect
from webhook.words.patch import Operation, pointer

UID = Operation("test", "/metadata/uid", "u")
KEY = Operation("add", "/metadata/labels/gpu.topology~1placement", "pinned")
GATE = Operation("remove", "/spec/schedulingGates/0")
TERM = Operation("add", "/spec/terms/0/expressions/-", {"key": "a"})
DONE = {"metadata": {"uid": "u", "labels": {"gpu.topology/placement": "pinned"}}, "spec": {}}


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        ((UID, KEY, GATE), True),
        ((UID, KEY, TERM), True),
        ((Operation("test", "/metadata/uid", "other"), KEY), False),
        ((Operation("add", "/metadata/labels/gpu.topology~1placement", "released"),), False),
        ((Operation("add", "/metadata/annotations", {"a": "b"}),), False),
        ((UID, GATE), False),
        ((UID, Operation("remove", "/metadata/annotations/gpu.topology~1placed")), True),
        ((UID, Operation("remove", "/metadata/labels/gpu.topology~1placement")), False),
        ((Operation("test", "/metadata/uid", "other"), Operation("remove", "/metadata/annotations/a")), False),
        ((), False),
    ],
)
def test_what_was_set_stands_there(operations: tuple[Operation, ...], expected: bool) -> None:
    assert has_effect(json.dumps(DONE).encode(), operations) is expected


@given(
    st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=3),
    st.dictionaries(st.text(max_size=3), st.text(max_size=3), min_size=1, max_size=3),
)
def test_after_a_patch_it_has_an_effect_and_before_only_if_it_changes_nothing(
    labels: dict[str, str], added: dict[str, str]
) -> None:
    pod: Any = {"metadata": {"uid": "u", "labels": labels}}
    operations = (UID, *(Operation("add", pointer("metadata", "labels", key), value) for key, value in added.items()))
    after = jsonpatch.apply_patch(pod, msgspec.to_builtins(operations))
    named = [one for one in added if not one.isdigit() and one != "-"]  # what may be an entry of a list is not asked
    assert has_effect(json.dumps(after).encode(), operations) is bool(named)
    if named and any(labels.get(key) != added[key] for key in named):
        assert not has_effect(json.dumps(pod).encode(), operations)
