"""The state of a cluster: what is answered from memory, what is asked for, and when nothing is answered."""

import asyncio
import json
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest

from tests.hardware.topology import machines
from webhook.cluster.state.cache import Limit
from webhook.cluster.state.cluster import ClusterState
from webhook.cluster.state.reduction import MOST_CHARACTERS, NAMESPACE_FORM
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.decisions.resolve.node import KnownNode, Origin, choose_node
from webhook.hardware.topology.document import format_topology
from webhook.objects.lease import lease_spec
from webhook.objects.pod import Namespace
from webhook.words.errors import StateUnknown, TooManyNamespaceReads
from webhook.words.version import Version

FACTS = ClusterFacts(hami=Version(2, 9, 0))
OPTED_IN = {"gpu.topology/injection": "enabled"}
START = datetime(2026, 1, 15, 9, 30, tzinfo=UTC)
REGISTER = json.dumps(
    [
        {
            "id": f"GPU-{number}",
            "index": number,
            "count": 10,
            "devmem": 97871,
            "devcore": 100,
            "type": "NVIDIA-NVIDIA H20",
        }
        | {"numa": 0, "mode": "hami-core", "health": True}
        for number in range(2)
    ]
)


class ObjectVersion(NamedTuple):
    name: str
    version: int
    document: bytes


@dataclass
class Live:
    """The API server's namespaces; ``away`` says that it does not answer."""

    found: dict[str, ObjectVersion] = field(default_factory=dict)
    away: bool = False
    asked: list[str] = field(default_factory=list)

    async def get(self, name: str) -> ObjectVersion | None:
        self.asked.append(name)
        if self.away:
            raise StateUnknown(f"get namespace {name}: no answer")
        return self.found.get(name)


@dataclass
class Site:
    """A state, and the time."""

    live: Live = field(default_factory=Live)
    now: float = 1000.0
    wall: datetime = START
    said: list[str] = field(default_factory=list)
    version: int = 0
    state: ClusterState = field(init=False)

    def __post_init__(self) -> None:
        self.state = ClusterState(
            self.live,
            max_age=600,
            tell=self.said.append,
            clock=lambda: self.now,
            wall=lambda: self.wall.timestamp(),  # noqa: PLW0108 - of the time as it is then
        )

    def seen(self, name: str, **document: Any) -> ObjectVersion:
        self.version += 1
        return ObjectVersion(name, self.version, json.dumps(document).encode())

    def namespace(self, name: str, labels: dict[str, str] | None = None, **annotations: str) -> ObjectVersion:
        return self.seen(name, metadata={"labels": labels, "annotations": annotations or None})

    def fill(self) -> None:
        state = self.state
        for cache in (state.namespaces, state.nodes, state.topologies, state.leases):
            cache.listed(self.version, cache.values().keys())
            cache.confirm()
        state.detected(FACTS)

    def publish(self, node: str, text: str | None = None) -> None:
        topology = format_topology(machines.h20()).replace(machines.h20().node, node)
        data = {"topology.json": topology if text is None else text, "nccl-topo.xml": "<system/>"}
        self.state.topologies.put(self.seen(f"gpu-topology-{node}", data=data))

    def renew(self, node: str, *, at: datetime, interval: float = 60.0) -> None:
        self.state.leases.put(self.seen(f"gpu-topology-{node}", spec=lease_spec(node, at=at, interval=interval)))
        self.state.leases.confirm()

    def register(self, node: str, text: str | None = REGISTER) -> None:
        annotations = {"hami.io/node-handshake": "Requesting"} | (
            {"hami.io/node-nvidia-register": text} if text else {}
        )
        self.state.nodes.put(self.seen(node, metadata={"annotations": annotations}))

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.wall += timedelta(seconds=seconds)


def filled() -> Site:
    site = Site()
    site.fill()
    return site


def wait(found: Namespace | Awaitable[Namespace]) -> Namespace:
    assert not isinstance(found, Namespace)

    async def waiting() -> Namespace:
        return await found

    return asyncio.run(waiting())


