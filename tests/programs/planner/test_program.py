"""All parts of the planner together, against the stand-in for the API server."""

import asyncio
from collections.abc import Iterator, Sequence, Set
from pathlib import Path

import pytest
from prometheus_client.core import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from tests.cluster.api.stand_in import Line, Received
from tests.programs.planner.server import GATE, LEASE, PlacingServer, pod
from tests.programs.planner.site import ByHand, TestClock, about, nothing, open_all, opening, settings, site, until
from webhook.decisions.place.writes import Write
from webhook.programs.planner import rounds
from webhook.programs.planner.run import Program


def waiting(*names: str) -> PlacingServer:
    server = PlacingServer()
    for name in names:
        server.put_pod(f"team-a/{name}", pod(name))
    return server


def gated(server: PlacingServer) -> set[str]:
    found = server.collection("/api/v1/pods").objects
    return {name for name, one in found.items() if {"name": GATE} in one["spec"]["schedulingGates"]}


def test_a_leader_writes_what_is_decided_and_decides_on_what_it_wrote(tmp_path: Path) -> None:
    async def test() -> None:
        async with site(tmp_path, waiting("one", "two")) as found:
            program = found.program(lambda _: ByHand(open_all))
            program.open()
            await until(lambda: not gated(found.server))
            found.server.put_pod("team-b/three", pod("three"))
            await until(lambda: not gated(found.server))
            patches = [one for one in found.server.writes if one.startswith("PATCH")]
            assert len(patches) == len(set(patches)) == 3
            await program.close()
            assert program.counts.results == {"released": 3}

    asyncio.run(test())


def test_a_replica_that_does_not_lead_writes_nothing_and_takes_over_when_the_leader_stops(tmp_path: Path) -> None:
    async def test() -> None:
        async with site(tmp_path) as found:
            made = list[ByHand]()

            def make(_: object) -> ByHand:
                made.append(ByHand(open_all))
                return made[-1]

            first, second = found.program(lambda _: ByHand(nothing)), found.program(make)
            first.open()
            await until(lambda: first.leadership.leads)
            second.open()
            found.server.put_pod("team-a/one", pod("one"))
            await until(lambda: len(second.mirrors.pods) == 1 and made)
            assert not second.leadership.leads
            tried = len(made)
            await first.close()
            await until(lambda: not gated(found.server))
            assert len(made) == tried + 1
            assert found.server.lease["leaseTransitions"] == 1
            await second.close()
            assert found.server.lease["holderIdentity"] == ""

    asyncio.run(test())


def test_two_leaders_for_a_moment_open_each_gate_once(tmp_path: Path) -> None:
    """The second believes that the first is gone, because its clock runs ahead; the first has not noticed yet."""

    async def test() -> None:
        async with site(tmp_path, waiting(*(f"pod-{number}" for number in range(20)))) as found:
            ahead = TestClock()
            first = found.program(lambda _: ByHand(open_all))
            other = Program(settings("planner-2"), lambda _: ByHand(open_all), found.session, found.log, ahead.clock())
            first.open()
            other.open()
            ahead.ahead += 30
            await until(lambda: not gated(found.server))
            await until(lambda: sum((first.counts.results + other.counts.results).values()) >= 20)
            await first.close()
            await other.close()
            assert sum((first.counts.results + other.counts.results).values()) == 20

    asyncio.run(test())


def test_what_fails_again_and_again_does_not_lead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        monkeypatch.setattr(rounds, "TRIAL_SECONDS", 0.05)
        async with site(tmp_path, waiting("one")) as found:
            broken = True

            def fail(made: ByHand, busy: Set[str]) -> Sequence[Write]:
                if broken:
                    raise ZeroDivisionError("a bug")
                return open_all(made, busy)

            program = found.program(lambda _: ByHand(fail))
            program.open()
            await until(lambda: program.counts.bugs > 2)
            assert found.server.lease == {}
            assert "ZeroDivisionError: a bug" in found.lines()
            assert "the last decisions ended in an exception" in found.lines()
            broken = False
            await until(lambda: not gated(found.server))
            await program.close()

    asyncio.run(test())


def test_a_bug_while_it_hears_of_a_pod_ends_neither_the_mirror_nor_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Deaf(ByHand):
        def pod_changed(self, *told: object) -> None:
            if told[0] == "team-a/poison":
                raise ZeroDivisionError("a bug")
            super().pod_changed(*told)  # type: ignore[arg-type]  # as they came

    async def test() -> None:
        monkeypatch.setattr(rounds, "TRIAL_SECONDS", 0.05)
        clock = TestClock()
        async with site(tmp_path, waiting("one")) as found:
            program = found.program(lambda _: Deaf(open_all), clock.clock())
            program.open()
            await until(lambda: not gated(found.server))
            found.server.put_pod("team-a/poison", pod("poison"))
            await until(lambda: program.counts.bugs > 1)
            found.server.put_pod("team-a/two", pod("two"))
            await until(lambda: len(program.mirrors.pods) == 3)
            clock.ahead += 20
            await until(lambda: not program.leadership.leads)
            before = found.server.writes.count(f"PUT {LEASE}")
            bugs = program.counts.bugs
            await until(lambda: program.counts.bugs > bugs)
            assert found.server.writes.count(f"PUT {LEASE}") == before
            found.server.delete("/api/v1/pods", "team-a/poison")
            await until(lambda: not gated(found.server))
            await program.close()

    asyncio.run(test())


