"""The patches of pins, applied by an independent library, each with what makes it fail."""

from copy import deepcopy
from typing import Any

import jsonpatch
import pytest

from tests.decisions.place.objects import Object, as_json, plain_pod, record_of
from webhook.decisions.place.pin_patches import adopt, let_go, pin, release, rest, take_back
from webhook.decisions.place.pins import pin_of, pinned_cards, placement_of, written_pin
from webhook.decisions.place.placed_annotation import Placed, format_placed
from webhook.decisions.place.pod import PodRecord
from webhook.words.choices import Placement
from webhook.words.patch import Operation

PIN, PLACED, LABEL, GATE = (
    "nvidia.com/use-gpuuuid",
    "gpu.topology/placed",
    "gpu.topology/placement",
    "gpu.topology/place",
)
CHOSEN = Placed(node="a", cards=("GPU-1", "GPU-2"), link="NVLink", bandwidth=240.0, share=1.0, attempt=1, at="now")
TEXT = format_placed(CHOSEN)


def pod(*gates: str, pinned: bool = False, label: str | None = "waiting", **metadata: Any) -> Object:
    """A pod that was injected."""
    found = plain_pod("train", **metadata)
    annotations = {"gpu.topology/injected": "1"} | ({PIN: "GPU-1,GPU-2", PLACED: TEXT} if pinned else {})
    found["metadata"].setdefault("annotations", annotations)
    if label is not None:
        found["metadata"].setdefault("labels", {LABEL: label})
    if gates:
        found["spec"]["schedulingGates"] = [{"name": gate} for gate in gates]
    return found


def after(before: Object, patch: tuple[Operation, ...]) -> Object:
    """The pod with the patch."""
    found: Object = jsonpatch.apply_patch(deepcopy(before), as_json(patch))
    return found


def said(found: Object) -> tuple[object, ...]:
    """Pin, what was chosen, label and gates."""
    metadata = found["metadata"]
    annotations, labels = metadata.get("annotations", {}), metadata.get("labels", {})
    gates = [gate["name"] for gate in found["spec"].get("schedulingGates", ())]
    return annotations.get(PIN), annotations.get(PLACED), labels.get(LABEL), gates


def test_a_pin_opens_the_gate_with_the_same_patch() -> None:
    before = pod(GATE)
    assert said(after(before, pin(record_of(before), CHOSEN, opens=True))) == ("GPU-1,GPU-2", TEXT, "pinned", [])


def test_a_pin_of_a_group_leaves_the_gate() -> None:
    before = pod(GATE)
    assert said(after(before, pin(record_of(before), CHOSEN, opens=False))) == ("GPU-1,GPU-2", TEXT, "waiting", [GATE])


def test_the_gates_of_others_stay() -> None:
    before = pod("a/a", GATE, "b/b")
    assert said(after(before, pin(record_of(before), CHOSEN, opens=True)))[3] == ["a/a", "b/b"]


def test_a_pod_without_labels_and_annotations_is_pinned() -> None:
    before = pod(GATE, label=None)
    del before["metadata"]["annotations"]
    assert said(after(before, pin(record_of(before), CHOSEN, opens=True))) == ("GPU-1,GPU-2", TEXT, "pinned", [])


def test_other_labels_and_annotations_stay() -> None:
    before = pod(GATE, labels={"app": "a", LABEL: "waiting"}, annotations={"note": "b", "gpu.topology/injected": "1"})
    found = after(before, pin(record_of(before), CHOSEN, opens=True))["metadata"]
    assert (found["labels"]["app"], found["annotations"]["note"]) == ("a", "b")


def test_a_pinned_pod_is_pinned_anew() -> None:
    before = pod(pinned=True, label="released")
    again = Placed(node="b", cards=("GPU-9",), link="NVLink", bandwidth=1.0, share=1.0, attempt=2, at="then")
    found = said(after(before, pin(record_of(before), again, opens=True)))
    assert found == ("GPU-9", format_placed(again), "pinned", [])


def test_a_pod_that_is_released_keeps_what_was_chosen_and_loses_the_pin() -> None:
    before = pod(pinned=True, label="pinned")
    assert said(after(before, release(record_of(before)))) == (None, TEXT, "released", [])
    gated = pod(GATE)
    assert said(after(gated, release(record_of(gated)))) == (None, None, "released", [])


def test_a_list_that_a_user_wrote_is_not_taken_away() -> None:
    before = pod(pinned=True, label="pinned")
    before["metadata"]["annotations"][PIN] = "GPU-2,GPU-1"
    assert said(after(before, release(record_of(before)))) == ("GPU-2,GPU-1", TEXT, "released", [])