def test_until_everything_was_known_once_nothing_is_answered_and_it_says_what_is_missing() -> None:
    site = Site()
    state = site.state
    assert state.waiting_for == "namespaces, nodes, configmaps, leases, versions"
    state.namespaces.put(site.namespace("team-a", OPTED_IN))
    for cache in (state.namespaces, state.topologies, state.leases):
        cache.listed(1, {"team-a"})
    state.nodes.failed("list nodes: nodes is forbidden (403)")
    assert state.waiting_for == "nodes, versions (list nodes: nodes is forbidden (403))"
    questions: tuple[Callable[[], object], ...] = (
        lambda: state.namespace("team-a"),
        lambda: state.node("gpu-1"),
        state.cluster,
    )
    for question in questions:
        with pytest.raises(StateUnknown, match="waiting for nodes, versions"):
            question()
    state.nodes.listed(1, set())
    state.detected(FACTS)
    assert (state.ready, state.waiting_for) == (True, "")


def test_once_it_was_complete_it_answers_whatever_happens_to_the_api_server() -> None:
    site = filled()
    site.state.namespaces.put(site.namespace("team-a", OPTED_IN))
    for cache in (site.state.namespaces, site.state.nodes):
        cache.failed("no answer")
    site.live.away = True
    site.pass_time(86400)
    assert site.state.ready
    assert site.state.namespace("team-a") == Namespace("team-a", OPTED_IN)
    assert site.state.cluster() is FACTS


def test_of_a_namespace_only_what_is_ours_is_kept_and_an_unchanged_one_stays_the_same_value() -> None:
    site = filled()
    labels = {**OPTED_IN, "pod-security.kubernetes.io/enforce": "baseline", "team": "a"}
    site.state.namespaces.put(site.namespace("team-a", labels, **{"gpu.topology/policy": "nvlink", "kubectl": "long"}))
    found = site.state.namespace("team-a")
    kept = {**OPTED_IN, "pod-security.kubernetes.io/enforce": "baseline"}
    assert found == Namespace("team-a", kept, {"gpu.topology/policy": "nvlink"})
    site.state.namespaces.put(site.namespace("team-a", {**labels, "team": "b"}, **{"gpu.topology/policy": "nvlink"}))
    assert site.state.namespace("team-a") is found


def test_a_namespace_that_memory_does_not_know_is_asked_for_and_known_from_then_on() -> None:
    site = filled()
    site.live.found["new"] = site.namespace("new", OPTED_IN)
    assert wait(site.state.namespace("new")).injection_enabled
    assert site.state.namespace("new") == Namespace("new", OPTED_IN)
    assert site.live.asked == ["new"]


def test_a_namespace_that_memory_takes_for_not_opted_in_is_asked_for_once_a_second() -> None:
    site = filled()
    site.state.namespaces.put(site.namespace("late"))
    site.live.found["late"] = site.namespace("late", {"other": "label"})
    assert not wait(site.state.namespace("late")).injection_enabled
    assert site.state.namespace("late") == Namespace("late")
    site.pass_time(1.5)
    site.live.found["late"] = site.namespace("late", OPTED_IN)
    assert wait(site.state.namespace("late")).injection_enabled
    assert site.live.asked == ["late", "late"]


def test_a_burst_of_pods_of_an_unknown_namespace_is_one_question() -> None:
    site = filled()
    site.live.found["new"] = site.namespace("new", OPTED_IN)

    async def burst() -> list[Namespace]:
        questions = [site.state.namespace("new") for _ in range(50)]
        return await asyncio.gather(*(one for one in questions if not isinstance(one, Namespace)))

    assert [one.injection_enabled for one in asyncio.run(burst())] == [True] * 50
    assert site.live.asked == ["new"]


def ask_many(site: Site, names: list[str]) -> int:
    """How many of these namespaces were answered; the others were too many."""

    async def asking() -> list[Namespace | BaseException]:
        found = [site.state.namespace(name) for name in names]
        return await asyncio.gather(*(one for one in found if not isinstance(one, Namespace)), return_exceptions=True)

    answers = asyncio.run(asking())
    assert all(isinstance(one, Namespace | TooManyNamespaceReads) for one in answers)
    return sum(isinstance(one, Namespace) for one in answers)


