"""Pod Security judges what HAMi's webhook and ours have made of a pod; what it accepts, HAMi schedules."""

import re
from typing import Any

import pytest

from tests.control_plane.hami.cluster import H20, topologies
from tests.control_plane.hami.conftest import NewTeam
from tests.control_plane.hami.pods import CUDA, container, pod
from tests.control_plane.hami.team import OPTED_IN, PERMISSIONS, annotations_of, cards_of
from tests.control_plane.hami.values import fault_of
from tests.control_plane.registration import ENFORCE, RESTRICTED
from tests.hardware.topology.machines import H20_UUIDS

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("registration")]


def served(profile: str, *names: str, **fields: Any) -> dict[str, Any]:
    """A pod with a container of two GPUs for each name."""
    containers = [container(name, gpus=2, **fields) for name in names]
    return pod("serve", *containers, node=H20, annotations={"profile": profile})


def test_restricted_accepts_an_exclusive_pod_and_it_is_bound_with_its_values(new_team: NewTeam) -> None:
    team = new_team(**OPTED_IN, **{ENFORCE: "restricted"})
    careless = team.asks_for(served("exclusive", "worker"))
    assert careless.status == 403
    assert 'violates PodSecurity "restricted:latest"' in careless.message
    assert "gpu-topology-remap" not in careless.message  # our own container is none of the reasons
    team.creates(served("exclusive", "worker", securityContext=RESTRICTED))
    (h20,) = (each for each in topologies() if each.node == H20)
    assert fault_of(team.bound("serve"), h20) == ""


def test_restricted_accepts_peers_in_one_pod_and_they_are_bound_with_their_values(new_team: NewTeam) -> None:
    team = new_team(**OPTED_IN, **{ENFORCE: "restricted"})
    team.creates(served("pod-peers", "prefill", "decode", securityContext=RESTRICTED))
    bound = team.bound("serve")
    annotations, (first, second) = annotations_of(bound), cards_of(bound)
    visible = sorted(first + second, key=H20_UUIDS.index)
    assert annotations["gpu.topology/visible-uuids"] == ",".join(visible)
    for number, own in enumerate((first, second)):
        positions = sorted(visible.index(card) for card in own)
        assert annotations[f"{CUDA}.{number}"] == ",".join(map(str, positions))


def test_baseline_rejects_node_peers_for_what_our_warning_foretells(new_team: NewTeam) -> None:
    team = new_team(**OPTED_IN, **PERMISSIONS, **{ENFORCE: "baseline"})
    answer = team.asks_for(served("node-peers", "worker"))
    assert answer.status == 403
    (warning,) = answer.warnings
    foretold = f"Pod Security level baseline of namespace {team.namespace} will reject hostIPC, hostPID"
    assert foretold in warning
    (reasons,) = re.findall(r'violates PodSecurity "baseline:latest": host namespaces \((.*)\)', answer.message)
    assert reasons == "hostPID=true, hostIPC=true"


def test_privileged_accepts_node_peers_without_a_warning_and_they_are_bound_with_their_values(
    new_team: NewTeam,
) -> None:
    team = new_team(**OPTED_IN, **PERMISSIONS, **{ENFORCE: "privileged"})
    answer = team.asks_for(served("node-peers", "worker"))
    assert (answer.status, answer.warnings) == (201, [])
    (h20,) = (each for each in topologies() if each.node == H20)
    assert fault_of(team.bound("serve"), h20) == ""
