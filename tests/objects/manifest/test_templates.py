"""Pod templates are found by their structure."""

from typing import Any

import pytest

from webhook.objects.manifest.templates import find_templates

POD: dict[str, Any] = {"containers": [{"name": "a"}]}


@pytest.mark.parametrize(
    "document",
    [
        None,
        1,
        "containers",
        [],
        {},
        {"containers": [{"name": "a"}]},
        {"spec": None},
        {"spec": {"containers": None}},
        {"spec": {"containers": []}},
        {"spec": {"containers": "a"}},
        {"spec": {"containers": {"name": "a"}}},
        {"spec": {"containers": ["a"]}},
        {"spec": {"containers": [{"name": "a"}, {}]}},
        {"kind": "ConfigMap", "data": {"pod.yaml": "spec: {containers: [{name: a}]}"}},
    ],
)
def test_what_is_no_pod_has_no_template(document: Any) -> None:
    assert find_templates(document) == []


@pytest.mark.parametrize(
    ("document", "paths"),
    [
        ({"spec": POD}, [""]),
        ([{"spec": POD}, {"spec": POD}], ["/0", "/1"]),
        ({"a/b": {"c~d": {"spec": POD}}}, ["/a~1b/c~0d"]),
        ({"spec": {"a": {"spec": POD}, "b": [{"x": {"spec": POD}}]}}, ["/spec/a", "/spec/b/0/x"]),
        ({1: {"spec": POD}}, ["/1"]),
    ],
)
def test_a_template_is_found_with_its_path(document: Any, paths: list[str]) -> None:
    assert [template.path for template in find_templates(document)] == paths


def test_nothing_is_looked_for_inside_a_template() -> None:
    document = {"spec": {**POD, "volumes": [{"inner": {"spec": POD}}]}}
    assert [template.path for template in find_templates(document)] == [""]


def test_a_pod_spec_of_init_containers_alone_is_no_template() -> None:
    assert find_templates({"spec": {"initContainers": [{"name": "a"}]}}) == []


@pytest.mark.parametrize(
    ("spec", "parts"),
    [
        ({"template": {"spec": POD}}, [""]),
        ({"jobTemplate": {"spec": {"template": {"spec": POD}}}}, ["job"]),
        (
            {"replicaSpecs": {"Master": {"template": {"spec": POD}}, "Worker": {"template": {"spec": POD}}}},
            ["master", "worker"],
        ),
        ({"headGroupSpec": {"template": {"spec": POD}}}, ["head"]),
        ({"workerGroupSpecs": [{"groupName": "gpu", "template": {"spec": POD}}]}, ["gpu"]),
        ({"replicatedJobs": [{"name": "a", "template": {"spec": {"template": {"spec": POD}}}}]}, ["a"]),
        ({"tasks": [{"template": {"spec": POD}}, {"name": 5, "template": {"spec": POD}}]}, ["0", "1"]),
        (
            {"leaderWorkerTemplate": {"leaderTemplate": {"spec": POD}, "workerTemplate": {"spec": POD}}},
            ["leader", "worker"],
        ),
    ],
)
def test_a_template_has_the_role_of_its_place(spec: Any, parts: list[str]) -> None:
    found = find_templates({"kind": "Workload", "spec": spec})
    assert [template.part for template in found] == parts
    assert not any(template.is_pod for template in found)


def test_a_pod_has_no_role_and_is_the_pod_itself() -> None:
    (found,) = find_templates({"kind": "Pod", "spec": POD})
    assert (found.part, found.is_pod) == ("", True)


@pytest.mark.parametrize(
    ("spec", "asks"),
    [
        (POD, False),
        ({"containers": [{"name": "a", "resources": {"limits": {"cpu": 1}}}]}, False),
        ({"containers": [{"name": "a", "resources": 5}], "initContainers": "x"}, False),
        ({"containers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}, True),
        ({**POD, "initContainers": [{"name": "b", "resources": {"requests": {"volcano.sh/vgpu-number": 1}}}]}, True),
        ({**POD, "resourceClaims": [{"name": "c"}]}, True),
    ],
)
def test_a_template_asks_for_gpus_by_a_resource_or_a_claim(spec: Any, asks: bool) -> None:
    (found,) = find_templates({"kind": "Pod", "spec": spec})
    assert found.asks_for_gpus is asks


@pytest.mark.parametrize(
    ("of_job", "of_pod", "scheduler"),
    [({}, {}, "volcano"), ({"schedulerName": "a"}, {}, "a"), ({"schedulerName": "a"}, {"schedulerName": "b"}, "b")],
)
def test_volcano_copies_the_scheduler_of_a_job_into_pods_that_name_none(
    of_job: dict[str, str], of_pod: dict[str, str], scheduler: str
) -> None:
    job = {"tasks": [{"template": {"spec": POD | of_pod}}], **of_job}
    for kind, spec in (("Job", job), ("CronJob", {"schedule": "@daily", "jobTemplate": {"spec": job}})):
        (found,) = find_templates({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": kind, "spec": spec})
        assert found.pod["spec"]["schedulerName"] == scheduler
        assert found.value["spec"] == POD | of_pod
        (other,) = find_templates({"apiVersion": "example.com/v1", "kind": kind, "spec": spec})
        assert other.pod == other.value