def test_namespaces_that_memory_does_not_know_are_asked_for_at_a_bounded_rate() -> None:
    site = filled()
    assert ask_many(site, [f"unknown-{number}" for number in range(300)]) == 50
    assert len(site.live.asked) == 50
    site.pass_time(1.0)
    assert ask_many(site, [f"unknown-{number}" for number in range(300)]) == 20


def test_questions_about_unknown_namespaces_hold_up_none_that_memory_knows() -> None:
    site = filled()
    site.state.namespaces.put(site.namespace("ours", OPTED_IN))
    site.state.namespaces.put(site.namespace("late"))
    site.live.found["late"] = site.namespace("late", OPTED_IN)
    ask_many(site, [f"unknown-{number}" for number in range(300)])
    assert site.state.namespace("ours") == Namespace("ours", OPTED_IN)
    assert wait(site.state.namespace("late")).injection_enabled


def test_a_namespace_that_does_not_exist_is_not_asked_for_again_within_a_second() -> None:
    site = filled()
    assert not wait(site.state.namespace("nowhere")).known
    assert site.state.namespace("nowhere") == Namespace("nowhere", known=False)
    assert site.live.asked == ["nowhere"]
    site.pass_time(1.5)
    site.live.found["nowhere"] = site.namespace("nowhere", OPTED_IN)
    assert wait(site.state.namespace("nowhere")).injection_enabled


def test_a_namespace_that_has_just_been_made_is_there_although_it_was_not_a_moment_ago() -> None:
    site = filled()
    assert not wait(site.state.namespace("new")).known
    site.state.namespaces.put(site.namespace("new", OPTED_IN))
    assert site.state.namespace("new") == Namespace("new", OPTED_IN)


def test_a_node_is_there_if_the_mirror_has_it_even_without_gpus() -> None:
    site = filled()
    site.register("plain", None)
    assert site.state.node("plain").exists
    assert not site.state.node("nowhere").exists


def test_who_waits_for_a_namespace_may_go_away_without_harm_to_the_others() -> None:
    site = filled()
    site.live.found["new"] = site.namespace("new", OPTED_IN)

    async def one_leaves() -> Namespace:
        found = [site.state.namespace("new") for _ in range(2)]
        first, second = (asyncio.ensure_future(one) for one in found if not isinstance(one, Namespace))
        await asyncio.sleep(0)
        first.cancel()
        return await second

    assert asyncio.run(one_leaves()).injection_enabled


def test_a_namespace_that_there_is_none_of_is_unknown() -> None:
    assert wait(filled().state.namespace("none")) == Namespace("none", known=False)


def test_without_the_api_server_an_unknown_namespace_gets_no_answer_and_a_known_one_the_last_known() -> None:
    site = filled()
    site.state.namespaces.put(site.namespace("late"))
    site.live.away = True
    assert wait(site.state.namespace("late")) == Namespace("late")
    with pytest.raises(StateUnknown, match="get namespace new: no answer"):
        wait(site.state.namespace("new"))


def test_a_namespace_that_there_is_no_room_for_is_asked_for_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    small = NAMESPACE_FORM._replace(limit=Limit(objects=1, bytes=1000))
    monkeypatch.setattr("webhook.cluster.state.cluster.NAMESPACE_FORM", small)
    site = filled()
    site.state.namespaces.put(site.namespace("first", OPTED_IN))
    site.live.found["late"] = site.namespace("late", OPTED_IN)
    assert [wait(site.state.namespace("late")).labels for _ in range(2)] == [OPTED_IN] * 2
    assert site.live.asked == ["late", "late"]
    assert site.state.namespace("first") == Namespace("first", OPTED_IN, {})
    site.live.found["late"] = site.seen("late", metadata=None)
    with pytest.raises(StateUnknown, match=r"^get namespace late: namespace late: "):
        wait(site.state.namespace("late"))


