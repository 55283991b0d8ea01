"""Gates of pods that no planner comes for: which are opened, when, and what becomes of the others."""

import asyncio
import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.api.api_server import ApiServer
from tests.cluster.api.stand_in import Line, Received, kubeconfig, serving
from tests.cluster.state.test_cluster import Site, filled, lead
from tests.judge import policy
from webhook.cluster.api.errors import ApiServerAway, Denied
from webhook.cluster.api.pod_events import PodEvents
from webhook.cluster.api.session import connect
from webhook.cluster.api.verbs import Api
from webhook.decisions.configuration import AdmitPolicy
from webhook.programs.log import Log
from webhook.programs.server.gates import GateOpener
from webhook.programs.server.vitals import Vitals
from webhook.programs.server.waiting_pods import WaitingPods

PODS, LEASES = "/api/v1/pods", "/apis/coordination.k8s.io/v1/namespaces/gpu-topology/leases"
OURS, KUEUE = "gpu.topology/place", "kueue.x-k8s.io/admission"
CREATED = datetime(2026, 1, 15, 9, 0, tzinfo=UTC)
DENY = {"gpu.topology/on-violation": "deny"}
ON, OFF = policy(placement={"mode": "on"}), policy(placement={"mode": "off"})


@dataclass
class World:
    """An API server, with the Events that it got, and the state of one replica."""

    api: ApiServer = field(default_factory=lambda: ApiServer(page=100))
    site: Site = field(default_factory=filled)
    events: list[dict[str, Any]] = field(default_factory=list)
    meanwhile: Callable[[Received], None] = lambda _: None
    """What happens before each answer."""

    def __post_init__(self) -> None:
        for path in (PODS, LEASES):
            self.api.collection(path)
        self.says(CREATED + timedelta(hours=1))

    def says(self, at: datetime) -> None:
        """The clock of the API server."""
        self.api.list_headers = (f"Date: {at:%a, %d %b %Y %H:%M:%S} GMT",)

    def put(self, name: str = "train", *gates: str, annotations: dict[str, str] | None = None, **metadata: Any) -> None:
        """A waiting pod."""
        self.api.put(
            PODS,
            f"team-a/{name}",
            metadata={
                "uid": f"uid-{name}",
                "creationTimestamp": CREATED.isoformat(),
                "labels": {"gpu.topology/placement": "waiting"},
                "annotations": {"gpu.topology/injected": "1.0.0/exclusive", **(annotations or {})},
                **metadata,
            },
            spec={"schedulingGates": [{"name": gate} for gate in gates or (OURS,)]},
            status={"phase": "Pending"},
        )

    def gates(self, name: str = "train") -> list[str]:
        return [gate["name"] for gate in self.api.collection(PODS).objects[f"team-a/{name}"]["spec"]["schedulingGates"]]

    def label(self, name: str = "train") -> Any:
        return self.api.collection(PODS).objects[f"team-a/{name}"]["metadata"]["labels"]["gpu.topology/placement"]

    async def turn(self, request: Received, line: Line) -> None:
        self.meanwhile(request)
        if request.method == "POST":
            self.events.append(json.loads(request.body))
            line.say(request.body, "201 Created")
        else:
            await self.api.turn(request, line)


@asynccontextmanager
async def replica(
    world: World, directory: Path, *, rules: AdmitPolicy = ON, site: Site | None = None
) -> AsyncIterator[GateOpener]:
    """A replica of the webhook; its Events are written when it ends."""
    async with serving(world.turn) as stand_in:
        config = kubeconfig(directory / "kubeconfig", f"http://127.0.0.1:{stand_in.port}")
        session = connect(config, user_agent="test", seconds=30.0)
        events = PodEvents(Api(session), action="Release")
        descriptor = os.open(os.devnull, os.O_WRONLY)
        pods, state = WaitingPods(Api(session), "gpu-topology"), (site or world.site).state
        try:
            yield GateOpener(pods, state, rules, events=events, errors=Counter(), log=Log(descriptor))
            await events.close()
        finally:
            os.close(descriptor)
            await session.close()


def look(world: World, directory: Path, *, rules: AdmitPolicy = ON) -> dict[str, int]:
    """One round of one replica; what it opened, by cause."""

    async def round_of_one() -> dict[str, int]:
        async with replica(world, directory, rules=rules) as gates:
            await gates.look()
            return dict(gates.opened)

    return asyncio.run(round_of_one())


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def test_without_a_planner_a_pod_that_warns_is_let_go_and_told_so(tmp_path: Path) -> None:
    world = World()
    world.put()
    assert look(world, tmp_path) == {"planner-silent": 1}
    assert world.gates() == []
    assert world.label() == "released"
    (event,) = world.events
    assert (event["reason"], event["action"], event["type"]) == ("Released", "Release", "Warning")
    assert event["note"].startswith("GT680: no planner has shown a sign of life, so")
    assert event["regarding"]["uid"] == "uid-train"


