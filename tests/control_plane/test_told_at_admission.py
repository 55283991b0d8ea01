"""What a user asks for and will not get, told by a real API server when the pod is created."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes.client import CoreV1Api, V1ObjectMeta

from tests.control_plane.accounts import namespace_for_pods
from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.registration import Answer, create_pod, gpu_container, gpu_pod, registered

pytestmark = pytest.mark.cluster

SLICE = gpu_container("main", resources={"limits": {"nvidia.com/gpu": 2, "nvidia.com/gpumem": 3000}})


@pytest.fixture(scope="module", name="watched")
def _watched(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A namespace whose pods the webhook is asked about; the agent of the only node has published eight H20."""
    with control_plane.client() as client:
        namespace = namespace_for_pods(CoreV1Api(client), V1ObjectMeta(generate_name="test-"))
    with registered(control_plane, namespace, tmp_path_factory.mktemp("told")):
        yield namespace


def asked(control_plane: ControlPlane, namespace: str, container: dict[str, Any], **options: str) -> Answer:
    annotations = {f"gpu.topology/{name.replace('_', '-')}": value for name, value in options.items()}
    return create_pod(control_plane, namespace, gpu_pod("asking", annotations, container), dry_run=True)


def codes(answer: Answer) -> list[str]:
    return re.findall(r"GT\d{3}", " ".join(answer.warnings))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"min_bandwidth": "300"}, []),
        ({"min_bandwidth": "450"}, ["GT657"]),
        ({"require_nvlink": "true"}, []),
        ({"require_nvlink": "true", "on_violation": "deny"}, ["GT656"]),
        ({"multi_node_policy": "pack"}, ["GT617"]),
        ({"policy": "pack"}, ["GT617"]),
        ({"polcy": "nvlink"}, ["GT118"]),
    ],
)
def test_what_the_cluster_cannot_do_is_told(
    control_plane: ControlPlane, watched: str, options: dict[str, str], expected: list[str]
) -> None:
    answer = asked(control_plane, watched, gpu_container("main", 2), **options)
    assert (answer.status, codes(answer)) == (201, expected)


def test_the_best_there_is_and_the_figure_of_the_datasheet_are_named(control_plane: ControlPlane, watched: str) -> None:
    told = " ".join(asked(control_plane, watched, gpu_container("main", 2), min_bandwidth="450").warnings)
    assert "370.8" in told
    assert "900" in told


def test_a_requirement_of_a_slice_is_told_and_with_deny_refused(control_plane: ControlPlane, watched: str) -> None:
    answer = asked(control_plane, watched, SLICE, require_nvlink="true")
    assert (answer.status, codes(answer)) == (201, ["GT176"])
    refused = asked(control_plane, watched, SLICE, require_nvlink="true", on_violation="deny")
    assert (refused.status, "GT179" in refused.message) == (422, True)
    assert asked(control_plane, watched, SLICE).status == 201