def test_a_live_answer_that_is_older_than_what_is_known_changes_nothing() -> None:
    site = filled()
    old = site.namespace("late")
    site.live.found["late"] = old
    question = site.state.namespace("late")
    site.state.namespaces.put(site.namespace("late", OPTED_IN))
    assert wait(question).injection_enabled


def test_a_node_is_known_from_what_the_agent_published_and_is_parsed_once() -> None:
    site = filled()
    site.publish("gpu-1")
    site.renew("gpu-1", at=START)
    found = site.state.node("gpu-1")
    assert found.published is not None
    assert (found.published.name, len(found.published.topology.gpus)) == ("gpu-1", 8)
    assert (found.published.origin, found.age, found.lasts, found.annotated) == (Origin.AGENT, 0.0, 600.0, None)
    site.publish("gpu-1")
    assert site.state.node("gpu-1").published is found.published


def test_only_so_many_topologies_stay_parsed() -> None:
    site = filled()
    for number in range(300):
        site.publish(f"gpu-{number}")
    first = site.state.node("gpu-0").published
    for number in range(1, 300):
        assert site.state.node(f"gpu-{number}").published is not None
    again = site.state.node("gpu-0").published
    assert (first is not None, again is not None, first is again) == (True, True, False)


def test_a_topology_that_does_not_parse_is_its_own_problem_and_said_once() -> None:
    site = filled()
    site.publish("bad", text="{")
    site.publish("good")
    assert site.state.node("bad").published is None
    assert site.state.node("bad").published is None
    assert site.state.node("good").published is not None
    assert len(site.said) == 1
    assert site.said[0].startswith("configmaps: gpu-topology-bad: ConfigMap gpu-topology-bad: expected a NodeTopology")


def test_a_config_map_with_the_topology_of_another_node_is_not_believed() -> None:
    site = filled()
    site.publish("other")
    document = site.state.topologies.values()["gpu-topology-other"].texts[0]
    site.publish("gpu-1", text=document)
    assert site.state.node("gpu-1").published is None
    assert "expected the topology of its own node" in site.said[0]


@pytest.mark.parametrize("data", [{}, {"nccl-topo.xml": ""}, {"topology.json": 5}, None, 7])
def test_a_config_map_without_a_topology_is_its_own_problem(data: Any) -> None:
    site = filled()
    site.state.topologies.put(site.seen("gpu-topology-gpu-1", data=data))
    assert site.state.node("gpu-1").published is None
    assert site.said[0].startswith("configmaps: gpu-topology-gpu-1: ConfigMap gpu-topology-gpu-1")


@pytest.mark.parametrize(("characters", "known"), [(MOST_CHARACTERS, True), (MOST_CHARACTERS + 1, False)])
def test_what_is_longer_than_any_topology_is_not_kept(characters: int, known: bool) -> None:
    site = Site()
    site.publish("n", "x" * characters)
    site.register("n", "x" * characters)
    assert (site.state.topologies.get("gpu-topology-n") is not None) is known
    assert (site.state.nodes.get("n") is not None) is known
    expected = f"expected at most {MOST_CHARACTERS} characters, found {characters}"
    assert [expected in line for line in site.said] == [] if known else [True, True]


def test_hamis_annotations_are_known_too_and_a_node_without_them_says_nothing() -> None:
    site = filled()
    site.register("gpu-1")
    site.register("cpu-1", text=None)
    found = site.state.node("gpu-1").annotated
    assert found is not None
    assert (found.origin, [gpu.uuid for gpu in found.topology.gpus]) == (Origin.HAMI, ["GPU-0", "GPU-1"])
    assert site.state.node("cpu-1").annotated is None
    assert site.state.node("nowhere").annotated is None


def test_a_topology_without_a_lease_is_as_old_as_can_be() -> None:
    site = filled()
    site.publish("gpu-1")
    sources = site.state.node("gpu-1")
    assert sources.age == math.inf
    assert choose_node(sources, [], max_age=600, verified=False) is None
    believed = choose_node(sources, [], max_age=600, verified=True)
    assert believed is not None
    assert believed.stale == "the agent of node gpu-1 has never been heard of"