def test_while_the_api_server_is_away_nobody_leads_and_afterwards_all_goes_on(tmp_path: Path) -> None:
    async def test() -> None:
        clock = TestClock()
        async with site(tmp_path, waiting("one")) as found:
            program = found.program(lambda _: ByHand(open_all), clock.clock())
            program.open()
            await until(lambda: not gated(found.server))
            found.server.watch_seconds = 0.0

            def away(_: Received, line: Line) -> bool:
                line.hang_up()
                return True

            found.server.before = away
            found.server.refuse = lambda _: 503
            found.server.put("/api/v1/namespaces", "x")  # ends a watch, so that it is begun anew and fails
            found.server.put_pod("team-a/two", pod("two"))
            clock.ahead += 30
            await until(lambda: not program.leadership.leads)
            assert not program.waiting_for
            found.server.before = lambda *_: False
            found.server.refuse = lambda _: 0
            found.server.watch_seconds = 60.0
            await until(lambda: not gated(found.server), found.lines)
            await program.close()

    asyncio.run(test())


def test_a_program_that_stops_while_writes_are_on_their_way_gives_the_lease_back_last(tmp_path: Path) -> None:
    async def test() -> None:
        async with site(tmp_path, waiting("one")) as found:
            released = asyncio.Event()

            def slow(request: Received, line: Line) -> bool:
                if request.method == "PATCH" and not released.is_set():
                    asyncio.get_running_loop().call_later(0.2, released.set)
                    found.server.before = lambda *_: False
                    asyncio.get_running_loop().call_later(
                        0.2, lambda: asyncio.ensure_future(found.server.turn(request, line))
                    )
                    return True
                return False

            found.server.before = slow
            program = found.program(lambda _: ByHand(open_all))
            program.open()
            await until(lambda: any(one.startswith("PATCH") for one in found.server.writes))
            await program.close()
            assert gated(found.server) == set()
            assert found.server.writes[-1] == f"PUT {LEASE}"
            assert found.server.lease["holderIdentity"] == ""

    asyncio.run(test())


def text(program: Program) -> str:
    class Families(Collector):
        def collect(self) -> Iterator[Metric]:
            return program.families()

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Families())
    return generate_latest(registry).decode()


def test_the_metrics_say_who_leads_and_what_was_done(tmp_path: Path) -> None:
    def decide(made: ByHand, busy: Set[str]) -> Sequence[Write]:
        made.report.waiting["NoFreeCards"] = 2
        made.report.oldest = 12.5
        waiting = [one for one in made.pods.values() if one.unbound and one.unbound.is_gated]
        return [opening(one, result="pinned", link="NVLink", given_up=50.0) for one in waiting if one.key not in busy]

    async def test() -> None:
        async with site(tmp_path, waiting("one")) as found:
            program = found.program(lambda _: ByHand(decide))
            assert "gpu_topology_planner_leader 0.0" in text(program)
            assert "gpu_topology_oldest_waiting_seconds" not in text(program)
            program.open()
            await until(lambda: program.counts.results["pinned"])
            said = text(program)
            for line in (
                "gpu_topology_planner_leader 1.0",
                'gpu_topology_waiting_pods{reason="NoFreeCards"} 2.0',
                'gpu_topology_waiting_pods{reason="NeverFits"} 0.0',
                "gpu_topology_oldest_waiting_seconds 12.5",
                'gpu_topology_placements_total{result="pinned"} 1.0',
                'gpu_topology_placements_total{result="given-up"} 0.0',
                'gpu_topology_choices_total{link="NVLink"} 1.0',
                "gpu_topology_bandwidth_given_up_gbps_sum 50.0",
                'gpu_topology_observed_pods_total{result="better-possible"} 0.0',
                "gpu_topology_gated_seconds_count 1.0",
                'gpu_topology_cache_objects{cache="pods"} 1.0',
                'gpu_topology_planner_writes_total{fate="done"} 1.0',
            ):
                assert line in said, line
            await program.close()

    asyncio.run(test())


def test_a_pod_that_was_only_observed_counts_by_what_was_lost(tmp_path: Path) -> None:
    def decide(made: ByHand, _: Set[str]) -> Sequence[Write]:
        if made.report.oldest or not made.pods:
            return ()
        made.report.oldest = 1.0  # once for each that decides; what is decided on trial comes to nothing
        return (
            about("one", result="better-possible", given_up=140.0),
            about("one", result="same"),
        )

    async def test() -> None:
        async with site(tmp_path, waiting("one")) as found:
            program = found.program(lambda _: ByHand(decide))
            program.open()
            await until(lambda: program.counts.observed["same"])
            said = text(program)
            assert 'gpu_topology_observed_pods_total{result="better-possible"} 1.0' in said
            assert "gpu_topology_observed_lost_gbps_count 1.0" in said
            assert 'gpu_topology_placements_total{result="same"}' not in said
            await program.close()

    asyncio.run(test())


def test_until_all_is_known_the_program_is_not_ready_and_does_not_lead(tmp_path: Path) -> None:
    async def test() -> None:
        async with site(tmp_path) as found:
            found.server.refuse = lambda target: 403 if target.startswith("/api/v1/pods") else 0
            program = found.program(lambda _: ByHand(nothing))
            program.open()
            await until(lambda: program.waiting_for == "waiting for pods (list pods: no (403))")
            assert (found.server.lease, program.leadership.leads) == ({}, False)
            found.server.refuse = lambda _: 0
            await until(lambda: program.leadership.leads)
            assert program.waiting_for == ""
            await program.close()

    asyncio.run(test())
