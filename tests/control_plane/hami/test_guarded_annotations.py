"""A HAMi that guards its annotations: all that our programs write passes, and forged allocations do not.

HAMi after 2.10 refuses pods that are created with annotations which its scheduler writes, and, at an update of a pod,
changes of them by anyone but a service account, or on a pod of another scheduler (its pull requests 3042 and 3074, file
pkg/scheduler/webhook.go). No release has that yet, so policies with these two rules stand here for its webhook.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.control_plane.hami.cluster import Cluster
from tests.control_plane.hami.conftest import NewTeam
from tests.control_plane.hami.placed import DENY, given, placed_as, slice_of, train
from tests.control_plane.hami.planning import placing
from tests.control_plane.hami.pods import container, pod
from tests.control_plane.hami.team import Team, annotations_of
from tests.control_plane.manifests import apply, path_of, request
from tests.programs.server.conftest import until

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("registration", "guard"), pytest.mark.long]

Manifest = dict[str, Any]
KEYS = ("vgpu-node", "bind-time", "bind-phase", "vgpu-devices-to-allocate", "vgpu-devices-allocated")
GUARDED = ", ".join(f"'hami.io/{key}'" for key in KEYS)
ALLOCATED = {"hami.io/vgpu-devices-allocated": "GPU-0,NVIDIA,81920,100:;", "hami.io/vgpu-node": "a100-bridged"}


def annotations(name: str) -> str:
    return f"(has({name}.metadata.annotations) ? {name}.metadata.annotations : {{}})"


CREATED = f"[{GUARDED}].all(key, !(key in {annotations('object')}))"
UPDATED = (
    f"[{GUARDED}].all(key, {annotations('object')}[?key] == {annotations('oldObject')}[?key])"
    " || (request.userInfo.username.startsWith('system:serviceaccount:')"
    " && object.spec.schedulerName == 'hami-scheduler')"
)


def rule(operation: str, expression: str) -> list[Manifest]:
    """A policy for pods, and its binding."""
    name = f"hami-guards-{operation.lower()}"
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": [operation], "resources": ["pods"]}]
    api = "admissionregistration.k8s.io/v1"
    return [
        {
            "apiVersion": api,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": rules},
                "validations": [{"expression": expression, "message": "written by the scheduler"}],
            },
        },
        {
            "apiVersion": api,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        },
    ]


@pytest.fixture
def guard(cluster: Cluster, new_team: NewTeam) -> Iterator[None]:
    """Both rules are in force."""
    team = new_team(injection="enabled")
    with ExitStack() as stack:
        for one in (*rule("CREATE", CREATED), *rule("UPDATE", UPDATED)):
            assert apply(cluster.control_plane, one).status_code in {200, 201}
            stack.callback(request, cluster.control_plane, "DELETE", path_of(one))
        until(lambda: forges(team) == 422, "the rules")
        yield


def forges(team: Team) -> int:
    """What the API server says to a pod that is created with an allocation, as a backup restores it."""
    forged = pod("forged", container(gpus=2), annotations=ALLOCATED)
    return team.asks_for(forged, dry_run=True).status


def test_a_pod_is_injected_and_told_its_cards(new_team: NewTeam) -> None:
    team = new_team(injection="enabled")
    team.creates(pod("train", container(gpus=2)))
    told = annotations_of(team.bound("train"))
    assert told["gpu.topology/link"]
    assert told["gpu.topology/visible-uuids"].startswith("GPU-")
    assert forges(team) == 422


def test_all_that_the_planner_writes_passes(cluster: Cluster, new_team: NewTeam, tmp_path: Path) -> None:
    with placing(cluster.ours, tmp_path):
        team = new_team(injection="enabled")
        team.creates(slice_of(3))
        team.bound("slice-3")
        team.creates(train())
        assert given(team.bound("train")) == [0, 1]
        team.creates(train("denies", options=DENY))
        until(placed_as(team, "denies", "NoFreeCards"), "a pod that waits for a pair")
        team.deletes("train")
        assert given(team.bound("denies")) == [0, 1]
        team.creates(train("wide", gpus=4))
        until(placed_as(team, "wide", "Released"), "a pod that is let go")
