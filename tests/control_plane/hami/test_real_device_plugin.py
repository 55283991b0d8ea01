"""HAMi's real device plugin: what it gives the containers of each profile, and what the remap program says of it."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any, Protocol

import pytest
from kubernetes.client import CoreV1Api

from tests.control_plane.hami.cluster import H20, Cluster
from tests.control_plane.hami.conftest import STRATEGY, NewTeam
from tests.control_plane.hami.device_plugin import LOCK, PHASE, REAL_NODE, TO_ALLOCATE
from tests.control_plane.hami.kubelet import Allocated
from tests.control_plane.hami.nodes import node_manifest
from tests.control_plane.hami.pods import container, owned_by, pod
from tests.control_plane.hami.real_device_plugin import (
    REGISTER,
    RESOURCE,
    SCORES,
    RealNode,
    annotations_of_node,
    real_node,
)
from tests.control_plane.hami.team import PERMISSIONS, Team, annotations_of, cards_of
from tests.go_programs.catalogue import HAMI_DEVICE_PLUGINS
from tests.go_programs.left_out import GetProgram, LeaveOut
from tests.go_programs.run_apart import ROOT
from tests.hardware.topology.machines import hgx_h100
from tests.nvml.machines import Machine
from tests.nvml.machines import hgx_h100 as played
from tests.nvml.stub import environment_of
from tests.programs.server.conftest import until
from webhook.hardware.topology.model import NodeTopology
from webhook.words.names import HAMI_DEVICES_ALLOCATED, HAMI_NUMA_ALIGNMENT

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("registration"), pytest.mark.long]

TOPOLOGY: NodeTopology = replace(hgx_h100(), node=REAL_NODE)
UUIDS = [gpu.uuid for gpu in TOPOLOGY.gpus]
PRELOAD, LIBRARY = "/etc/ld.so.preload", "/vgpu/libvgpu.so"
SAME_NUMA_NODE, OTHER_NUMA_NODE = 40, 50
"""Levels of NVML between two GPUs."""


class StartNode(Protocol):
    def __call__(self, strategy: str = ...) -> AbstractContextManager[RealNode]:
        """A node whose plugin hands devices over in this way."""


def machine() -> Machine:
    numa = [gpu.numa_node for gpu in TOPOLOGY.gpus]
    level = {True: SAME_NUMA_NODE, False: OTHER_NUMA_NODE}
    pairs = combinations(range(len(numa)), 2)
    return played().with_lines(*(f"ancestor {one} {other} {level[numa[one] == numa[other]]}" for one, other in pairs))


@pytest.fixture
def directory() -> Iterator[Path]:
    # Not tmp_path: the path of a Unix socket has at most 107 characters.
    with tempfile.TemporaryDirectory(prefix="dp-") as name:
        yield Path(name)


@pytest.fixture
def start_node(
    cluster: Cluster, release: str, go_program: GetProgram, leave_out: LeaveOut, directory: Path
) -> StartNode:
    if os.geteuid() != 0:
        leave_out("root", "the paths of a node are mounted over those of this machine, for the plugin alone")
    executable = go_program(HAMI_DEVICE_PLUGINS[release])

    def start(strategy: str = STRATEGY) -> AbstractContextManager[RealNode]:
        cluster.plugins[TOPOLOGY.node] = strategy
        options = [f"--device-list-strategy={strategy}"] if strategy != STRATEGY else []
        return real_node(cluster, executable, machine(), TOPOLOGY, directory, *options)

    return start


@pytest.fixture
def node(start_node: StartNode) -> Iterator[RealNode]:
    with start_node() as found:
        yield found


def given(team: Team, node: RealNode, name: str) -> dict[str, Allocated]:
    """What the containers of a pod get, once HAMi has bound it; the plugin has done its part then."""
    until(lambda: "nodeName" in team.pod(name)["spec"], f"{name} on a node")
    found = node.kubelet.starts(team.pod(name), RESOURCE)
    team.bound(name)
    return found


def variables(stored: Mapping[str, Any], name: str, allocated: Allocated | None = None) -> dict[str, str]:
    """What a process of a container finds: the plugin's variables, then the container's own, as the kubelet does."""
    containers = (*stored["spec"].get("initContainers", ()), *stored["spec"]["containers"])
    (found,) = (each for each in containers if each["name"] == name)
    own = {each["name"]: resolved(stored, each) for each in found.get("env", ())}
    return {**(allocated.environment if allocated else {}), **own}


def resolved(stored: Mapping[str, Any], variable: Mapping[str, Any]) -> str:
    path = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", "")
    if path == "spec.nodeName":
        return str(stored["spec"]["nodeName"])
    if path:
        return annotations_of(stored).get(path.removeprefix("metadata.annotations['").removesuffix("']"), "")
    return str(variable.get("value", ""))


def seen(process: Mapping[str, str]) -> list[str]:
    """The cards that CUDA shows a process: of those that NVIDIA's runtime shows, by their places, those it chose."""
    every = [gpu.uuid for gpu in sorted(TOPOLOGY.gpus, key=lambda gpu: gpu.pci_bus_id)]
    shown = process["NVIDIA_VISIBLE_DEVICES"]
    visible = every if shown == "all" else [uuid for uuid in every if uuid in shown.split(",")]
    chosen = process.get("CUDA_VISIBLE_DEVICES")
    return visible if chosen is None else [visible[int(index)] for index in chosen.split(",")]


