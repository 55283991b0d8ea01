"""Who leads: never two that know of each other, and none that cannot plan."""

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.api.stand_in import Line, Received, status
from tests.programs.planner.server import LEASE, OWN
from tests.programs.planner.site import Site, TestClock, site, until
from webhook.cluster.api.leader_lease import LeaderLease
from webhook.cluster.api.verbs import Api
from webhook.decisions.configuration import LEAST_RELEASE_SECONDS
from webhook.programs.planner.leadership import LEASE_SECONDS, LOOK_SECONDS, WRITES_SECONDS, Leadership
from webhook.programs.planner.leadership import REQUEST_SECONDS as LEASE_REQUEST_SECONDS
from webhook.programs.planner.writer import REQUEST_SECONDS
from webhook.words import names


def candidate(
    found: Site, name: str, clock: TestClock, *, inability: Callable[[], str] = lambda: "", seconds: float = 5.0
) -> Leadership:
    return Leadership(
        LeaderLease(
            Api(found.session, seconds=seconds),
            OWN,
            names.PLANNER_LEASE,
            name,
            seconds=LEASE_SECONDS,
            clock=clock.clock().monotonic,
            now=clock.clock().now,
        ),
        inability=inability,
        errors=Counter(),
        log=found.log,
        clock=clock.clock(),
    )


async def leader_and_next(found: Site, clock: TestClock) -> tuple[Leadership, Leadership]:
    """A replica that leads and one that waits for its Lease."""
    first, second = candidate(found, "a", clock), candidate(found, "b", clock)
    await first.look()
    await second.look()
    return first, second


def test_what_a_leader_sends_last_arrives_before_another_may_begin() -> None:
    assert WRITES_SECONDS + REQUEST_SECONDS <= LEASE_SECONDS


def test_a_change_of_the_leader_is_done_before_the_webhook_may_open_gates() -> None:
    seen_late, looks_late = LOOK_SECONDS, LOOK_SECONDS
    assert seen_late + LEASE_SECONDS + looks_late + 2 * LEASE_REQUEST_SECONDS < LEAST_RELEASE_SECONDS


def test_the_first_candidate_leads_and_the_second_waits(tmp_path: Path) -> None:
    async def test() -> None:
        async with site(tmp_path) as found:
            clock = TestClock()
            first, second = candidate(found, "a", clock), candidate(found, "b", clock)
            for _ in range(3):
                await first.look()
                await second.look()
                clock.ahead += 5
            assert (first.leads, second.leads) == (True, False)
            lease = found.server.lease
            assert (lease["holderIdentity"], lease["leaseDurationSeconds"], lease["leaseTransitions"]) == ("a", 15, 0)

    asyncio.run(test())


def test_of_two_that_begin_together_one_leads(tmp_path: Path) -> None:
    async def test() -> None:
        async with site(tmp_path) as found:
            both = [candidate(found, name, TestClock()) for name in "ab"]
            await asyncio.gather(*(each.look() for each in both))
            assert [each.leads for each in both].count(True) == 1

    asyncio.run(test())


def test_a_leader_that_falls_silent_stops_to_write_before_another_leads(tmp_path: Path) -> None:
    async def test() -> None:
        async with site(tmp_path) as found:
            clock = TestClock()
            first, second = await leader_and_next(found, clock)
            steps = list[tuple[bool, bool]]()
            for _ in range(9):
                clock.ahead += 2
                await second.look()
                steps.append((first.leads, second.leads))
            assert (True, True) not in steps
            assert steps[3:5] == [(True, False), (False, False)]
            assert steps[-1] == (False, True)
            await first.look()
            assert (first.leads, second.leads) == (False, True)

    asyncio.run(test())


@pytest.mark.parametrize("step", ["before it reads", "before it writes", "before it hears of its write"])
def test_a_leader_that_dies_at_a_step_is_followed_by_another(tmp_path: Path, step: str) -> None:
    """What it left at the server is whatever it had sent; nothing of it is ever given back."""

    async def test() -> None:
        async with site(tmp_path) as found:
            clock = TestClock()
            first, second = await leader_and_next(found, clock)
            stops = asyncio.Event()

            def die(request: Received, line: Line) -> bool:
                if (request.method == "GET") == (step == "before it reads"):
                    stops.set()
                    if step == "before it hears of its write":
                        found.server.before = lambda *_: False
                        asyncio.get_running_loop().call_soon(line.hang_up)
                        return False
                    line.hang_up()
                    return True
                return False

            found.server.before = die
            dying = asyncio.create_task(first.look())
            await stops.wait()
            dying.cancel()
            await asyncio.gather(dying, return_exceptions=True)
            found.server.before = lambda *_: False
            # The last thing that the dead leader wrote may still have to be seen, and then grows old.
            await second.look()
            assert not second.leads
            clock.ahead += LEASE_SECONDS
            await second.look()
            assert (first.leads, second.leads) == (False, True)
            assert found.server.lease["holderIdentity"] == "b"

    asyncio.run(test())


