"""HAMi is upgraded under pods that run: the schedulers of several versions read the allocations of earlier ones.

They judge the table of ``tests/decisions/request/old_allocations.py``. The pods are there before the scheduler starts,
as in an upgrade. It holds a card for a pod if it grants the card to nobody else.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import CoreV1Api, V1ObjectMeta

from tests.cli.command import gpu_topology
from tests.control_plane.accounts import namespace_for_pods
from tests.control_plane.control_plane import Binaries, ControlPlane, running_control_plane
from tests.control_plane.hami.nodes import create_node
from tests.control_plane.hami.pods import container, pod
from tests.control_plane.hami.scheduler import Hami, Programs, running_hami
from tests.control_plane.hami.team import Team
from tests.control_plane.registration import created
from tests.control_plane.scheduling import bind
from tests.decisions.allocation.pods import spelled
from tests.decisions.request.old_allocations import JUDGES, OLD, Old, apps
from tests.go_programs.catalogue import HAMI_SCHEDULERS, KUBE_SCHEDULER
from tests.go_programs.left_out import GetProgram
from tests.hardware.topology.machines import a100_pcie_bridged
from tests.programs.server.conftest import until
from webhook.decisions.allocation.hami import parse_hami
from webhook.decisions.request.hami_counting import Member, counting
from webhook.words.catalogue.cards import WOULD_LOSE_CARDS

pytestmark = [pytest.mark.cluster, pytest.mark.long]

FREE = "D"
"""The card of each node that no pod has."""
LAST = Old("goes in the end", "A:;", apps(1), ("A", "A", "A"))
WHOLE = {"nvidia.com/gpu": "1", "nvidia.com/gpucores": "100", "nvidia.com/gpumem-percentage": "100"}


@dataclass(frozen=True)
class Upgraded:
    """Pods that run, each on a node of its own, and the HAMi that has been started after them."""

    hami: Hami
    team: Team

    def holds(self, place: int, letter: str) -> bool:
        """Whether HAMi keeps a card of a node from a new pod; if not, that pod has it now."""
        asks = pod(
            f"asks-{place}-{letter.lower()}",
            container(resources={"limits": WHOLE}),
            annotations={"nvidia.com/use-gpuuuid": uuid(letter)},
        )
        written = created(self.team.control_plane, self.team.namespace, asks)
        is_granted = self.hami.grants(written, node(place))
        if not is_granted:  # a pod that waits has nothing
            self.team.deletes(written["metadata"]["name"])
        return not is_granted

    def gives(self, place: int, letter: str) -> bool:
        """Whether HAMi gives a card of a node to a new pod."""
        return not self.holds(place, letter)

    def updates_all_pods(self) -> None:
        """Changes each pod of the table, and waits until HAMi has seen that: it takes note of them in their order."""
        for place in range(len(OLD)):
            changed: Any = {"metadata": {"annotations": {"example.com/changed": "yes"}}}
            self.team.admin.patch_namespaced_pod(name(place), self.team.namespace, changed)
        self.team.deletes(name(len(OLD)))
        until(partial(self.gives, len(OLD), "A"), "the card of the pod that has gone last")


@pytest.fixture
def release(request: pytest.FixtureRequest) -> str:
    judge: str = request.param
    return judge


@pytest.fixture
def upgraded(
    binaries: Binaries, go_program: GetProgram, request: pytest.FixtureRequest, release: str, tmp_path: Path
) -> Iterator[Upgraded]:
    """A cluster in which the pods of the table run, and then this release of HAMi starts."""
    scheduler = go_program(HAMI_SCHEDULERS[release]) if release != "next" else request.getfixturevalue("next_hami")
    programs = Programs(go_program(KUBE_SCHEDULER), scheduler)
    for part in ("control-plane", "hami"):
        (tmp_path / part).mkdir()
    with running_control_plane(binaries, tmp_path / "control-plane") as control_plane, control_plane.client() as client:
        admin = CoreV1Api(client)
        team = Team(control_plane, admin, namespace_for_pods(admin, V1ObjectMeta(generate_name="team-")), lambda: None)
        for place, old in enumerate((*OLD, LAST)):
            runs(team, control_plane, place, old)
        with running_hami(control_plane, programs, release, tmp_path / "hami") as hami:
            hami.scheduling.stop()  # only the test asks
            yield Upgraded(hami, team)


def runs(team: Team, control_plane: ControlPlane, place: int, old: Old) -> None:
    """Creates a node, and a pod that runs there with the allocation of an earlier HAMi."""
    topology = a100_pcie_bridged()
    gpus = tuple(replace(gpu, uuid=uuid("ABCD"[gpu.index])) for gpu in topology.gpus)
    create_node(team.admin, replace(topology, node=node(place), gpus=gpus))
    inits = [_written(each) for each in old.containers if each.is_init]
    containers = [_written(each) for each in old.containers if not each.is_init]
    said = {"hami.io/vgpu-node": node(place), "hami.io/vgpu-devices-allocated": old.value}
    created(
        control_plane,
        team.namespace,
        pod(name(place), *containers, annotations=said, initContainers=inits, schedulerName="hami-scheduler"),
    )
    bind(team.admin, team.namespace, name(place), node=node(place))
    team.started(name(place))


def told_by_analyze(control_plane: ControlPlane, release: str) -> set[str]:
    """The names of the running pods of which ``analyze`` says that this version gives their cards away."""
    command = ("analyze", "-A", "--kubeconfig", control_plane.kubeconfig, "-o", "json")
    done = gpu_topology(*command, "--hami-version", str(JUDGES[release]))
    rows = json.loads(done.out)["findings"]
    return {each["name"] for row in rows if row["code"] == WOULD_LOSE_CARDS.code for each in row["objects"]}


def _written(member: Member) -> dict[str, Any]:
    return container(member.name, member.count) | ({"restartPolicy": "Always"} if member.is_restartable else {})


def node(place: int) -> str:
    return f"node-{place}"


def name(place: int) -> str:
    return f"old-{place}"


def uuid(letter: str) -> str:
    return spelled(letter).partition(",")[0]


@pytest.mark.parametrize("release", list(JUDGES), indirect=True)
def test_hami_counts_the_gpus_of_running_pods_as_the_table_says(
    upgraded: Upgraded, release: str, subtests: pytest.Subtests
) -> None:
    for place, old in enumerate(OLD):  # a scheduler that has just started counts all that it reads
        with subtests.test(pod=old.name):
            until(partial(upgraded.gives, place, FREE), "a card that no pod has")
            assert [letter for letter in old.letters if upgraded.holds(place, letter)] == list(old.letters)
    upgraded.updates_all_pods()
    told = told_by_analyze(upgraded.team.control_plane, release)
    for place, old in enumerate(OLD):
        held = "".join(letter for letter in old.letters if upgraded.holds(place, letter))
        expected = old.counted[list(JUDGES).index(release)]
        with subtests.test(keeps=old.name):
            assert [letter for letter in expected if letter not in held] == []
        with subtests.test(updated=old.name):
            assert held == expected
            found = counting(parse_hami(old.value, "the allocation"), old.containers, JUDGES[release])
            assert found is not None
            not_held = [device for device in found.given if device.uuid not in map(uuid, held)]
            assert list(found.lost) == not_held
            assert (name(place) in told) == bool(not_held)
