"""What the planner keeps of a pod, and when that has changed."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.decisions.place.objects import Object, plain_pod, record_of
from webhook.decisions.place.pod import read_pod
from webhook.words.errors import ManifestError

HELD = {"hami.io/vgpu-node": "n1", "hami.io/vgpu-devices-allocated": "GPU-a,NVIDIA,1024,10:;GPU-b,NVIDIA,1024,10:;"}
INJECTED = {"gpu.topology/injected": "1.0.0/exclusive"}


def pod_with(annotations: dict[str, str] | None = None, **spec: Any) -> Object:
    """A pod with these fields of its spec."""
    pod = plain_pod()
    if annotations is not None:
        pod["metadata"]["annotations"] = annotations
    pod["spec"] |= spec
    return pod


def asks(**requests: str) -> dict[str, Any]:
    """A container."""
    return {"name": "c", "resources": {"requests": requests}}


def test_cards_count_as_for_hami() -> None:
    assert record_of(pod_with(HELD)).held == ("GPU-a", "GPU-b")
    assert record_of(pod_with(HELD)).held_on == "n1"


@pytest.mark.parametrize(("spec", "node"), [({}, ""), ({"nodeName": "n2"}, "n2")])
def test_a_pod_takes_the_resources_of_its_node_and_not_of_the_one_that_an_annotation_names(
    spec: dict[str, Any], node: str
) -> None:
    record = record_of(pod_with(HELD, **spec))
    assert (record.node, record.held_on, record.is_bound) == (node, "n1", bool(node))


def test_cards_of_a_pod_that_is_gated_or_ends_count_too() -> None:
    gated = pod_with(HELD, schedulingGates=[{"name": "gpu.topology/place"}])
    gated["metadata"]["deletionTimestamp"] = "2026-11-22T12:00:00Z"
    record = record_of(gated)
    assert record.held == ("GPU-a", "GPU-b")
    assert record.unbound is not None
    assert record.unbound.is_ending


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_holds_nothing(phase: str) -> None:
    pod = pod_with({**HELD, **INJECTED}, nodeName="n1")
    pod["spec"]["containers"] = [asks(cpu="1")]
    pod["status"]["phase"] = phase
    record = record_of(pod)
    assert (record.held, dict(record.amounts), record.node, record.unbound) == ((), {}, "", None)


def test_a_list_of_devices_without_a_node_is_none_of_hamis() -> None:
    assert record_of(pod_with({"hami.io/vgpu-devices-allocated": HELD["hami.io/vgpu-devices-allocated"]})).held == ()


@pytest.mark.parametrize("text", ["", ";", ";;", "nonsense:", "GPU-a,NVIDIA:", "GPU-a,1,1,1:GPU-b,1:", "x" * 100_000])
def test_a_list_that_hami_does_not_count_holds_nothing(text: str) -> None:
    assert record_of(pod_with({**HELD, "hami.io/vgpu-devices-allocated": text})).held == ()


@pytest.mark.parametrize(
    "text",
    ["GPU-a,,,:", "GPU-a,NVIDIA,much,-1:;", "GPU-a,NVIDIA,1,1,1,1", ",,0,0:;GPU-a,1,1,1:" + "GPU-a,1,1,1:" * 20_000],
)
def test_a_list_that_hami_counts_holds_its_cards_however_odd_it_is(text: str) -> None:
    assert record_of(pod_with({**HELD, "hami.io/vgpu-devices-allocated": text})).held == ("GPU-a",)


@pytest.mark.parametrize(
    "text", ["[", "[{}]", '[{"gpuUUID": 1}]', "[" * 10_000, json.dumps([{"gpuUUID": "GPU-a"}] * 500)]
)
def test_what_is_written_beside_the_list_frees_no_card(text: str) -> None:
    assert record_of(pod_with({**HELD, "hami.io/vgpu-mig-allocations": text})).held == ("GPU-a", "GPU-b")


def test_an_instance_holds_its_card() -> None:
    allocated = {"hami.io/vgpu-devices-allocated": "GPU-a[1-0],NVIDIA,1024,10:;"}
    assert record_of(pod_with({**HELD, **allocated})).held == ("GPU-a",)


@pytest.mark.parametrize(
    ("spec", "amounts"),
    [
        ({"containers": [asks(cpu="500m", memory="1Gi"), asks(cpu="1")]}, {"cpu": 1500, "memory": 2**30}),
        ({"containers": [asks(cpu="1")], "initContainers": [asks(cpu="3"), asks(cpu="2")]}, {"cpu": 3000}),
        ({"containers": [asks(cpu="3")], "initContainers": [asks(cpu="2")]}, {"cpu": 3000}),
        (
            # The restartable one runs beside all that come after it.
            {
                "containers": [asks(cpu="1")],
                "initContainers": [asks(cpu="2"), {**asks(cpu="1"), "restartPolicy": "Always"}, asks(cpu="2")],
            },
            {"cpu": 3000},
        ),
        (
            {"containers": [asks(cpu="1")], "initContainers": [{**asks(cpu="4"), "restartPolicy": "Always"}]},
            {"cpu": 5000},
        ),
        ({"containers": [asks(cpu="1")], "overhead": {"cpu": "250m", "memory": "10"}}, {"cpu": 1250, "memory": 10}),
        ({"containers": [{"name": "c", "resources": {"limits": {"cpu": "2", "a.b/c": 3}}}]}, {"cpu": 2000, "a.b/c": 3}),
        (
            {"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}}]},
            {"cpu": 1000},
        ),
        (
            {
                "containers": [asks(cpu="1", memory="1", **{"a.b/c": "1"})],
                "resources": {"requests": {"cpu": "3", "hugepages-2Mi": "2Mi", "a.b/c": "9"}},
                "overhead": {"cpu": "1"},
            },
            {"cpu": 4000, "memory": 1, "a.b/c": 1, "hugepages-2Mi": 2**21},
        ),
        ({"containers": [asks(cpu="0.1"), asks(cpu="1n")]}, {"cpu": 101}),
        ({"containers": [{"name": "c"}, {"name": "d", "resources": None}, {"name": "e", "resources": {}}]}, {}),
        ({"containers": [asks(cpu="much")]}, {}),
        ({"containers": None}, {}),
    ],
)
def test_a_pod_takes_what_kube_scheduler_reckons(spec: dict[str, Any], amounts: dict[str, int]) -> None:
    assert dict(record_of(pod_with(**spec)).amounts) == amounts


def test_only_pods_that_were_injected_or_carry_our_gate_are_of_interest() -> None:
    assert record_of(pod_with(INJECTED)).unbound is not None
    assert record_of(pod_with(schedulingGates=[{"name": "gpu.topology/place"}])).unbound is not None
    assert record_of(pod_with()).unbound is None
    assert record_of(pod_with(schedulingGates=[{"name": "other"}])).unbound is None
    assert record_of(pod_with(INJECTED, nodeName="n1")).unbound is None


def test_what_is_read_of_a_pod_without_a_node() -> None:
    pod = pod_with(INJECTED, schedulingGates=[{"name": "b/b"}, {"name": "gpu.topology/place"}], priority=2**31 - 1)
    pod["metadata"] |= {"creationTimestamp": "2026-11-22T12:00:00Z", "resourceVersion": "77"}
    pod["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no", "lastProbeTime": None},
        {"type": "gpu.topology/Placed", "status": "False", "reason": "Soon"},
    ]
    unbound = record_of(pod).unbound
    assert unbound is not None
    assert (unbound.gates, unbound.is_gated) == (("b/b", "gpu.topology/place"), True)
    assert (unbound.priority, unbound.created, unbound.version) == (2**31 - 1, "2026-11-22T12:00:00Z", "77")
    assert (unbound.scheduled.reason, unbound.scheduled.message, unbound.placed.reason) == (
        "Unschedulable",
        "no",
        "Soon",
    )
    assert not unbound.is_ending


def test_without_times_and_priority_a_pod_can_be_kept() -> None:
    unbound = record_of(pod_with(INJECTED, priority=None)).unbound
    assert unbound is not None
    assert (unbound.priority, unbound.created) == (0, "")


@pytest.mark.parametrize(
    "changed",
    [
        {"status": {"phase": "Pending", "podIP": "10.0.0.1"}},
        {"metadata": {"resourceVersion": "2", "managedFields": [{"manager": "kubelet"}]}},
        {"metadata": {"annotations": {**HELD, "other": "x"}}},
    ],
)
def test_what_does_not_matter_leaves_the_value_of_before(changed: Object) -> None:
    pod = pod_with(HELD, nodeName="n1")
    before = record_of(pod)
    again = {**pod, **changed, "metadata": {**pod["metadata"], **changed.get("metadata", {})}}
    assert record_of(again, before) is before
    other = {**pod, "spec": {**pod["spec"], "containers": [asks(cpu="1")]}}
    assert record_of(other, before) is not before
    assert record_of(other, before) != before


def test_of_a_pod_without_a_node_the_version_matters() -> None:
    pod = pod_with(INJECTED)
    before = record_of(pod)
    assert record_of(pod, before) is not None
    pod["metadata"]["resourceVersion"] = "2"
    after = record_of(pod, before)
    assert after is not before
    assert after.unbound is not None
    assert after.unbound.version == "2"


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"metadata": {}, "spec": {}}',
        b'{"metadata": {"name": 1, "uid": "u", "resourceVersion": "1"}, "spec": {}}',
        b'{"metadata": {"name": "a", "uid": "u", "resourceVersion": "1"}, "spec": []}',
        b'{"metadata": {"name": "a", "uid": "u", "resourceVersion": "1", "annotations": {"a": 1}}, "spec": {}}',
        b'{"metadata": {"name": "\xff", "uid": "u", "resourceVersion": "1"}, "spec": {}}',
        b'{"metadata": {"name": "a", "uid": "u", "resourceVersion": "1"}, "spec": {"a": ' + b"[" * 100_000,
    ],
)
def test_what_is_no_pod_is_refused_by_name(document: bytes) -> None:
    with pytest.raises(ManifestError, match="pod team/train: "):
        read_pod(document, "team/train", None)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
PLACES = (
    ("metadata", "annotations"),
    ("metadata", "labels"),
    ("metadata", "creationTimestamp"),
    ("spec", "containers"),
    ("spec", "initContainers"),
    ("spec", "overhead"),
    ("spec", "resources"),
    ("spec", "affinity"),
    ("spec", "tolerations"),
    ("spec", "nodeSelector"),
    ("spec", "schedulingGates"),
    ("spec", "priority"),
    ("spec", "nodeName"),
    ("status", "conditions"),
    ("status", "phase"),
)


@given(st.sampled_from(PLACES), json_values)
def test_any_json_is_a_pod_or_is_refused(place: tuple[str, str], value: object) -> None:
    pod = pod_with({**HELD, **INJECTED})
    pod[place[0]][place[1]] = value
    try:
        record = record_of(pod)
    except ManifestError:
        return
    assert record_of(pod, record) is record
