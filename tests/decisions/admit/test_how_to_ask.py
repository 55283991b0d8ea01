"""A pod that did not request injection is told how, if a person made it."""

from typing import Any

import pytest

from tests.judge import judge
from tests.pods import container, pod, team_a
from webhook.objects.pod import Namespace

OWNED = {
    "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "1", "controller": True}]
}


def warnings(
    gpus: int = 1, namespace: Namespace | None = None, annotations: dict[str, str] | None = None, **metadata: Any
) -> list[str]:
    manifest = pod(container(gpus=gpus), annotations=annotations)
    manifest["metadata"] |= metadata
    return judge(manifest, namespace or team_a())[0].warnings


def test_a_pod_with_one_gpu_that_a_person_made_is_told_the_annotation() -> None:
    assert warnings() == ['GT166: to request injection, set the annotation gpu.topology/inject: "true"']


def test_it_is_told_also_where_the_namespace_leaves_pods_alone() -> None:
    assert len(warnings(gpus=4, namespace=team_a({"gpu.topology/inject": "false"}))) == 1


@pytest.mark.parametrize("owners", [[], None])
def test_a_list_without_owners_is_none(owners: list[Any] | None) -> None:
    assert len(warnings(ownerReferences=owners)) == 1


@pytest.mark.parametrize(
    "fields",
    [
        OWNED,
        {"annotations": {"gpu.topology/inject": "false"}},
        {"annotations": {"gpu.topology/inject": "true"}},
        {"namespace": Namespace("team-a", {})},
        {"gpus": 2},
    ],
    ids=["of a Job", "opted out", "asks", "a namespace that has not opted in", "asks by its two GPUs"],
)
def test_others_are_not(fields: dict[str, Any]) -> None:
    assert warnings(**fields) == []