def test_a_leader_that_stops_gives_the_lease_back_so_that_another_leads_at_once(tmp_path: Path) -> None:
    async def test() -> None:
        async with site(tmp_path) as found:
            first, second = await leader_and_next(found, TestClock())
            await first.give_back()
            assert (first.leads, found.server.lease["holderIdentity"]) == (False, "")
            await second.look()
            assert (second.leads, found.server.lease["leaseTransitions"]) == (True, 1)

    asyncio.run(test())


def test_a_replica_that_never_led_gives_nothing_back(tmp_path: Path) -> None:
    async def test() -> None:
        async with site(tmp_path) as found:
            _, second = await leader_and_next(found, TestClock())
            await second.give_back()
            assert found.server.lease["holderIdentity"] == "a"

    asyncio.run(test())


def test_a_leader_that_was_replaced_gives_nothing_back(tmp_path: Path) -> None:
    async def test() -> None:
        async with site(tmp_path) as found:
            clock = TestClock()
            first, second = await leader_and_next(found, clock)
            clock.ahead += LEASE_SECONDS
            await second.look()
            await first.give_back()
            assert found.server.lease["holderIdentity"] == "b"

    asyncio.run(test())


def test_a_replica_that_cannot_plan_does_not_ask_for_the_lease(tmp_path: Path) -> None:
    async def test() -> None:
        async with site(tmp_path) as found:
            reason = "waiting for pods"
            blind = candidate(found, "a", TestClock(), inability=lambda: reason)
            await blind.look()
            assert found.stand_in.received == []
            assert "waiting for pods" in found.lines()
            reason = ""
            await blind.look()
            assert blind.leads

    asyncio.run(test())


def test_a_leader_that_can_plan_no_more_does_not_renew(tmp_path: Path) -> None:
    async def test() -> None:
        async with site(tmp_path) as found:
            clock, reason = TestClock(), ""
            leader = candidate(found, "a", clock, inability=lambda: reason)
            await leader.look()
            before = found.server.collection(LEASE.rpartition("/")[0]).objects[names.PLANNER_LEASE]
            reason = "the last decisions ended in an exception"
            clock.ahead += WRITES_SECONDS
            await leader.look()
            assert not leader.leads
            assert found.server.collection(LEASE.rpartition("/")[0]).objects[names.PLANNER_LEASE] is before

    asyncio.run(test())


@pytest.mark.parametrize("answer", [status(503, "no"), status(403, "no"), b"no json"])
def test_whatever_the_api_server_says_to_a_renewal_the_time_of_the_leader_ends(tmp_path: Path, answer: bytes) -> None:
    async def test() -> None:
        async with site(tmp_path) as found:
            clock = TestClock()
            leader = candidate(found, "a", clock)
            await leader.look()

            def refuse(_: Received, line: Line) -> bool:
                line.say(answer, "403 Forbidden" if b"403" in answer else "503 No")
                return True

            found.server.before = refuse
            clock.ahead += 5
            await leader.look()
            assert leader.leads
            clock.ahead += 5
            await leader.look()
            assert not leader.leads
            found.server.before = lambda *_: False
            await leader.look()
            assert leader.leads

    asyncio.run(test())


def test_a_renewal_that_was_slow_counts_from_when_it_was_sent(tmp_path: Path) -> None:
    async def test() -> None:
        async with site(tmp_path) as found:
            clock = TestClock()
            leader = candidate(found, "a", clock)

            def slow(request: Received, _: Line) -> bool:
                if request.method != "GET":
                    clock.ahead += WRITES_SECONDS
                return False

            found.server.before = slow
            await leader.look()
            assert found.server.lease["holderIdentity"] == "a"
            assert not leader.leads

    asyncio.run(test())


@pytest.mark.parametrize("spec", [{}, {"holderIdentity": None}, {"holderIdentity": "", "leaseDurationSeconds": 1}])
def test_a_lease_that_nobody_holds_is_taken(tmp_path: Path, spec: dict[str, Any]) -> None:
    async def test() -> None:
        async with site(tmp_path) as found:
            found.server.put(LEASE.rpartition("/")[0], names.PLANNER_LEASE, spec=spec)
            leader = candidate(found, "a", TestClock())
            await leader.look()
            assert leader.leads

    asyncio.run(test())


def test_a_replica_looks_again_until_it_is_cancelled(tmp_path: Path) -> None:
    async def test() -> None:
        async with site(tmp_path) as found:
            leader = candidate(found, "a", TestClock())
            running = asyncio.create_task(leader.run())
            await until(lambda: found.server.writes.count(f"PUT {LEASE}") >= 2)
            running.cancel()
            await asyncio.wait({running})
            assert leader.leads

    asyncio.run(test())
