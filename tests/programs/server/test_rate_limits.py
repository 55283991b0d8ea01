"""Reads of pods: bounded for each namespace, and one namespace does not hold up another."""

import asyncio
from dataclasses import dataclass

import pytest

from tests.decisions.claims.kept import KeptClaims
from tests.programs.server.test_bindings import KnownPods
from webhook.programs.server.rate_limits import EACH_NAMESPACE, LimitedClaims, LimitedPods
from webhook.words.errors import PodsUnreadable, TooManyClaimReads, TooManyPodReads


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


async def reads(pods: LimitedPods, namespace: str, count: int) -> int:
    """How many of so many reads were done."""
    done = 0
    for _ in range(count):
        try:
            await pods.pod(namespace, "train")
        except TooManyPodReads:
            continue
        done += 1
    return done


def test_a_real_burst_is_read_and_a_flood_is_not() -> None:
    clock, source = Clock(), KnownPods()
    pods = LimitedPods(source, clock=clock)
    assert asyncio.run(reads(pods, "team-a", 3000)) == EACH_NAMESPACE.burst
    assert len(source.asked) == EACH_NAMESPACE.burst
    assert asyncio.run(reads(pods, "team-b", 200)) == 200
    clock.now += 1
    assert asyncio.run(reads(pods, "team-a", 3000)) == 200


def test_however_many_reads_some_namespaces_cause_those_of_others_are_done() -> None:
    """Four namespaces take all that there is in total, for a minute; a fifth reads twenty pods a second."""
    clock, source = Clock(), KnownPods()
    pods = LimitedPods(source, clock=clock)
    for _ in range(60):
        for name in ("team-a", "team-b", "team-c", "team-d"):
            asyncio.run(reads(pods, name, 500))
        assert asyncio.run(reads(pods, "quiet", 20)) == 20
        clock.now += 1
    assert asyncio.run(reads(pods, "team-a", 2000)) <= EACH_NAMESPACE.burst
    assert len(source.asked) <= 1500 + 500 + 60 * (600 + 200)


def test_two_hundred_a_second_are_read_without_end() -> None:
    clock, source = Clock(), KnownPods()
    pods = LimitedPods(source, clock=clock)
    for _ in range(60):
        assert asyncio.run(reads(pods, "team-a", 200)) == 200
        clock.now += 1


def test_groups_are_bounded_with_the_pods_of_their_namespace() -> None:
    pods = LimitedPods(KnownPods(), clock=Clock())
    asyncio.run(reads(pods, "team-a", EACH_NAMESPACE.burst))
    with pytest.raises(
        PodsUnreadable, match=r"^the pods of group team-a/g: too many pods are asked for\. The scheduler"
    ):
        asyncio.run(pods.group("team-a", "g", "n1"))


def test_claims_and_templates_of_a_namespace_are_bounded_together() -> None:
    claims = LimitedClaims(KeptClaims(), clock=Clock())

    async def read_all() -> None:
        for _ in range(EACH_NAMESPACE.burst):
            await claims.claim("team-a", "gpus")

    asyncio.run(read_all())
    with pytest.raises(
        TooManyClaimReads, match=r"^resourceclaimtemplate team-a/two: too many claims are asked for\. The scheduler"
    ):
        asyncio.run(claims.template("team-a", "two"))
    assert asyncio.run(claims.template("team-b", "two")) is None
