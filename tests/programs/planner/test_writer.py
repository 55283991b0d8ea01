"""What becomes of a write, whatever the API server answers, and what the planner knows of the pod afterwards."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.api.stand_in import Line, Received, status
from tests.programs.planner.server import GATE, Act, PlacingServer, pod
from tests.programs.planner.site import Site, TestClock, about, opening, site, until
from webhook.cluster.api.object_version import read_versioned
from webhook.cluster.api.pod_events import PodEvents
from webhook.cluster.api.verbs import Api
from webhook.decisions.place.pod import PodRecord
from webhook.decisions.place.writes import PodCondition, Write
from webhook.objects.binding import PodEvent
from webhook.programs.planner import writer as module
from webhook.programs.planner.counts import Counts
from webhook.programs.planner.mirrors import Mirrors
from webhook.programs.planner.writer import Writer
from webhook.words.names import PLACED_CONDITION
from webhook.words.patch import Operation

KEY = "team-a/train"
CONDITION = PodCondition("False", "NoFreeCards", "no two free cards")
POD = "/api/v1/namespaces/team-a/pods/train"


@dataclass
class Desk:
    """A writer, and a mirror that has one waiting pod."""

    site: Site
    mirrors: Mirrors
    writer: Writer
    events: PodEvents
    counts: Counts
    leads: bool = True
    settled: int = 0

    @property
    def record(self) -> PodRecord:
        found = self.mirrors.pods.get(KEY)
        assert found is not None
        return found

    def know(self, name: str = KEY) -> None:
        """The mirror hears of the pod as it is."""
        document = json.dumps(self.site.server.pod(name)).encode()
        self.mirrors.take_pod(read_versioned(document, all_namespaces=True))

    async def make(self, *writes: Write) -> None:
        self.writer.take(writes)
        await until(lambda: not self.writer.busy)

    async def delay_of(self, write: Write) -> float:
        """For how many seconds the pod is busy with a write."""
        began = time.monotonic()
        await self.make(write)
        return time.monotonic() - began

    def fates(self) -> dict[str, int]:
        return dict(self.counts.writes)


@asynccontextmanager
async def desk(tmp_path: Path, server: PlacingServer | None = None) -> AsyncIterator[Desk]:
    async with site(tmp_path, server) as found:
        if KEY not in found.server.collection("/api/v1/pods").objects:
            found.server.put_pod(KEY, pod("train"))
        counts, clock = Counts(), TestClock().clock()
        mirrors = Mirrors(max_age=600.0, wake=lambda: None, tell=lambda _: None)
        events = PodEvents(Api(found.session))

        def settled() -> None:
            made.settled += 1

        writer = Writer(
            Api(found.session, field_manager="test", seconds=module.REQUEST_SECONDS),
            mirrors,
            events,
            may_write=lambda: made.leads,
            settled=settled,
            counts=counts,
            log=found.log,
            clock=clock,
        )
        made = Desk(found, mirrors, writer, events, counts)
        made.know()
        try:
            yield made
        finally:
            await writer.close(5.0)
            await events.close()


def once(act: Act) -> Act:
    """``act`` for the first write, and nothing afterwards."""
    left = [act]

    def before(request: Received, line: Line) -> bool:
        return request.method != "GET" and bool(left) and left.pop()(request, line)

    return before


def gates(found: Desk, name: str = KEY) -> list[str]:
    return [gate["name"] for gate in found.site.server.pod(name)["spec"]["schedulingGates"]]


def test_a_write_changes_pod_condition_event_log_and_counts_and_the_mirror_knows_it_at_once(tmp_path: Path) -> None:
    async def test() -> None:
        async with desk(tmp_path) as found:
            event = PodEvent("Released", "GT628: it goes")
            log: dict[str, str | int | float] = {"reason": "Released", "waited": 1.5}
            write = opening(found.record, condition=CONDITION, event=event, result="released", log=log)
            await found.make(write)
            assert gates(found) == []
            assert found.record.unbound is not None
            assert not found.record.unbound.is_gated
            assert found.record.unbound.placed.reason == "NoFreeCards"
            (condition,) = found.site.server.pod(KEY)["status"]["conditions"]
            assert condition == {
                "type": PLACED_CONDITION,
                "status": "False",
                "reason": "NoFreeCards",
                "message": "no two free cards",
                "lastTransitionTime": "2026-01-15T09:30:10Z",
            }
            await until(lambda: found.site.server.events)
            assert found.site.server.events[0]["regarding"]["uid"] == "uid-of-train"
            assert (found.counts.results, found.fates()) == ({"released": 1}, {"done": 1})
            assert found.counts.gated_seconds.total == 10.0
            line = json.loads(found.site.lines())
            assert {key: line[key] for key in ("message", "namespace", "name", "result", "waited")} == {
                "message": "placement",
                "namespace": "team-a",
                "name": "train",
                "result": "released",
                "waited": 1.5,
            }
            assert found.settled == 1

    asyncio.run(test())


def test_the_time_of_a_condition_changes_with_its_status_alone(tmp_path: Path) -> None:
    async def test() -> None:
        async with desk(tmp_path) as found:
            await found.make(about(condition=CONDITION))
            await found.make(about(condition=replace(CONDITION, reason="NeverFits")))
            await found.make(about(condition=replace(CONDITION, status="True")))
            sent = [json.loads(one.body)["status"]["conditions"][0] for one in found.site.stand_in.received]
            assert ["lastTransitionTime" in one for one in sent] == [True, False, True]

    asyncio.run(test())


def test_a_write_without_patch_and_condition_asks_the_api_server_nothing(tmp_path: Path) -> None:
    async def test() -> None:
        async with desk(tmp_path) as found:
            write = about(result="same", log={"reason": "BestCardsGiven"})
            found.writer.take((write,))
            assert not found.writer.busy
            assert found.site.stand_in.received == []
            assert (found.counts.observed, found.settled) == ({"same": 1}, 0)

    asyncio.run(test())


def other_uid(server: PlacingServer) -> None:
    server.put_pod(KEY, pod("train", uid="successor"))


def no_gate(server: PlacingServer) -> None:
    server.put_pod(KEY, pod("train", gates=()))


def shifted(server: PlacingServer) -> None:
    server.put_pod(KEY, pod("train", gates=("kueue.x-k8s.io/admission", GATE)))


@pytest.mark.parametrize("change", [other_uid, no_gate, shifted])
def test_a_pod_that_is_another_by_now_is_read_again_and_nothing_else_is_written(tmp_path: Path, change: Any) -> None:
    async def test() -> None:
        async with desk(tmp_path) as found:
            write = opening(found.record, condition=CONDITION, result="released", event=PodEvent("Released", "x"))
            change(found.site.server)
            before = gates(found)
            await found.make(write)
            assert (found.fates(), gates(found)) == ({"stale": 1}, before)
            assert found.site.server.writes == [f"PATCH {POD}"]
            assert found.record.uid == found.site.server.pod(KEY)["metadata"]["uid"]
            assert found.record.unbound is not None
            assert list(found.record.unbound.gates) == before
            assert (found.counts.results, found.site.server.events) == ({}, [])

    asyncio.run(test())


def test_a_pod_that_is_gone_is_forgotten(tmp_path: Path) -> None:
    async def test() -> None:
        async with desk(tmp_path) as found:
            write = opening(found.record)
            found.site.server.delete("/api/v1/pods", KEY)
            await found.make(write)
            assert (found.fates(), found.mirrors.pods.get(KEY)) == ({"stale": 1}, None)

    asyncio.run(test())


def test_a_pod_that_has_finished_meanwhile_is_forgotten(tmp_path: Path) -> None:
    async def test() -> None:
        async with desk(tmp_path) as found:
            write = opening(found.record)
            found.site.server.put_pod(KEY, {**pod("train", gates=()), "status": {"phase": "Failed"}})
            await found.make(write)
            assert (found.fates(), found.mirrors.pods.get(KEY)) == ({"stale": 1}, None)

    asyncio.run(test())


@pytest.mark.parametrize(
    ("code", "fix"), [(403, "The planner needs its role"), (400, ""), (413, ""), (422, "does a policy")]
)
def test_a_refusal_is_logged_with_what_to_do_and_the_pod_stays_busy_for_longer_each_time(
    tmp_path: Path, code: int, fix: str
) -> None:
    async def test() -> None:
        async with desk(tmp_path) as found:

            def no(request: Received, line: Line) -> bool:
                if request.method == "PATCH":
                    line.say(status(code, "it may not"), f"{code} No")
                return request.method == "PATCH"

            found.site.server.before = no
            delays = [await found.delay_of(opening(found.record)) for _ in range(4)]
            assert delays[3] > delays[0]
            assert found.fates() == {"refused": 4}
            line = json.loads(found.site.lines().splitlines()[0])
            assert (line["message"], line["level"], line["name"]) == ("refused", "warning", "train")
            assert "it may not" in line["error"]
            assert fix in line["error"]

    asyncio.run(test())


@pytest.mark.parametrize("code", [403, 413, 422])
def test_a_pod_says_once_that_its_change_is_refused(tmp_path: Path, code: int) -> None:
    async def test() -> None:
        async with desk(tmp_path) as found:

            def no(request: Received, line: Line) -> bool:
                is_pod = request.method == "PATCH" and not request.target.partition("?")[0].endswith("/status")
                if is_pod:
                    line.say(status(code, "it may not"), f"{code} No")
                return is_pod

            found.site.server.before = no
            for _ in range(3):
                await found.make(opening(found.record))
            assert found.fates() == {"refused": 3}
            unbound = found.record.unbound
            assert unbound is not None
            assert (unbound.placed.status, unbound.placed.reason) == ("False", "ChangeRefused")
            assert unbound.placed.message.startswith("GT678: the API server refuses the change that gives the pod its")
            assert "it may not" in unbound.placed.message
            assert sum("/status" in one for one in found.site.server.writes) == 1

    asyncio.run(test())


def test_delays_begin_anew_for_a_successor_and_for_a_pod_whose_refusals_were_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no(request: Received, line: Line) -> bool:
        if request.method == "PATCH":
            line.say(status(422, "it may not"), "422 No")
        return request.method == "PATCH"

    async def test() -> None:
        async with desk(tmp_path) as found:
            found.site.server.before = no
            write = opening(found.record)
            *_, longest = [await found.delay_of(write) for _ in range(4)]
            assert await found.delay_of(replace(write, uid="successor")) < longest
            assert await found.delay_of(write) < longest

    monkeypatch.setattr(module, "REFUSED_KEPT", 1)
    asyncio.run(test())


def dropped_before(_: Received, line: Line) -> bool:
    """The request is lost."""
    line.hang_up()
    return True


def overloaded(_: Received, line: Line) -> bool:
    line.say(status(429, "too many"), "429 Too Many Requests", "Retry-After: 0")
    return True


@pytest.mark.parametrize("act", [dropped_before, overloaded])
def test_where_the_answer_was_lost_and_the_pod_is_as_it_was_the_write_is_tried_again_later(
    tmp_path: Path, act: Act
) -> None:
    async def test() -> None:
        async with desk(tmp_path) as found:
            found.site.server.before = once(act)
            await found.make(opening(found.record))
            assert (found.fates(), gates(found)) == ({"refused": 1}, [GATE])
            await found.make(opening(found.record))
            assert (found.fates(), gates(found)) == ({"refused": 1, "done": 1}, [])

    asyncio.run(test())


def test_where_the_answer_was_lost_and_the_change_was_made_it_is_done(tmp_path: Path) -> None:
    async def test() -> None:
        async with desk(tmp_path) as found:
            found.site.server.before = once(_answer_lost(found))
            await found.make(opening(found.record, result="released", event=PodEvent("Released", "x")))
            assert (found.fates(), gates(found)) == ({"done": 1}, [])
            assert found.counts.results == {"released": 1}
            await until(lambda: found.site.server.events)

    asyncio.run(test())


def _answer_lost(found: Desk) -> Act:
    """The server does what it is asked, and the connection ends before it says so."""

    def act(_: Received, line: Line) -> bool:
        manifest = found.site.server.pod(KEY)
        manifest["spec"]["schedulingGates"] = []
        manifest["metadata"]["labels"]["gpu.topology/placement"] = "released"
        found.site.server.put_pod(KEY, manifest)
        line.hang_up()
        return True

    return act


def test_what_another_leader_did_in_the_same_way_is_not_done_twice(tmp_path: Path) -> None:
    async def test() -> None:
        async with desk(tmp_path) as found:
            write = opening(found.record, result="released", event=PodEvent("Released", "x"))
            await found.make(write)
            await found.make(write)
            assert (found.fates(), found.counts.results) == ({"done": 1, "refused": 1}, {"released": 1})

    asyncio.run(test())


def test_while_the_api_server_is_away_the_pod_is_busy_and_afterwards_it_is_known(tmp_path: Path) -> None:
    async def test() -> None:
        async with desk(tmp_path) as found:
            away = True

            def gone(_: Received, line: Line) -> bool:
                if away:
                    line.hang_up()
                return away

            found.site.server.before = gone
            found.writer.take((opening(found.record),))
            await until(lambda: found.counts.api_errors["pods", "away"] > 4)
            assert set(found.writer.busy) == {KEY}
            away = False
            await until(lambda: not found.writer.busy)
            assert (found.fates(), gates(found)) == ({"refused": 1}, [GATE])

    asyncio.run(test())


def test_nothing_is_written_by_a_replica_that_does_not_lead(tmp_path: Path) -> None:
    async def test() -> None:
        async with desk(tmp_path) as found:
            found.leads = False
            await found.make(opening(found.record, condition=CONDITION, event=PodEvent("Released", "x")))
            assert (found.fates(), found.site.stand_in.received) == ({"abandoned": 1}, [])

    asyncio.run(test())


def test_what_waits_for_its_turn_is_not_written_once_the_time_of_the_leader_is_over(tmp_path: Path) -> None:
    async def test() -> None:
        server = PlacingServer()
        names = [f"team-a/pod-{number}" for number in range(module.PARALLEL + 3)]
        for name in names:
            server.put_pod(name, pod(name.partition("/")[2]))
        async with desk(tmp_path, server) as found:
            held = list[tuple[Received, Line]]()

            def hold(request: Received, line: Line) -> bool:
                held.append((request, line))
                return True

            for name in names:
                found.know(name)
            server.before = hold
            found.writer.take(opening(found.mirrors.pods.values()[name]) for name in names)
            await until(lambda: len(held) == module.PARALLEL)
            found.leads = False
            for _, line in held:
                line.hang_up()
            await until(lambda: not found.writer.busy)
            assert len([one for one in server.writes if one.startswith("PATCH")]) == module.PARALLEL
            assert found.fates() == {"abandoned": len(names)}

    asyncio.run(test())


def test_writes_of_one_pod_are_made_in_their_order_and_end_with_the_first_that_fails(tmp_path: Path) -> None:
    async def test() -> None:
        async with desk(tmp_path) as found:

            def label(value: str, *, of_uid: str = "uid-of-train") -> Write:
                test = Operation("test", "/metadata/uid", of_uid)
                return about(patch=(test, Operation("add", "/metadata/labels/step", value)))

            await found.make(label("1"), label("2"), label("3", of_uid="other"), label("4"))
            assert found.site.server.pod(KEY)["metadata"]["labels"]["step"] == "2"
            assert found.fates() in ({"done": 2, "stale": 1}, {"done": 2, "refused": 1})
            bodies = [json.loads(one.body)[-1]["value"] for one in found.site.stand_in.received if one.body]
            assert bodies == ["1", "2", "3"]

    asyncio.run(test())


def test_a_condition_that_cannot_be_written_takes_nothing_back(tmp_path: Path) -> None:
    async def test() -> None:
        async with desk(tmp_path) as found:

            def no_status(request: Received, line: Line) -> bool:
                if request.target.partition("?")[0].endswith("/status"):
                    line.say(status(403, "no"), "403 Forbidden")
                    return True
                return False

            found.site.server.before = no_status
            await found.make(opening(found.record, condition=CONDITION, result="released"))
            assert (found.fates(), found.counts.results, gates(found)) == ({"done": 1}, {"released": 1}, [])

    asyncio.run(test())


def test_at_the_end_what_is_on_its_way_is_finished_and_nothing_new_is_begun(tmp_path: Path) -> None:
    async def test() -> None:
        async with desk(tmp_path) as found:
            slow = asyncio.Event()

            def hold(_: Received, __: Line) -> bool:
                slow.set()
                return False

            found.site.server.before = hold
            found.writer.take((opening(found.record, result="released"),))
            await slow.wait()
            await found.writer.close(10.0)
            assert (found.fates(), gates(found)) == ({"done": 1}, [])
            found.writer.take((opening(found.record),))
            assert not found.writer.busy

    asyncio.run(test())


def test_at_the_end_what_does_not_finish_is_abandoned(tmp_path: Path) -> None:
    async def test() -> None:
        async with desk(tmp_path) as found:
            found.site.server.before = lambda *_: True  # no answer comes
            found.writer.take((opening(found.record),))
            await until(lambda: found.site.server.writes)
            await found.writer.close(0.05)
            assert not found.writer.busy

    asyncio.run(test())


# Thousands of pods of another tenant, whose writes wait.

CROWD = 300
STRANGER = f"PATCH {POD}"


async def behind_a_crowd(found: Desk) -> int:
    """How many writes come before the one that opens the gate of a pod of another namespace."""
    for number in range(CROWD):
        found.site.server.put_pod(f"crowd/p{number}", pod(f"p{number}"))
        found.know(f"crowd/p{number}")
    told = [
        Write(namespace="crowd", name=f"p{number}", uid=f"uid-of-p{number}", condition=CONDITION)
        for number in range(CROWD)
    ]
    found.writer.take([*told, opening(found.record)])
    await until(lambda: KEY not in found.writer.busy)
    assert gates(found) == []
    return found.site.server.writes.index(STRANGER)


def test_a_pod_waits_for_the_writes_that_are_on_their_way_and_not_for_a_crowd_of_another_namespace(
    tmp_path: Path,
) -> None:
    async def test() -> None:
        async with desk(tmp_path) as found:
            assert await behind_a_crowd(found) <= 2 * module.PARALLEL
            await until(lambda: not found.writer.busy)
            assert found.fates() == {"done": CROWD + 1}

    asyncio.run(test())


def test_a_crowd_whose_writes_are_refused_each_time_keeps_no_pod_of_another_namespace_waiting(tmp_path: Path) -> None:
    def refusing(request: Received, line: Line) -> bool:
        is_crowd = request.method == "PATCH" and "/namespaces/crowd/" in request.target
        if is_crowd:
            line.say(status(422, "forbidden: another policy"), "422 No")
        return is_crowd

    async def test() -> None:
        async with desk(tmp_path, PlacingServer(before=refusing)) as found:
            assert await behind_a_crowd(found) <= 2 * module.PARALLEL
            assert len(found.writer.busy) > CROWD // 2  # they are put off, each for itself

    asyncio.run(test())
