"""Whose traffic it is, by HAMi's allocations; and which pods get the hint that nothing goes over their NVLinks."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.core import Metric

from tests.control_plane.hami.nodes import node_manifest
from tests.hardware.topology.machines import a100_pcie_bridged, h20
from tests.hardware.traffic.windows import MB, steady
from tests.programs.planner.server import CONFIG_MAPS, LEASES, PlacingServer
from tests.programs.planner.site import NOW, ByHand, TestClock, nothing, settings, site, until
from webhook.cluster.kinds import WHOLE_NODES
from webhook.decisions.resolve.node import KnownNode, Origin
from webhook.hardware.topology.document import format_topology
from webhook.hardware.topology.model import NodeTopology
from webhook.hardware.traffic.document import format_traffic
from webhook.hardware.traffic.model import Traffic, Window
from webhook.objects.lease import micro_time
from webhook.programs.planner import traffic as watch
from webhook.programs.planner.run import Program

NODE = replace(h20(), node="n1")
BRIDGED = replace(a100_pcie_bridged(), node="n1")
"""Two pairs with NVLink."""
MEMORY = NODE.gpus[0].memory_mib
STARTED = (NOW - timedelta(hours=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
ALL_QUIET = steady(nvlink=0)


def uuids(*indices: int, node: NodeTopology = NODE) -> list[str]:
    return [node.gpus[index].uuid for index in indices]


def pod(
    *cards: Sequence[str], memory: int = MEMORY, cores: int = 0, status: Any = None, **annotations: str
) -> dict[str, Any]:
    """A running pod, with a container for each list of cards."""
    allocation = "".join("".join(f"{uuid},NVIDIA,{memory},{cores}:" for uuid in each) + ";" for each in cards)
    return {
        "metadata": {
            "uid": "uid-of-it",
            "annotations": {
                "hami.io/vgpu-node": "n1",
                "hami.io/vgpu-devices-allocated": allocation,
                **{f"gpu.topology/{key.replace('_', '-')}": value for key, value in annotations.items()},
            },
        },
        "spec": {
            "nodeName": "n1",
            "containers": [
                {"name": f"c{place}", "resources": {"limits": {"nvidia.com/gpu": str(len(each))}}}
                for place, each in enumerate(cards)
            ],
        },
        "status": status or {"phase": "Running", "startTime": STARTED},
    }


def server_with(
    pods: dict[str, dict[str, Any]],
    windows: tuple[Window, ...] = ALL_QUIET,
    *,
    node: NodeTopology = NODE,
    annotation: str | None = None,
    age: float = 5.0,
) -> PlacingServer:
    """A node with an agent that tells of its cards, all of which did the same."""
    server = PlacingServer()
    manifest = node_manifest(node)
    server.put(WHOLE_NODES.path, "n1", **{key: manifest[key] for key in ("status",)}, **_members(manifest))
    server.put(CONFIG_MAPS, "gpu-topology-n1", data={"topology.json": format_topology(node)})
    at = NOW - timedelta(seconds=age)
    told = Traffic(at=at, cards={gpu.uuid: windows for gpu in node.gpus})
    metadata = {"annotations": {"gpu.topology/traffic": format_traffic(told) if annotation is None else annotation}}
    renewed = micro_time(datetime.now(UTC))  # mirrors judge by the time that it really is
    server.put(LEASES, "gpu-topology-n1", metadata=metadata, spec={"renewTime": renewed, "leaseDurationSeconds": 600})
    server.put("/api/v1/namespaces", "team-a")
    server.put("/api/v1/namespaces", "team-b", metadata={"annotations": {"gpu.topology/expect-nvlink": "false"}})
    for name, one in pods.items():
        server.put_pod(name, one)
    return server


def _members(manifest: dict[str, Any]) -> dict[str, Any]:
    metadata = {key: manifest["metadata"][key] for key in ("labels", "annotations")}
    return {"metadata": metadata}


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "EVERY_SECONDS", 0.01)


def looked(
    tmp_path: Path, server: PlacingServer, **members: Any
) -> tuple[list[str], dict[str, dict[tuple[str, ...], float]]]:
    """Notes of the Events, and the metrics, once the leader has looked at the node several times."""

    async def test() -> tuple[list[str], dict[str, dict[tuple[str, ...], float]]]:
        async with site(tmp_path, server) as found:
            made = list[ByHand]()

            def make(_: object) -> ByHand:
                made.append(ByHand(nothing))
                return made[-1]

            program = Program(replace(settings(), **members), make, found.session, found.log, TestClock().clock())
            program.open()
            await until(
                lambda: program.leadership.leads and made and made[-1].nodes.get("n1", (None, None))[1], found.lines
            )
            turns = program.watch.turns
            await until(lambda: program.watch.turns > turns + 2)
            metrics = _values(list(program.families()))
            await program.close()
            assert "Traceback" not in found.lines(), found.lines()
            assert {event["reason"] for event in server.events} <= {"NVLinkUnused"}
            assert {event["type"] for event in server.events} <= {"Normal"}
            return [event["note"] for event in server.events], metrics

    return asyncio.run(test())


def _values(found: list[Metric]) -> dict[str, dict[tuple[str, ...], float]]:
    return {
        family.name.removeprefix("gpu_topology_"): {
            tuple(sample.labels.values()): sample.value for sample in family.samples
        }
        for family in found
    }


def hints(tmp_path: Path, server: PlacingServer, **members: Any) -> list[str]:
    return [note[:5] for note in looked(tmp_path, server, **members)[0]]


def test_a_busy_pod_whose_nvlinks_are_silent_gets_an_event_once_and_a_metric(tmp_path: Path) -> None:
    notes, metrics = looked(tmp_path, server_with({"team-a/train": pod(uuids(0, 1, 2, 3))}))
    assert len(notes) == 1
    assert notes[0].startswith("GT900: GPU0, GPU1, GPU2, GPU3 are busy, moved 240 GB over PCIe in the last 10 min")
    assert metrics["nvlink_unused_pods"] == {("strong",): 1, ("weak",): 0}


def test_next_to_nothing_over_nvlink_is_a_weak_hint(tmp_path: Path) -> None:
    notes, metrics = looked(tmp_path, server_with({"team-a/train": pod(uuids(0, 1))}, steady(nvlink=100)))
    assert notes[0].startswith("GT901")
    assert metrics["nvlink_unused_pods"] == {("strong",): 0, ("weak",): 1}


@pytest.mark.parametrize(
    "windows",
    [steady(nvlink=MB), steady(busy=0.0, pcie=0), steady(nvlink=None), steady(pcie=None), steady(lengths=(60,))],
    ids=["pipeline", "idle", "no counters of NVLink", "no counters of PCIe", "agent started lately"],
)
def test_all_else_is_silent(windows: tuple[Window, ...], tmp_path: Path) -> None:
    assert hints(tmp_path, server_with({"team-a/train": pod(uuids(0, 1))}, windows)) == []


@pytest.mark.parametrize(
    "one",
    [
        pod(uuids(0)),
        pod(uuids(0), uuids(1)),
        pod(uuids(0, 1), memory=MEMORY // 2),
        pod(uuids(0, 1), expect_nvlink="false"),
        pod(uuids(0, 1), status={"phase": "Pending", "startTime": STARTED}),
        pod(uuids(0, 1), status={"phase": "Running"}),
        pod(uuids(0, 1), status={"phase": "Running", "startTime": "long ago"}),
        pod(uuids(0, 1), status={"phase": "Running", "startTime": NOW.strftime("%Y-%m-%dT%H:%M:%SZ")}),
        pod(["GPU-of-another-node", *uuids(1)]),
    ],
    ids=["single", "one each", "slices", "silenced", "pending", "no start", "odd start", "new", "unknown card"],
)
def test_pods_that_say_nothing_about_nvlink_are_silent(one: dict[str, Any], tmp_path: Path) -> None:
    assert hints(tmp_path, server_with({"team-a/train": one})) == []


def test_whole_cards_may_be_asked_for_by_cores(tmp_path: Path) -> None:
    assert hints(tmp_path, server_with({"team-a/train": pod(uuids(0, 1), memory=1, cores=100)})) == ["GT900"]


def test_a_namespace_may_expect_no_nvlink_and_a_pod_of_it_may(tmp_path: Path) -> None:
    pods = {"team-b/quiet": pod(uuids(0, 1)), "team-b/told": pod(uuids(2, 3), expect_nvlink="true")}
    pods["team-b/told"]["metadata"]["uid"] = "another"
    notes, _ = looked(tmp_path, server_with(pods))
    assert [note.split(" are")[0] for note in notes] == ["GT900: GPU2, GPU3"]


def test_the_configuration_may_expect_no_nvlink(tmp_path: Path) -> None:
    assert hints(tmp_path, server_with({"team-a/train": pod(uuids(0, 1))}), expects_nvlink=False) == []


def test_cards_without_nvlink_between_them_are_silent(tmp_path: Path) -> None:
    unlinked = next((0, gpu.index) for gpu in BRIDGED.gpus[1:] if not BRIDGED.gpus[0].links_to(gpu.label))
    linked = next((0, gpu.index) for gpu in BRIDGED.gpus[1:] if BRIDGED.gpus[0].links_to(gpu.label))
    memory = BRIDGED.gpus[0].memory_mib
    apart = pod(uuids(*unlinked, node=BRIDGED), memory=memory)
    assert hints(tmp_path, server_with({"team-a/train": apart}, node=BRIDGED)) == []
    joined = pod(uuids(*linked, node=BRIDGED), memory=memory)
    assert hints(tmp_path, server_with({"team-a/train": joined}, node=BRIDGED)) == ["GT900"]


def test_containers_that_exchange_memory_are_judged_together(tmp_path: Path) -> None:
    peers = pod(uuids(0), uuids(1), injected="0.1.0 pod-peers")
    assert hints(tmp_path, server_with({"team-a/serve": peers})) == ["GT900"]


def test_a_card_that_two_pods_have_is_no_ones(tmp_path: Path) -> None:
    other = pod(uuids(1))
    other["metadata"]["uid"] = "other"
    notes, metrics = looked(tmp_path, server_with({"team-a/train": pod(uuids(0, 1)), "team-a/other": other}))
    assert notes == []
    assert [labels[5] for labels in metrics["pod_gpu_info"]] == uuids(0)


@pytest.mark.parametrize("annotation", ["", "{}", "[" * 20000, '{"at":1}', "\0"])
def test_what_an_agent_says_badly_is_not_believed(annotation: str, tmp_path: Path) -> None:
    notes, metrics = looked(tmp_path, server_with({"team-a/train": pod(uuids(0, 1))}, annotation=annotation))
    assert notes == []
    assert len(metrics["pod_gpu_info"]) == 2


@pytest.mark.parametrize("age", [1000.0, -1000.0])
def test_what_was_said_long_ago_or_in_the_future_is_not_about_now(age: float, tmp_path: Path) -> None:
    assert hints(tmp_path, server_with({"team-a/train": pod(uuids(0, 1))}, age=age)) == []


def test_the_leader_tells_which_pod_has_which_card(tmp_path: Path) -> None:
    one = pod(uuids(0, 1), uuids(2), link="NVSwitch")
    _, metrics = looked(tmp_path, server_with({"team-a/train": one}))
    assert metrics["pod_gpu_info"] == {
        ("team-a", "train", "c0", "n1", "0", uuids(0)[0], "NVSwitch"): 1,
        ("team-a", "train", "c0", "n1", "1", uuids(1)[0], "NVSwitch"): 1,
        ("team-a", "train", "c1", "n1", "2", uuids(2)[0], "NVSwitch"): 1,
    }
    assert metrics["pod_gpus_left_out"] == {(): 0}


def test_the_leader_tells_how_much_of_the_best_bandwidth_each_pod_has(tmp_path: Path) -> None:
    """Two cards with a bridge have more than ten times the bandwidth of two without."""
    linked = next((0, gpu.index) for gpu in BRIDGED.gpus[1:] if BRIDGED.gpus[0].links_to(gpu.label))
    others = [gpu.index for gpu in BRIDGED.gpus if gpu.index not in linked]
    assert len(others) == 2
    memory = BRIDGED.gpus[0].memory_mib
    best = KnownNode(BRIDGED, origin=Origin.AGENT).gpu_set(linked).bandwidth
    worst = KnownNode(BRIDGED, origin=Origin.AGENT).gpu_set((0, others[0])).bandwidth
    assert 0 < worst < best / 10

    def ratios(pods: dict[str, dict[str, Any]], node: NodeTopology = BRIDGED) -> dict[tuple[str, ...], float]:
        _, metrics = looked(tmp_path, server_with(pods, node=node))
        assert metrics["pod_bandwidths_left_out"] == {(): 0}
        return metrics["pod_bandwidth_ratio"]

    joined = pod(uuids(*linked, node=BRIDGED), memory=memory, link="NVLink")
    alone = pod(uuids(others[0], node=BRIDGED), memory=memory)
    alone["metadata"]["uid"] = "other"
    assert ratios({"team-a/train": joined, "team-a/alone": alone}) == {("team-a", "train", "n1", "NVLink"): 1}
    apart = pod(uuids(0, others[0], node=BRIDGED), memory=memory, link="SYS")
    assert ratios({"team-a/train": apart}) == {("team-a", "train", "n1", "SYS"): round(worst / best, 4)}
    all_of_them = pod(uuids(*range(4), node=BRIDGED), memory=memory)
    assert ratios({"team-a/all": all_of_them}) == {("team-a", "all", "n1", ""): 1}
    unread = replace(BRIDGED, gpus=tuple(replace(gpu, nvlinks=(), links_problem="?") for gpu in BRIDGED.gpus))
    assert ratios({"team-a/train": apart}, unread) == {}


def test_the_worst_container_of_a_pod_counts(tmp_path: Path) -> None:
    machine = a100_pcie_bridged()
    joined = next(gpu for gpu in machine.gpus[1:] if machine.gpus[0].links_to(gpu.label))
    apart = [gpu for gpu in machine.gpus[1:] if gpu is not joined]
    broken = replace(apart[0], nvlinks=()), replace(apart[1], nvlinks=())
    node = replace(machine, node="n1", gpus=(machine.gpus[0], joined, *broken))
    one = pod(*(uuids(*pair, node=node) for pair in ((0, 1), (2, 3))), memory=node.gpus[0].memory_mib)
    _, metrics = looked(tmp_path, server_with({"team-a/train": one}, node=node))
    assert metrics["pod_bandwidth_ratio"] == {("team-a", "train", "n1", ""): 0.1}, "24 of 240 GB/s"


@pytest.mark.parametrize(
    "one",
    [
        pod(uuids(0, 1, 0)),
        pod(uuids(0, 1), uuids(1), injected="0.1.0 pod-peers"),
        pod(["GPU-of-another-node", *uuids(1)]),
        pod(uuids(0)),
        pod(uuids(0, 1), memory=MEMORY // 2),
    ],
    ids=["twice in a container", "twice in a pod", "unknown card", "single", "slices"],
)
def test_a_pod_whose_cards_are_no_set_has_no_bandwidth(one: dict[str, Any], tmp_path: Path) -> None:
    other = pod(uuids(6, 7))
    other["metadata"]["uid"] = "other"
    _, metrics = looked(tmp_path, server_with({"team-a/odd": one, "team-a/other": other}))
    assert metrics["pod_bandwidth_ratio"] == {("team-a", "other", "n1", ""): 1}


def test_a_pod_that_ends_has_no_cards_any_more(tmp_path: Path) -> None:
    server = server_with({"team-a/train": pod(uuids(0, 1))})

    async def test() -> None:
        async with site(tmp_path, server) as found:
            program = found.program(lambda _: ByHand(nothing))
            program.open()
            await until(lambda: len(program.watch.attribution.cards) == 2)
            server.put_pod("team-a/train", pod(uuids(0, 1), status={"phase": "Succeeded"}))
            await until(lambda: not program.watch.attribution.cards)
            await program.close()

    asyncio.run(test())


def test_more_cards_than_there_may_be_are_counted_and_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "MOST_SERIES", 3)
    _, metrics = looked(tmp_path, server_with({"team-a/train": pod(uuids(*range(8)))}))
    assert (len(metrics["pod_gpu_info"]), metrics["pod_gpus_left_out"]) == (3, {(): 5})


def test_more_pods_than_there_may_be_are_counted_and_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "MOST_SERIES", 1)
    pods = {f"team-a/train-{place}": pod(uuids(2 * place, 2 * place + 1)) for place in range(3)}
    for name, one in pods.items():
        one["metadata"]["uid"] = name
    _, metrics = looked(tmp_path, server_with(pods))
    assert (len(metrics["pod_bandwidth_ratio"]), metrics["pod_bandwidths_left_out"]) == (1, {(): 2})


def test_holders_that_take_long_to_find_are_found_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "LONGEST_LOOK", -1.0)
    _, metrics = looked(tmp_path, server_with({"team-a/train": pod(uuids(0, 1))}))
    assert len(metrics["pod_bandwidth_ratio"]) == 1


def test_a_replica_that_does_not_lead_says_nothing(tmp_path: Path) -> None:
    server = server_with({"team-a/train": pod(uuids(0, 1))})
    server.put(
        LEASES,
        "gpu-topology-place",
        spec={
            "holderIdentity": "another",
            "leaseDurationSeconds": 60,
            "renewTime": NOW.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        },
    )

    async def test() -> None:
        async with site(tmp_path, server) as found:
            program = found.program(lambda _: ByHand(nothing))
            program.open()
            await until(lambda: not program.mirrors.waiting_for)
            await asyncio.sleep(0.2)
            metrics = _values(list(program.families()))
            assert "pod_gpu_info" not in metrics
            await program.close()
        assert server.events == []

    asyncio.run(test())


@pytest.mark.parametrize(("seconds", "several"), [(3600.0, False), (0.01, True)])
def test_a_pod_is_told_again_once_an_hour_has_passed(
    seconds: float, several: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "TOLD_SECONDS", seconds)
    looked(tmp_path, server_with({"team-a/train": pod(uuids(0, 1))}))
    assert ((tmp_path / "log").read_text().count('"message":"traffic"') > 1) is several
