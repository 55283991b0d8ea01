"""Rounds of several replicas in each possible order at the dangerous moments, and cut off at each request."""

import pytest

from certs.permissions import keeper_permissions
from certs.requests import Create, Get, Kind, List, Patch, Replace
from tests.certs.world import MARKS, PACE, SECRET, SPEC, Runner, World


def rotating() -> World:
    """Two replicas, whose authority somebody wants to be replaced."""
    world = World()
    world.register()
    world.start()
    world.start()
    world.burst(60)
    secret = world.objects[SECRET]
    world.put(SECRET, secret | {"metadata": secret["metadata"] | {"annotations": {MARKS.rotate: "authority"}}})
    return world


def fine(world: World) -> None:
    assert world.failing(stale=PACE.settle) == []


def go(world: World, *runners: Runner, seconds: float) -> None:
    end = world.elapsed + seconds
    while world.elapsed < end:
        for runner in runners:
            while world.step(runner):
                fine(world)
            fine(world)
        world.wait(PACE.check)


def healed(world: World) -> None:
    data = world.data()
    assert sorted(data) == ["ca.crt", "ca.key", "tls.crt", "tls.key"]
    assert world.named() == [data["ca.crt"]] * 2
    assert data["ca.crt"].count(b"BEGIN") == 1
    assert all(runner.served and runner.served.certificate == data["tls.crt"] for runner in world.runners)


LONGEST_ROUND = 9


@pytest.mark.parametrize("before_retirement", [True, False], ids=["before the retirement", "after it"])
@pytest.mark.parametrize("first", range(LONGEST_ROUND))
@pytest.mark.parametrize("second", [3, 4, 5, 6], ids=["read", "reported", "read again", "served"])
def test_a_replica_may_start_at_any_moment_of_a_leader_that_ends_the_overlap(
    first: int, second: int, before_retirement: bool
) -> None:
    world = rotating()
    leader, follower = world.runners
    go(world, leader, follower, seconds=PACE.settle + PACE.check)
    assert "previous.crt" in world.data()
    assert all(runner.replica.in_hand == runner.served for runner in world.runners)
    while follower.served is None or follower.served.certificate != world.data()["tls.crt"]:
        go(world, follower, seconds=PACE.check)
    if not before_retirement:
        while "previous.crt" in world.data():
            go(world, leader, seconds=PACE.check)
    newcomer = world.start()
    rest = [(leader, LONGEST_ROUND)] * 3 + [(newcomer, LONGEST_ROUND)]
    for runner, steps in ((leader, first), (newcomer, second), *rest):
        for _ in range(steps):
            fine(world)
            if not world.step(runner):
                break
    go(world, leader, follower, newcomer, seconds=3 * PACE.settle)
    healed(world)


@pytest.mark.parametrize("requests", range(0, 160, 8))
def test_a_leader_may_be_cut_off_at_any_request_of_a_rotation(requests: int) -> None:
    world = rotating()
    leader, follower = world.runners
    for _ in range(requests):
        if not world.step(leader):
            world.round(follower)
            world.wait(PACE.check)
        fine(world)
    world.kill(leader)
    world.start()
    go(world, *world.runners, seconds=PACE.gone + 4 * PACE.settle)
    healed(world)


def test_a_leader_that_wakes_up_late_does_no_harm() -> None:
    for steps in range(1, LONGEST_ROUND):
        world = rotating()
        leader, follower = world.runners
        for _ in range(steps):
            world.step(leader)
        newcomer = world.start()
        go(world, follower, newcomer, seconds=0.8 * PACE.gone)
        while world.step(leader):
            fine(world)
        fine(world)
        go(world, leader, follower, newcomer, seconds=PACE.gone)
        healed(world)


def test_an_api_server_that_is_away_for_hours_stops_nothing() -> None:
    world = rotating()
    go(world, *world.runners, seconds=2 * PACE.check)
    world.away = True
    for _ in range(20):
        world.wait(1800)
        go(world, *world.runners, seconds=PACE.check)
    world.away = False
    go(world, *world.runners, seconds=4 * PACE.settle)
    healed(world)


def test_no_request_is_made_beyond_the_permissions() -> None:
    world = rotating()
    go(world, *world.runners, seconds=4 * PACE.settle)
    verbs = {Get: "get", List: "list", Create: "create", Replace: "update", Patch: "patch"}
    resources = {
        Kind.SECRET: "secrets",
        Kind.LEASE: "leases",
        Kind.CONFIGURATION: "mutatingwebhookconfigurations",
    }
    made = {(resources[kind], verbs[request]) for request, kind in world.seen}
    assert made == {(each.resource, verb) for each in keeper_permissions(SPEC) for verb in each.verbs}


def test_in_quiet_times_a_round_is_a_few_requests_and_writes_nothing_but_leases() -> None:
    world = rotating()
    go(world, *world.runners, seconds=6 * PACE.settle)
    before = {key: each["metadata"]["resourceVersion"] for key, each in world.objects.items()}
    counts: dict[str, list[int]] = {runner.replica.identity.pod: [] for runner in world.runners}
    for _ in range(4):
        for runner in world.runners:
            runner.requests = 0
            world.round(runner)
            counts[runner.replica.identity.pod].append(runner.requests)
        world.wait(PACE.check)
    leader, follower = sorted(map(sorted, counts.values()), reverse=True)
    assert (leader, follower) == ([4, 4, 4, 5], [3, 3, 3, 4])  # once each says that it lives
    changed = {key[0] for key, each in world.objects.items() if each["metadata"]["resourceVersion"] != before[key]}
    assert changed == {Kind.LEASE}