def remapped(node: RealNode, stored: Mapping[str, Any], nvml: Path, directory: Path) -> tuple[int, str]:
    """Exit code and termination message of the remap program in its container, on the machine of the node."""
    log, shared = directory / "termination-log", directory / "shared"
    log.touch()
    shared.mkdir(exist_ok=True)
    options = ["--mode", "init", "--directory", shared, "--termination-log", log, "--root", node.root]
    done = subprocess.run(
        [sys.executable, "-m", "webhook", "remap", *map(str, options)],
        env=environment_of(nvml, node.root / "nvml.txt") | variables(stored, "gpu-topology-remap"),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, log.read_text()


def test_whole_cards_come_without_interception_and_are_those_that_hami_wrote_down(
    node: RealNode, new_team: NewTeam, nvml_library: Path, tmp_path: Path
) -> None:
    team = new_team(injection="enabled")
    team.creates(pod("train", container(gpus=4), node=REAL_NODE))
    found = given(team, node, "train")["worker"]
    stored = team.pod("train")
    (cards,) = cards_of(stored)
    assert found.environment["NVIDIA_VISIBLE_DEVICES"].split(",") == cards
    assert found.environment["CUDA_DEVICE_SM_LIMIT"] == "100"
    assert [found.environment[f"CUDA_DEVICE_MEMORY_LIMIT_{index}"] for index in range(4)] == ["81559m"] * 4
    assert [path for path in found.mounts if path.endswith(LIBRARY)]
    assert PRELOAD not in found.mounts
    assert sorted(seen(variables(stored, "worker", found))) == sorted(cards)
    assert remapped(node, stored, nvml_library, tmp_path) == (0, "")


def test_a_slice_keeps_the_interception_and_its_limit(node: RealNode, new_team: NewTeam) -> None:
    team = new_team(injection="enabled")
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "20000", "nvidia.com/gpucores": "30"}
    team.creates(pod("slice", container(resources={"limits": limits}), node=REAL_NODE))
    found = given(team, node, "slice")["worker"]
    assert found.mounts[PRELOAD].endswith("/vgpu/ld.so.preload")
    assert found.environment["CUDA_DEVICE_MEMORY_LIMIT_0"] == "20000m"
    assert found.environment["CUDA_DEVICE_SM_LIMIT"] == "30"
    assert found.environment["NVIDIA_VISIBLE_DEVICES"] == cards_of(team.pod("slice"))[0][0]


def test_containers_of_one_pod_see_all_its_cards_and_compute_on_those_that_the_plugin_gave_them(
    node: RealNode, new_team: NewTeam, nvml_library: Path, tmp_path: Path
) -> None:
    team = new_team(injection="enabled")
    halves = [container("prefill", gpus=2), container("router"), container("decode", gpus=2)]
    team.creates(pod("pair", *halves, node=REAL_NODE, annotations={"profile": "pod-peers"}))
    found = given(team, node, "pair")
    stored = team.pod("pair")
    assert list(found) == ["prefill", "decode"]
    for (name, allocated), cards in zip(found.items(), cards_of(stored), strict=True):
        assert allocated.environment["NVIDIA_VISIBLE_DEVICES"].split(",") == cards
        assert PRELOAD not in allocated.mounts
        assert sorted(seen(variables(stored, name, allocated))) == sorted(cards)
    assert len(variables(stored, "prefill")["NVIDIA_VISIBLE_DEVICES"].split(",")) == 4
    assert remapped(node, stored, nvml_library, tmp_path) == (0, "")