def test_a_pod_of_a_group_that_is_released_loses_its_pin_with_its_gate() -> None:
    before = pod(GATE, pinned=True)
    assert said(after(before, release(record_of(before)))) == (None, TEXT, "released", [])


def test_a_pin_that_is_taken_back_leaves_the_pod_as_it_was() -> None:
    before = pod(GATE, pinned=True)
    assert said(after(before, take_back(record_of(before)))) == (None, None, "waiting", [GATE])


def test_a_list_that_a_user_wrote_is_not_taken_back() -> None:
    before = pod(GATE, pinned=True)
    before["metadata"]["annotations"][PIN] = "GPU-2,GPU-1"
    assert said(after(before, take_back(record_of(before)))) == ("GPU-2,GPU-1", TEXT, "waiting", [GATE])


def test_a_gate_is_opened_with_what_stands_on_the_pod_and_with_its_limit_to_nodes() -> None:
    before = pod(GATE, pinned=True)
    opened = after(before, let_go(record_of(before), ["a"]))
    assert said(opened) == ("GPU-1,GPU-2", TEXT, "pinned", [])
    assert "a" in str(opened["spec"]["affinity"])
    assert "affinity" not in after(before, let_go(record_of(before)))["spec"]


def test_a_pin_whose_gate_another_program_opened_is_held_again() -> None:
    before = pod(pinned=True, label="released")
    found = after(before, adopt(record_of(before)))
    assert said(found) == ("GPU-1,GPU-2", TEXT, "pinned", [])
    assert pin_of(record_of(before)) is None
    assert pin_of(record_of(found)) == CHOSEN


def test_a_pod_that_rests_keeps_its_pin() -> None:
    before = pod(pinned=True, label="pinned")
    assert said(after(before, rest(record_of(before)))) == ("GPU-1,GPU-2", TEXT, "released", [])


@pytest.mark.parametrize("changed", [{"resourceVersion": "2"}, {"uid": "uid-of-the-next"}])
@pytest.mark.parametrize(
    "make", [lambda record: pin(record, CHOSEN, opens=True), release, rest, let_go, take_back, adopt]
)
def test_a_pod_that_has_changed_meanwhile_is_left_alone(make: Any, changed: dict[str, str]) -> None:
    before = pod(GATE, pinned=True)
    patch = make(record_of(before))
    after(before, patch)
    before["metadata"] |= changed
    with pytest.raises(jsonpatch.JsonPatchTestFailed, match="not equal to tested value"):
        after(before, patch)


@pytest.mark.parametrize("make", [lambda record: pin(record, CHOSEN, opens=True), release])
def test_a_gate_that_has_moved_is_not_taken_for_another(make: Any) -> None:
    before = pod("a/a", GATE)
    patch = make(record_of(before))
    before["spec"]["schedulingGates"].reverse()
    with pytest.raises(jsonpatch.JsonPatchTestFailed, match="not equal to tested value"):
        after(before, patch)


@pytest.mark.parametrize(
    "make", [lambda record: pin(record, CHOSEN, opens=True), release, rest, let_go, take_back, adopt]
)
def test_a_pod_with_a_node_is_not_patched(make: Any) -> None:
    bound = pod(pinned=True)
    bound["spec"]["nodeName"] = "a"
    with pytest.raises(TypeError, match="pod team/train has a node"):
        make(record_of(bound))


def record(**changes: Any) -> PodRecord:
    """Of a pinned pod."""
    return record_of(pod(pinned=True, **changes))


def test_whose_cards_are_held() -> None:
    assert pinned_cards(record(label="pinned")) == ("GPU-1", "GPU-2")
    assert pin_of(record(label="pinned")) == CHOSEN
    assert placement_of(record(label="pinned")) == Placement.PINNED


def test_a_pod_that_rests_holds_nothing_and_its_pin_is_still_known() -> None:
    assert (pinned_cards(record(label="released")), written_pin(record(label="released"))) == ((), CHOSEN)


@pytest.mark.parametrize("list_of_cards", ["GPU-1", "GPU-2,GPU-1", "GPU-1,GPU-2,", "GPU-1, GPU-2", ""])
def test_what_a_user_has_changed_is_no_pin_of_the_planners(list_of_cards: str) -> None:
    changed = pod(pinned=True, label="pinned")
    changed["metadata"]["annotations"][PIN] = list_of_cards
    assert written_pin(record_of(changed)) is None
    del changed["metadata"]["annotations"][PIN]
    assert written_pin(record_of(changed)) is None


def test_a_pod_with_a_node_has_no_pin() -> None:
    bound = pod(pinned=True, label="pinned")
    bound["spec"]["nodeName"] = "a"
    assert (written_pin(record_of(bound)), placement_of(record_of(bound))) == (None, "")