@pytest.mark.parametrize("spec", [None, {}, {"renewTime": "soon"}, {"renewTime": "2026-01-15T09:30:00"}])
def test_a_lease_that_does_not_say_when_counts_as_old(spec: Any) -> None:
    site = filled()
    site.publish("gpu-1")
    site.state.leases.put(site.seen("gpu-topology-gpu-1", spec=spec))
    assert site.state.node("gpu-1").age == math.inf


def test_a_topology_gets_older_by_our_clock_until_the_agent_is_heard_again() -> None:
    site = filled()
    site.publish("gpu-1")
    site.renew("gpu-1", at=START - timedelta(seconds=30))
    assert site.state.node("gpu-1").age == 30
    site.pass_time(45)
    assert site.state.node("gpu-1").age == 75
    site.renew("gpu-1", at=site.wall)
    assert site.state.node("gpu-1").age == 0


@pytest.mark.parametrize(("skew", "age"), [(-7200, 120), (-300, 120), (300, 60), (7200, 60)])
def test_the_clock_of_the_node_does_not_matter_once_its_agent_was_heard_twice(skew: float, age: float) -> None:
    site = filled()
    site.publish("gpu-1")
    for _ in range(2):
        site.renew("gpu-1", at=site.wall + timedelta(seconds=skew))
        site.pass_time(60)
    assert site.state.node("gpu-1").age == age


def test_a_renewal_that_we_learn_of_late_is_as_old_as_our_last_news() -> None:
    site = filled()
    site.publish("gpu-1")
    site.renew("gpu-1", at=START - timedelta(hours=2))
    site.pass_time(900)  # the API server is away; meanwhile the agent renewed, and went away
    site.renew("gpu-1", at=START - timedelta(hours=2) + timedelta(seconds=10))
    assert site.state.node("gpu-1").age == 900


def test_our_own_clock_may_jump() -> None:
    site = filled()
    site.publish("gpu-1")
    site.renew("gpu-1", at=START)
    site.wall += timedelta(days=365)
    assert site.state.node("gpu-1").age == 0


def test_an_agent_with_long_rounds_is_believed_for_as_long_as_it_promised() -> None:
    site = filled()
    site.publish("gpu-1")
    site.renew("gpu-1", at=START, interval=3600)
    site.pass_time(10_000)
    sources = site.state.node("gpu-1")
    assert (sources.age, sources.lasts) == (10_000, 10_800)
    found = choose_node(sources, [], max_age=600, verified=False)
    assert isinstance(found, KnownNode)
    assert not found.stale


def lead(site: Site, *, at: datetime, holder: str | None = "planner-1", lasts: Any = 15) -> None:
    """The planner's Lease is seen like that."""
    spec = {"holderIdentity": holder, "leaseDurationSeconds": lasts, "renewTime": at.isoformat()}
    site.state.planners.put(site.seen("gpu-topology-place", spec=spec))
    site.state.planners.confirm()


def test_a_planner_is_alive_for_as_long_as_its_lease_says() -> None:
    site = filled()
    assert site.state.cluster() == FACTS
    lead(site, at=START)
    assert site.state.cluster().has_planner
    site.pass_time(14)
    assert site.state.cluster().has_planner
    site.pass_time(1)
    assert site.state.cluster() == FACTS
    lead(site, at=site.wall)
    assert site.state.cluster().has_planner


def test_the_facts_stay_the_same_value_while_nothing_changes() -> None:
    site = filled()
    without = site.state.cluster()
    lead(site, at=START)
    with_planner = site.state.cluster()
    assert with_planner is not without
    site.pass_time(5)
    lead(site, at=site.wall)
    site.state.detected(ClusterFacts(hami=Version(2, 9, 0)))
    assert site.state.cluster() is with_planner
    site.pass_time(60)
    assert site.state.cluster() is without
    site.state.detected(ClusterFacts(hami=Version(2, 10, 0)))
    lead(site, at=site.wall)
    assert site.state.cluster() == ClusterFacts(hami=Version(2, 10, 0), has_planner=True)