def test_pods_of_a_group_see_the_whole_node_and_compute_on_the_cards_that_the_plugin_gave_them(
    node: RealNode, new_team: NewTeam, nvml_library: Path, tmp_path: Path
) -> None:
    team = new_team(injection="enabled", **PERMISSIONS)
    for name in ("prefill", "decode"):
        written = pod(name, container(gpus=2), node=REAL_NODE, annotations={"profile": "node-peers", "group": "qwen"})
        team.creates(owned_by("ReplicaSet", f"{name}-5d9c7b8f64", written))
        found = given(team, node, name)["worker"]
        stored = team.pod(name)
        (cards,) = cards_of(stored)
        assert PRELOAD not in found.mounts
        assert found.environment["NVIDIA_VISIBLE_DEVICES"].split(",") == cards
        assert variables(stored, "worker", found)["NVIDIA_VISIBLE_DEVICES"] == "all"
        assert sorted(seen(variables(stored, "worker", found))) == sorted(cards)
        (tmp_path / name).mkdir()
        assert remapped(node, stored, nvml_library, tmp_path / name) == (0, "")


@pytest.mark.parametrize("strategy", ["volume-mounts", "cdi-cri", "cdi-annotations"])
def test_whole_cards_that_come_by_another_way_come_without_interception_too(
    start_node: StartNode, new_team: NewTeam, nvml_library: Path, tmp_path: Path, strategy: str
) -> None:
    with start_node(strategy) as node:
        team = new_team(injection="enabled")
        team.creates(pod("train", container(gpus=2), node=REAL_NODE))
        found = given(team, node, "train")["worker"]
        stored = team.pod("train")
        assert sorted(given_by(found)[strategy]) == sorted(cards_of(stored)[0])
        assert [way for way, cards in given_by(found).items() if cards] == [strategy]
        assert PRELOAD not in found.mounts
        assert remapped(node, stored, nvml_library, tmp_path) == (0, "")


@pytest.mark.parametrize("offered", ["all", "others"])
def test_the_allocation_stays_as_it_was_bound_whichever_cards_the_kubelet_offers(
    node: RealNode, new_team: NewTeam, offered: str
) -> None:
    team = new_team(injection="enabled")
    written = pod("train", container(gpus=2), node=REAL_NODE)
    written["metadata"].setdefault("annotations", {})[HAMI_NUMA_ALIGNMENT] = "best-effort"
    team.creates(written)
    until(lambda: "nodeName" in team.pod("train")["spec"], "a pod on a node")
    (before,) = cards_of(team.pod("train"))
    own, others = ids_of(before, node), ids_of([uuid for uuid in UUIDS if uuid not in before], node)
    preferred = node.kubelet.prefers(RESOURCE, 2, [*others, *own] if offered == "all" else others)
    assert cards_of(team.pod("train")) == [before]
    assert preferred == [] if offered == "others" else len({*preferred} & {*own}) == 2
    assert given(team, node, "train")["worker"].environment["NVIDIA_VISIBLE_DEVICES"].split(",") == before


def ids_of(cards: Collection[str], node: RealNode) -> list[str]:
    """The ids under which the plugin lists these cards."""
    return [name for name in node.kubelet.devices(RESOURCE) if any(name.startswith(card) for card in cards)]


def refitted(team: Team, name: str) -> tuple[list[str], list[str]]:
    """The cards before and after an allocation is changed as HAMi's NUMA refit does it; no release has that yet.

    It replaces the entry of the container in both annotations with one patch, before the plugin serves the pod: HAMi
    pull request 2731, pkg/scheduler/numa_refit_handler.go.
    """
    until(lambda: "nodeName" in team.pod(name)["spec"], f"{name} on a node")
    annotations = annotations_of(team.pod(name))
    (before,) = cards_of(team.pod(name))
    after = [gpu.uuid for gpu in TOPOLOGY.gpus if gpu.uuid not in before][: len(before)]
    changed = {}
    for key in (HAMI_DEVICES_ALLOCATED, TO_ALLOCATE):
        changed[key] = annotations[key]
        for old, new in zip(before, after, strict=True):
            changed[key] = changed[key].replace(old, new)
    body: Any = {"metadata": {"annotations": changed}}
    team.admin.patch_namespaced_pod(name, team.namespace, body)
    return before, after


