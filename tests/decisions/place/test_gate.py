"""The gate on a pod, and the patch that opens it, applied by an independent library."""

from typing import Any

import jsonpatch
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pods import pod
from webhook.decisions.place.gate import Gate, find_gate, open_gate
from webhook.objects.pod import MalformedPod, Pod
from webhook.words.choices import Placement

OURS, KUEUE = "gpu.topology/place", "kueue.x-k8s.io/admission"


def waiting(*gates: str, labels: dict[str, str] | None = None) -> dict[str, Any]:
    """A pod as the API server has it, with these gates."""
    manifest = pod(labels=labels, schedulingGates=[{"name": gate} for gate in gates])
    manifest["metadata"] |= {"uid": "u-1", "resourceVersion": "7"}
    return manifest


def gate_of(manifest: dict[str, Any]) -> Gate | None:
    return find_gate(msgspec.json.decode(msgspec.json.encode(manifest), type=Pod))


def opened(manifest: dict[str, Any], gate: Gate | None = None) -> Any:
    """The pod after the patch that was made for it, or for ``gate``."""
    found = gate or gate_of(manifest)
    assert found is not None
    return jsonpatch.apply_patch(manifest, msgspec.json.encode(open_gate(found, Placement.RELEASED)).decode())


def test_the_gate_goes_and_the_label_says_how_the_pod_goes_on() -> None:
    after = opened(waiting(OURS, labels={"app": "train", "gpu.topology/placement": "waiting"}))
    assert after["spec"]["schedulingGates"] == []
    assert after["metadata"]["labels"] == {"app": "train", "gpu.topology/placement": "released"}


def test_a_pod_that_lost_its_labels_gets_the_label() -> None:
    assert opened(waiting(OURS))["metadata"]["labels"] == {"gpu.topology/placement": "released"}


@given(st.permutations([OURS, KUEUE, "example.org/quota"]))
def test_the_gates_of_others_stay(gates: list[str]) -> None:
    after = opened(waiting(*gates, labels={}))
    assert [gate["name"] for gate in after["spec"]["schedulingGates"]] == [gate for gate in gates if gate != OURS]


@pytest.mark.parametrize(
    ("gates", "is_last"), [((OURS,), True), ((KUEUE, OURS), False)], ids=["alone", "beside another"]
)
def test_it_is_known_whether_another_program_holds_the_pod_back_too(gates: tuple[str, ...], is_last: bool) -> None:
    gate = gate_of(waiting(*gates))
    assert gate is not None
    assert gate.is_last is is_last


@pytest.mark.parametrize("gates", [None, [], [{"name": KUEUE}], [{"name": f"{OURS}/2"}]])
def test_a_pod_without_our_gate_is_not_waiting(gates: list[dict[str, str]] | None) -> None:
    assert gate_of(pod(schedulingGates=gates)) is None
    assert gate_of(pod()) is None


@pytest.mark.parametrize("gates", [[None], ["gpu.topology/place"], {"name": OURS}, [{}]])
def test_gates_that_are_none_are_an_error_of_the_pod(gates: Any) -> None:
    with pytest.raises(MalformedPod, match="schedulingGates"):
        gate_of(pod(schedulingGates=gates))


MEANWHILE = {
    "the gate is gone already": (waiting(KUEUE, labels={}), "out of bounds"),
    "another gate went, and ours moved": (waiting(OURS, labels={}), "out of bounds"),
    "another pod has the name": (waiting(KUEUE, OURS) | {"metadata": {"uid": "u-2", "labels": {}}}, "u-2"),
}


@pytest.mark.parametrize(("now", "problem"), MEANWHILE.values(), ids=MEANWHILE)
def test_nothing_happens_to_a_pod_that_is_no_longer_as_it_was(now: dict[str, Any], problem: str) -> None:
    before = gate_of(waiting(KUEUE, OURS, labels={}))
    with pytest.raises(jsonpatch.JsonPatchException, match=problem):
        opened(now, before)


def test_labels_that_another_program_has_written_meanwhile_stay() -> None:
    before, now = gate_of(waiting(OURS)), waiting(OURS, labels={"app": "train"})
    now["metadata"]["resourceVersion"] = "8"
    with pytest.raises(jsonpatch.JsonPatchTestFailed, match="8"):
        opened(now, before)