def test_a_pod_that_denies_waits_on(tmp_path: Path) -> None:
    world = World()
    world.put(annotations=DENY)
    world.put("other")
    assert look(world, tmp_path) == {"planner-silent": 1}
    assert (world.gates(), world.label()) == ([OURS], "waiting")
    assert world.gates("other") == []


def test_the_namespace_decides_where_the_pod_does_not(tmp_path: Path) -> None:
    world = World()
    world.site.state.namespaces.put(world.site.namespace("team-a", None, **DENY))
    world.put()
    world.put("other", annotations={"gpu.topology/on-violation": "warn"})
    assert look(world, tmp_path) == {"planner-silent": 1}
    assert (world.gates(), world.gates("other")) == ([OURS], [])


@pytest.mark.parametrize(("gates", "left"), [((KUEUE, OURS), [KUEUE]), ((OURS, KUEUE), [KUEUE]), ((KUEUE,), [KUEUE])])
def test_gates_of_others_stay(tmp_path: Path, gates: tuple[str, ...], left: list[str]) -> None:
    world = World()
    world.put("train", *gates)
    assert look(world, tmp_path) == ({"planner-silent": 1} if OURS in gates else {})
    assert world.gates() == left


@pytest.mark.parametrize(("seconds", "opened"), [(299, {}), (300, {"planner-silent": 1})])
def test_a_pod_has_waited_by_the_clock_of_the_api_server(
    tmp_path: Path, seconds: float, opened: dict[str, int]
) -> None:
    world = World()
    world.says(CREATED + timedelta(seconds=seconds))
    world.put()
    assert look(world, tmp_path) == opened


@pytest.mark.parametrize(("silent", "opened"), [(299, {}), (300, {"planner-silent": 1})])
def test_a_planner_has_been_silent_for_so_long(tmp_path: Path, silent: float, opened: dict[str, int]) -> None:
    world = World()
    world.put()
    lead(world.site, at=world.site.wall)
    world.site.pass_time(silent)
    assert look(world, tmp_path) == opened
    assert [event["note"] for event in world.events if " for 300 s, so" not in event["note"]] == []


def test_while_a_planner_lives_nothing_is_asked_for(tmp_path: Path) -> None:
    world = World()
    world.put()
    lead(world.site, at=world.site.wall)
    assert look(world, tmp_path) == {}
    assert world.api.lists == 0


def test_a_planner_is_waited_for_as_long_as_its_lease_lasts(tmp_path: Path) -> None:
    impatient = policy(placement={"mode": "on", "releaseSeconds": 30})
    world = World()
    world.put()
    lead(world.site, at=world.site.wall, lasts=60)
    world.site.pass_time(59)
    assert look(world, tmp_path, rules=impatient) == {}
    world.site.pass_time(1)
    assert look(world, tmp_path, rules=impatient) == {"planner-silent": 1}


def test_a_planner_that_came_back_unseen_is_seen_before_anything_is_opened(tmp_path: Path) -> None:
    world = World()
    world.put()
    lead(world.site, at=world.site.wall)
    world.site.pass_time(1000)
    spec = {"holderIdentity": "planner-2", "leaseDurationSeconds": 15, "renewTime": world.site.wall.isoformat()}
    world.api.put(LEASES, "gpu-topology-place", spec=spec)
    assert look(world, tmp_path) == {}
    assert world.gates() == [OURS]
    assert world.site.state.has_planner


def test_a_planner_that_comes_back_takes_over_again(tmp_path: Path) -> None:
    world = World()
    world.put("first")
    lead(world.site, at=world.site.wall)
    world.site.pass_time(1000)
    assert look(world, tmp_path) == {"planner-silent": 1}
    lead(world.site, at=world.site.wall)
    world.put("second")
    assert look(world, tmp_path) == {}
    assert world.gates("second") == [OURS]


def test_where_the_lease_may_not_be_read_there_is_no_planner(tmp_path: Path) -> None:
    world = World()
    world.put()
    world.api.refuse = lambda target: 403 if target.startswith(LEASES) else 0
    assert look(world, tmp_path) == {"planner-silent": 1}


def test_where_it_is_not_known_whether_there_is_a_planner_nothing_is_opened(tmp_path: Path) -> None:
    world = World()
    world.put()
    world.api.refuse = lambda target: 503 if target.startswith(LEASES) else 0
    with pytest.raises(ApiServerAway, match="get Lease gpu-topology-place"):
        look(world, tmp_path)
    assert world.gates() == [OURS]


