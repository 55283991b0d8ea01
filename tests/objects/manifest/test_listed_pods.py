"""Pods of a long List are counted without reading it."""

import pytest
import yaml

from tests.pods import pod
from webhook.objects.manifest.listed_pods import count_listed_pods

OTHER = {"apiVersion": "v1", "kind": "Event", "involvedObject": {"kind": "Pod", "name": "a"}}
SCALAR = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"pods.yaml": "- kind: Pod\n  kind: Pod\nkind: Pod\n"}}


@pytest.mark.parametrize("kind", ["List", "PodList"])
def test_the_pods_of_a_list_are_counted(kind: str) -> None:
    text = yaml.safe_dump({"kind": kind, "items": [pod(), OTHER, pod(), SCALAR]})
    assert count_listed_pods(text) == 2


def test_items_may_be_indented_and_begin_with_their_kind() -> None:
    text = "kind: List\nitems:\n  - kind: Pod\n    metadata: {name: a}\n  - apiVersion: v1\n    kind: Pod\n"
    assert count_listed_pods(text) == 2


@pytest.mark.parametrize(
    "text",
    [
        "",
        yaml.safe_dump(pod()),
        yaml.safe_dump_all([pod(), pod()]),
        yaml.safe_dump({"kind": "List", "items": []}),
        yaml.safe_dump({"kind": "List", "items": [OTHER, SCALAR]}),
        yaml.safe_dump({"kind": "ConfigMap", "items": [pod()]}),
        '{"kind": "List", "items": [{"kind": "Pod"}]}',
    ],
)
def test_other_texts_have_none(text: str) -> None:
    assert count_listed_pods(text) == 0
