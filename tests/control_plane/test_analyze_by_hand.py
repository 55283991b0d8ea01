"""``gpu-topology analyze`` of a real API server on which people have worked with kubectl."""

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kubernetes.client import CoreV1Api, V1ObjectMeta

from tests.cli.command import gpu_topology
from tests.control_plane.accounts import namespace_for_pods, permitted
from tests.control_plane.by_hand import BY_HAND, ByHand, Person
from tests.control_plane.control_plane import Binaries, running_control_plane
from tests.control_plane.filling import PEOPLE, administrator, empty, fill, found
from tests.control_plane.kubectl import Kubectl
from tests.control_plane.test_analyze import MADE
from tests.go_programs.catalogue import KUBECTL
from tests.go_programs.left_out import GetProgram
from tests.insight.analyze.clusters import Cluster
from tests.insight.analyze.faults import FAULTS, Expected, Fault
from webhook.cluster.api.permissions import ANALYZE, Scope

pytestmark = pytest.mark.cluster

MIXTURES = 20
HANDS, OTHERS = 8, 4
"""Of a mixture: what a person did with kubectl, and what fixtures created."""
Analyze = Callable[[list[Fault], list[ByHand]], set[tuple[str, str]]]


@pytest.fixture(scope="module")
def analyzed(binaries: Binaries, go_program: GetProgram, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Analyze]:
    """What is found in a cluster of its own after all this, by one with the rights that the list names."""
    directory = tmp_path_factory.mktemp("by-hand")
    rights = tuple(each for each in ANALYZE if each.scope is Scope.CLUSTER)
    with running_control_plane(binaries, directory) as running, running.client() as client:
        admin = CoreV1Api(client)
        namespace_for_pods(admin, V1ObjectMeta(name=PEOPLE))
        kubeconfig = permitted(admin, running, PEOPLE, "person", rights)
        hands = Person(Kubectl(go_program(KUBECTL), running.kubeconfig, directory))

        def analyze(faults: list[Fault], deeds: list[ByHand]) -> set[tuple[str, str]]:
            cluster = Cluster()
            for fault in faults:
                fault.make(cluster)
            for deed in deeds:
                deed.prepare(cluster)
            with administrator(running) as requests:
                fill(requests, admin, cluster)
                try:
                    for deed in deeds:
                        deed.do(hands)
                    return told(kubeconfig)
                finally:
                    empty(requests)

        yield analyze
    shutil.rmtree(directory)


def told(kubeconfig: Path) -> set[tuple[str, str]]:
    """Without what is said of the Secret of the webhook, which this person may not read."""
    done = gpu_topology("analyze", "-A", "--kubeconfig", kubeconfig, "-o", "json")
    assert done.err == ""
    return found(done.out) - {("GT866", "Cluster cluster")}


def expected(chosen: list[Fault] | list[ByHand]) -> Expected:
    return frozenset[tuple[str, str]]().union(*(each.expected for each in chosen))


@pytest.mark.parametrize("deed", BY_HAND, ids=lambda deed: deed.name)
def test_what_a_person_did_is_found_and_nothing_else(analyzed: Analyze, deed: ByHand) -> None:
    assert analyzed([], [deed]) == deed.expected


@pytest.mark.parametrize("seed", range(MIXTURES))
def test_of_a_dozen_faults_most_of_them_made_by_hand_each_is_found_and_nothing_else(
    analyzed: Analyze, seed: int
) -> None:
    drawn = random.Random(seed)
    deeds = by_hand(drawn)
    faults = [fault for fault in FAULTS if fault.name in MADE and not fault.excludes]
    others = drawn.sample(faults, OTHERS)
    assert analyzed(others, deeds) == expected(others) | expected(deeds)


def by_hand(drawn: random.Random) -> list[ByHand]:
    """As many as a mixture has, at most one about the registration and one about the start of a pod."""
    registers = drawn.sample([deed for deed in BY_HAND if deed.registers], 1)
    starts = drawn.sample([deed for deed in BY_HAND if deed.starts], 1)
    others = [deed for deed in BY_HAND if not deed.registers and not deed.starts]
    return registers + starts + drawn.sample(others, HANDS - 2)
