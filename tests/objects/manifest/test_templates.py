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