@pytest.mark.parametrize(("sees_node", "code"), [(True, 0), (False, 12)])
def test_after_a_refit_the_plugin_gives_the_new_cards_and_the_pod_goes_on_where_it_can_see_them(
    node: RealNode, new_team: NewTeam, nvml_library: Path, tmp_path: Path, *, sees_node: bool, code: int
) -> None:
    team = new_team(injection="enabled", **({"allow_node_gpus": "true"} if sees_node else {}))
    written = pod("train", container(gpus=2), node=REAL_NODE)
    written["metadata"].setdefault("annotations", {})[HAMI_NUMA_ALIGNMENT] = "best-effort"
    team.creates(written)
    before, after = refitted(team, "train")
    found = given(team, node, "train")["worker"]
    stored = team.pod("train")
    assert sorted(found.environment["NVIDIA_VISIBLE_DEVICES"].split(",")) == sorted(after)
    assert sorted(annotations_of(stored)["gpu.topology/visible-uuids"].split(",")) == sorted(before)
    assert sorted(seen(variables(stored, "worker", found))) == sorted(after)
    ended, reason = remapped(node, stored, nvml_library, tmp_path)
    assert ended == code, reason
    report = (tmp_path / "shared/report.txt").read_text()
    assert "HAMi's NUMA refit" in report
    assert [card in report for card in after] == [True, sees_node]  # the first card that is not seen is named
    assert ("  warning  the allocation was changed after the Binding" in report) is sees_node
    assert ((tmp_path / "shared/nccl-topo.xml").exists(), "numa-alignment" in reason) == (sees_node, not sees_node)


def given_by(found: Allocated) -> dict[str, list[str]]:
    """The cards by the ways in which a plugin can name them."""
    every = found.environment.get("NVIDIA_VISIBLE_DEVICES", "")
    annotated = [name for names in found.annotations.values() for name in names.split(",")]
    return {
        "envvar": [name for name in every.split(",") if name.startswith("GPU-")],
        "volume-mounts": [Path(path).name for path in found.mounts if Path(path).parent == Path(every or "none")],
        "cdi-cri": [name.partition("=")[2] for name in found.cdi],
        "cdi-annotations": [name.partition("=")[2] for name in annotated],
    }


def test_the_node_is_registered_as_the_tests_write_it_elsewhere(node: RealNode, cluster: Cluster, release: str) -> None:
    expected = node_manifest(TOPOLOGY, scores=True)["metadata"]["annotations"]
    with cluster.control_plane.client() as client:
        admin = CoreV1Api(client)
        registered, scores = node.written(admin, REGISTER), node.written(admin, SCORES)
    # The mode comes from a file in the plugin's container, which is not here; 2.9.0 has a field that is always empty.
    told = [{key: value for key, value in card.items() if key != "devicepairscore"} for card in registered]
    ours = [{key: value for key, value in card.items() if key != "mode"} for card in json.loads(expected[REGISTER])]
    assert told == ours
    # Links to NVSwitches count since 2.10.
    switches = {"2.9.0": 0, "2.10.0": 1800}[release]
    without = {uuid: score - 1800 + switches for uuid, score in json.loads(expected[SCORES])[0]["score"].items()}
    assert scores[0] == {"uuid": TOPOLOGY.gpus[0].uuid, "score": without}


def test_the_plugin_leaves_pod_and_node_as_its_stand_in_does(
    node: RealNode, cluster: Cluster, new_team: NewTeam
) -> None:
    team = new_team(injection="enabled")
    for name, where in (("real", REAL_NODE), ("played", H20)):
        team.creates(pod(name, container("first", gpus=1), container("second", gpus=2), node=where))
    given(team, node, "real")
    real, played = (annotations_of(team.bound(name)) for name in ("real", "played"))
    for annotation in (PHASE, TO_ALLOCATE):
        assert real[annotation] == played[annotation]
    with cluster.control_plane.client() as client:
        until(lambda: LOCK not in annotations_of_node(CoreV1Api(client), REAL_NODE), "an unlocked node")
