"""A pod as the API server stores it: what is decoded when it is asked for."""

import msgspec
import pytest

from webhook.objects.pod import MalformedPod, Pod, decode_stored_pod


def stored(text: str) -> Pod:
    return decode_stored_pod(text.encode())


@pytest.mark.parametrize("document", ["[]", '{"spec": 1}', '{"spec": {"containers": [{}]}}', '{"status": "x"}'])
def test_what_is_no_pod_is_not_decoded(document: str) -> None:
    with pytest.raises(msgspec.DecodeError, match=r"Expected|Object missing"):
        stored(document)


@pytest.mark.parametrize("status", ['{"conditions": 1}', '{"conditions": [{"type": 1}]}'])
def test_conditions_of_another_shape_are_malformed(status: str) -> None:
    with pytest.raises(MalformedPod, match=r"conditions of the status: .*expected a (list|text)"):
        _ = stored(f'{{"status": {status}}}').scheduled


def test_conditions_are_found_by_their_types() -> None:
    conditions = """[{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node"},
                     {"type": "gpu.topology/Placed", "status": "True", "lastTransitionTime": null}]"""
    pod = stored(f'{{"status": {{"conditions": {conditions}}}}}')
    assert pod.scheduled is not None
    assert (pod.scheduled.status, pod.scheduled.message) == ("False", "no node")
    assert pod.placed is not None
    assert pod.placed.status == "True"
    assert stored("{}").placed is None


@pytest.mark.parametrize(("phase", "runs"), [("Running", True), ("Pending", False), ("Succeeded", False)])
def test_only_a_pod_that_runs_has_run_since_a_time(phase: str, runs: bool) -> None:
    pod = stored(f'{{"status": {{"phase": "{phase}", "startTime": "2026-11-23T10:00:00Z"}}}}')
    assert (pod.running_since is not None) is runs


@pytest.mark.parametrize(("sources", "has"), [("[{}]", True), ("[ ]", False), ("null", False)])
def test_a_container_takes_variables_as_a_whole_where_it_says_so(sources: str, has: bool) -> None:
    spec = stored(f'{{"spec": {{"containers": [{{"name": "a", "envFrom": {sources}}}]}}}}').spec
    assert spec is not None
    assert [container.has_env_from for container in spec.containers or ()] == [has]


def test_what_a_status_holds_too_deep_hides_nothing_else() -> None:
    deep = "[" * 9000 + "]" * 9000
    pod = stored(f'{{"metadata": {{"managedFields": {deep}}}, "status": {{"phase": "Running"}}}}')
    assert pod.status is not None
    assert pod.status.phase == "Running"
