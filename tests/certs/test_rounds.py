"""Rounds of several replicas in each possible order at the dangerous moments, and cut off at each request."""

import pytest

from tests.certs.world import LEASE, PACE, SECRET, SPEC, Runner, World
from webhook.cluster.api.permissions import certificates


def rotating() -> World:
    """Two replicas, whose authority somebody wants to be replaced."""
    world = World()
    world.register()
    world.start()
    world.start()
    world.burst(60)
    secret = world.objects[SECRET]
    world.put(SECRET, secret | {"metadata": secret["metadata"] | {"annotations": {SPEC.rotate: "authority"}}})
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


LONGEST_ROUND = 7
CUTS = [cut if cut % 32 == 0 else pytest.param(cut, marks=pytest.mark.long) for cut in range(0, 160, 8)]
MOMENTS = [
    moment if moment in {0, 3, 6} else pytest.param(moment, marks=pytest.mark.long) for moment in range(LONGEST_ROUND)
]


def changed(before: dict[str, bytes], after: dict[str, bytes]) -> str:
    """What the leader did in between."""
    if before.get("next.key") and "next.key" not in after:
        return "switch"
    return "finish" if before["ca.crt"].count(b"BEGIN") == 2 > after["ca.crt"].count(b"BEGIN") else "nothing"


@pytest.mark.parametrize(
    ("seconds", "step"),
    [(PACE.settle + PACE.check, "switch"), (PACE.settle + PACE.overlap + 2 * PACE.check, "finish")],
    ids=["switch", "finish"],
)
@pytest.mark.parametrize("first", MOMENTS)
@pytest.mark.parametrize("second", [2, 3, 4], ids=["read the configuration", "served", "read the Lease"])
def test_a_replica_may_start_at_any_moment_of_a_leader_that_rotates(
    first: int, second: int, seconds: float, step: str
) -> None:
    world = rotating()
    leader, follower = world.runners
    go(world, leader, follower, seconds=seconds)
    before = world.data()
    newcomer = world.start()
    rest = [(leader, LONGEST_ROUND)] * 3 + [(newcomer, LONGEST_ROUND)]
    for runner, steps in ((leader, first), (newcomer, second), *rest):
        for _ in range(steps):
            fine(world)
            if not world.step(runner):
                break
    assert changed(before, world.data()) == step
    go(world, leader, follower, newcomer, seconds=2 * PACE.settle + PACE.overlap)
    healed(world)


def test_the_new_authority_is_trusted_before_it_is_served_and_the_old_one_for_long_after() -> None:
    world = rotating()
    leader, follower = world.runners
    begin = world.elapsed
    seen: dict[tuple[int, bool], float] = {}
    while world.elapsed < begin + 2 * PACE.settle + PACE.overlap:
        go(world, leader, follower, seconds=PACE.check)
        authorities = world.data()["ca.crt"].count(b"BEGIN")
        seen.setdefault((authorities, "next.key" in world.data()), world.elapsed - begin)
    trusted, served, over = (seen[state] for state in ((2, True), (2, False), (1, False)))
    assert trusted <= PACE.check
    assert PACE.settle <= served - trusted <= PACE.settle + 2 * PACE.check
    assert PACE.overlap <= over - served <= PACE.overlap + 3 * PACE.check


def test_a_replica_that_cannot_follow_for_most_of_the_overlap_serves_what_is_trusted() -> None:
    world = rotating()
    leader, follower = world.runners
    go(world, leader, seconds=PACE.overlap - PACE.check)
    go(world, leader, follower, seconds=2 * PACE.settle + PACE.overlap)
    healed(world)


@pytest.mark.parametrize("requests", CUTS)
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
    go(world, *world.runners, seconds=PACE.overlap + 4 * PACE.settle)
    healed(world)


def test_a_leader_that_wakes_up_late_does_no_harm() -> None:
    for steps in range(1, LONGEST_ROUND):
        world = rotating()
        leader, follower = world.runners
        for _ in range(steps):
            world.step(leader)
        newcomer = world.start()
        go(world, follower, newcomer, seconds=0.8 * PACE.overlap)
        while world.step(leader):
            fine(world)
        fine(world)
        go(world, leader, follower, newcomer, seconds=PACE.overlap + 2 * PACE.settle)
        healed(world)


def test_an_api_server_that_is_away_for_hours_stops_nothing() -> None:
    world = rotating()
    go(world, *world.runners, seconds=2 * PACE.check)
    world.away = True
    for _ in range(20):
        world.wait(1800)
        go(world, *world.runners, seconds=PACE.check)
    world.away = False
    go(world, *world.runners, seconds=PACE.overlap + 2 * PACE.settle)
    healed(world)


def test_no_request_is_made_beyond_the_permissions() -> None:
    world = rotating()
    go(world, *world.runners, seconds=2 * PACE.settle)
    allowed = certificates(SPEC.secret, SPEC.configuration)
    assert world.seen == {(each.resource, verb) for each in allowed for verb in each.verbs}


def test_in_quiet_times_a_round_is_a_few_requests_and_writes_nothing_but_leases() -> None:
    world = rotating()
    go(world, *world.runners, seconds=PACE.overlap + 2 * PACE.settle)
    before = {key: each["metadata"]["resourceVersion"] for key, each in world.objects.items()}
    counts: dict[str, list[int]] = {runner.name: [] for runner in world.runners}
    for _ in range(4):
        for runner in world.runners:
            runner.requests = 0
            world.round(runner)
            counts[runner.name].append(runner.requests)
        world.wait(PACE.check)
    leader, follower = sorted(map(sorted, counts.values()), reverse=True)
    assert (leader, follower) == ([4] * 4, [3] * 4)
    changed = {key for key, each in world.objects.items() if each["metadata"]["resourceVersion"] != before[key]}
    assert changed == {LEASE}