def test_where_placement_is_off_pods_that_still_wait_are_let_go(tmp_path: Path) -> None:
    world = World()
    world.put()
    world.put("denies", annotations=DENY)
    lead(world.site, at=world.site.wall)
    assert look(world, tmp_path, rules=OFF) == {"placement-off": 1}
    assert (world.gates(), world.gates("denies")) == ([], [OURS])
    (event,) = world.events
    assert (event["reason"], event["note"][:6]) == ("SwitchedOff", "GT681:")


def test_nothing_is_opened_before_the_cluster_is_known(tmp_path: Path) -> None:
    world = World(site=Site())
    world.put()
    assert look(world, tmp_path) == {}
    assert world.api.lists == 0


FORGED: dict[str, dict[str, Any]] = {
    "no gates": {"spec": {}},
    "gates that are none": {"spec": {"schedulingGates": "all"}},
    "a gate without a name": {"spec": {"schedulingGates": [{}]}},
    "no metadata to speak of": {"spec": {"schedulingGates": [{"name": OURS}]}, "metadata": {"labels": None}},
    "a time that is none": {"spec": {"schedulingGates": [{"name": OURS}]}, "metadata": {"creationTimestamp": 7}},
}


@pytest.mark.parametrize("members", FORGED.values(), ids=FORGED)
def test_a_pod_that_is_none_hinders_no_other(tmp_path: Path, members: dict[str, Any]) -> None:
    world = World()
    metadata = {"labels": {"gpu.topology/placement": "waiting"}, **members.get("metadata", {})}
    metadata["labels"] = metadata["labels"] or {"gpu.topology/placement": "waiting"}
    world.api.put(PODS, "team-a/forged", **{**members, "metadata": metadata})
    world.put()
    assert look(world, tmp_path) == {"planner-silent": 1}
    assert world.gates() == []


def test_a_pod_that_ended_meanwhile_is_no_error(tmp_path: Path) -> None:
    world = World()
    for name in ("a", "b", "c"):
        world.put(name)

    def end_one(request: Received) -> None:
        if request.method == "PATCH" and "team-a/b" in world.api.collection(PODS).objects:
            world.api.delete(PODS, "team-a/b")

    world.meanwhile = end_one
    assert look(world, tmp_path) == {"planner-silent": 2}
    assert len(world.events) == 2


def test_a_pod_whose_gates_change_meanwhile_has_its_turn_in_the_next_round(tmp_path: Path) -> None:
    world = World()
    world.put("train", KUEUE, OURS)

    def open_kueues(request: Received) -> None:
        if request.method == "PATCH" and KUEUE in world.gates():
            world.put("train", OURS)

    world.meanwhile = open_kueues
    assert look(world, tmp_path) == {}
    assert world.gates() == [OURS]
    assert look(world, tmp_path) == {"planner-silent": 1}


def test_of_two_replicas_one_opens_each_gate_and_tells_it(tmp_path: Path) -> None:
    world = World()
    pods = [f"pod-{number}" for number in range(12)]
    for name in pods:
        world.put(name)

    async def both() -> None:
        (tmp_path / "a").mkdir()
        (tmp_path / "b").mkdir()
        async with (
            replica(world, tmp_path / "a") as first,
            replica(world, tmp_path / "b", site=filled()) as second,
        ):
            await asyncio.gather(first.look(), second.look())
            assert sum((first.opened + second.opened).values()) == len(pods)

    run(both())
    assert all(world.gates(name) == [] for name in pods)
    assert sorted(event["regarding"]["name"] for event in world.events) == sorted(pods)


def test_a_role_that_is_missing_is_counted_and_tried_again(tmp_path: Path) -> None:
    world = World()
    world.put()
    world.api.refuse = lambda target: 403 if target.startswith(PODS) else 0
    with pytest.raises(Denied, match="list waiting pods"):
        look(world, tmp_path)
    world.api.refuse = lambda _: 0
    assert look(world, tmp_path) == {"planner-silent": 1}


def test_what_is_known_of_planner_and_gates_is_told(tmp_path: Path) -> None:
    world = World()
    world.put()

    async def test() -> None:
        async with replica(world, tmp_path) as gates:
            assert gates.add_to(Vitals()) == Vitals(planner_alive=False, gates_opened={})
            await gates.look()
            lead(world.site, at=world.site.wall)
            assert gates.add_to(Vitals()) == Vitals(planner_alive=True, gates_opened={"planner-silent": 1})
        async with replica(world, tmp_path, rules=OFF) as gates:
            assert gates.add_to(Vitals()).planner_alive is None

    run(test())


def test_it_stops_when_it_is_told_to(tmp_path: Path) -> None:
    async def test() -> None:
        async with replica(World(), tmp_path) as gates:
            await gates.close()
            await gates.open()
            await gates.close()

    run(test())
