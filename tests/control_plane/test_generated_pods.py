"""The pods of the grammar that the fuzzer uses (``tests/fuzz/grammar.py``): the API server takes them."""

import json
from itertools import cycle

import pytest
from kubernetes.client import CoreV1Api

from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.registration import Answer, create_pod
from tests.fuzz.grammar import FIELDS, TEXTS, Recipe
from tests.pods import Manifest, container, pod

pytestmark = pytest.mark.cluster

SIZE = 16 * 1024
LONG = 2_900_000
"""Bytes: the API server refuses a request of more than 3 MiB."""


def tried(control_plane: ControlPlane, namespace: str, made: Manifest) -> Answer:
    made["metadata"]["namespace"] = namespace
    return create_pod(control_plane, namespace, made, dry_run=True)


def test_the_api_server_takes_a_pod_with_a_long_field(
    control_plane: ControlPlane, namespace: str, subtests: pytest.Subtests
) -> None:
    for field, text in zip(FIELDS, cycle(TEXTS), strict=False):
        with subtests.test(f"{field} of {text}"):
            answer = tried(control_plane, namespace, Recipe(((field, text),)).grown(SIZE))
            assert answer.status == 201 or is_only_privileged(answer), answer.message[:2000]


def is_only_privileged(answer: Answer) -> bool:
    """Whether the pod is refused for privileged containers alone, which the API server of the tests forbids."""
    causes = answer.body.get("details", {}).get("causes", [])
    return bool(causes) and all(cause["field"].endswith(".securityContext.privileged") for cause in causes)


@pytest.mark.long
def test_the_api_server_takes_every_text_and_nearly_three_mebibytes(
    control_plane: ControlPlane, namespace: str, subtests: pytest.Subtests
) -> None:
    parts = [(("few containers", text), ("own annotations", text)) for text in TEXTS]
    long_parts = [((field, "plain"),) for field in ("arguments", "variables", "few containers", "claims")]
    for part, size in [*((part, SIZE) for part in parts), *((part, LONG) for part in long_parts)]:
        made = Recipe(part).grown(size)
        assert len(json.dumps(made)) > 0.8 * size
        with subtests.test(f"{part} of {size}"):
            answer = tried(control_plane, namespace, made)
            assert answer.status == 201, answer.message[:2000]


def test_what_is_no_pod_is_refused(admin: CoreV1Api, control_plane: ControlPlane, namespace: str) -> None:
    answer = tried(control_plane, namespace, pod(container("Upper")))
    assert (answer.status, "spec.containers[0].name" in answer.message) == (422, True)
    assert admin.list_namespaced_pod(namespace).items == []