@pytest.mark.parametrize("holder", [None, "", "no planner"])
def test_a_lease_without_a_holder_is_no_planner_until_one_takes_it(holder: str | None) -> None:
    site = filled()
    lead(site, at=START, holder=holder)
    assert not site.state.cluster().has_planner
    lead(site, at=START)
    assert site.state.cluster().has_planner
    site.pass_time(2)
    lead(site, at=site.wall, holder=holder)
    assert not site.state.cluster().has_planner


@pytest.mark.parametrize("lasts", [None, 0, -1])
def test_a_lease_that_lasts_for_no_time_is_no_planner(lasts: Any) -> None:
    site = filled()
    lead(site, at=START, lasts=lasts)
    assert not site.state.cluster().has_planner


def test_a_lease_counts_for_five_minutes_at_most_whatever_it_says() -> None:
    site = filled()
    lead(site, at=START, lasts=10**9)
    site.pass_time(299)
    assert site.state.cluster().has_planner
    site.pass_time(1)
    assert not site.state.cluster().has_planner


@pytest.mark.parametrize("document", [{"spec": None}, {"spec": {}}, {"spec": {"renewTime": "soon"}}, {"spec": []}])
def test_a_lease_that_cannot_be_read_is_no_planner(document: Any) -> None:
    site = filled()
    site.state.planners.put(site.seen("gpu-topology-place", **document))
    assert not site.state.cluster().has_planner


def test_a_deleted_lease_is_no_planner_any_more() -> None:
    site = filled()
    lead(site, at=START)
    site.state.planners.drop(site.seen("gpu-topology-place"))
    assert not site.state.cluster().has_planner
    assert site.state.planner_silence == math.inf


@pytest.mark.parametrize("skew", [-7200, 7200])
def test_the_clock_of_the_planners_node_does_not_matter_once_it_was_heard_twice(skew: float) -> None:
    site = filled()
    for _ in range(2):
        lead(site, at=site.wall + timedelta(seconds=skew))
        site.pass_time(5)
    assert site.state.cluster().has_planner
    site.pass_time(10)
    assert not site.state.cluster().has_planner
    assert site.state.planner_silence == 15


def test_a_planner_that_once_renews_late_is_alive_all_the_same() -> None:
    site = filled()
    lead(site, at=START)
    site.pass_time(14)
    lead(site, at=START + timedelta(seconds=5))
    site.pass_time(14)
    assert site.state.cluster().has_planner


def test_the_time_in_a_lease_that_may_still_be_renewed_says_nothing_of_silence() -> None:
    site = filled()
    assert site.state.planner_silence == math.inf
    lead(site, at=START - timedelta(hours=2))
    assert site.state.planner_silence == 0
    site.pass_time(14)
    assert site.state.planner_silence == 14
    site.pass_time(1)
    assert site.state.planner_silence == 7215


def test_the_state_is_ready_without_a_planner_and_its_report_does_not_speak_of_one() -> None:
    site = filled()
    assert site.state.ready
    assert not site.state.planners.filled
    assert "planner" not in {cache.name for cache in site.state.report().caches}


def test_the_report_says_how_each_cache_is_and_how_many_nodes_are_known() -> None:
    site = filled()
    site.register("annotated")
    site.register("published")
    site.register("cpu", text=None)
    for node in ("published", "silent", "lost"):
        site.publish(node)
    site.renew("published", at=START)
    site.renew("silent", at=START - timedelta(hours=1))
    site.pass_time(5)
    report = site.state.report()
    assert report.topologies.fresh == 1
    assert report.topologies.old == 2
    assert report.topologies.missing == 1
    caches = {one.name: one for one in report.caches}
    assert list(caches) == ["namespaces", "nodes", "configmaps", "leases", "versions"]
    assert [caches[name].objects for name in caches] == [0, 3, 3, 2, 1]
    assert caches["configmaps"].bytes > 2000
    assert (caches["leases"].filled, caches["leases"].confirmed_seconds) == (True, 5.0)


def test_the_report_of_an_empty_state_says_that_nobody_was_heard() -> None:
    caches = Site().state.report().caches
    assert [(one.filled, one.confirmed_seconds) for one in caches] == [(False, None)] * 5
