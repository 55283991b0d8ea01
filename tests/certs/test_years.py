"""Years of certificates, with chance in charge: nobody who trusts what the cluster said lately meets a stranger."""

from datetime import timedelta

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from certs.certificate import authority_of, issue
from certs.objects import read_material
from tests.certs.world import BEGIN, LEASE, LEASE_S, PACE, SECRET, SPEC, Runner, World

STALE_S = PACE.settle
FOREIGN = issue(["x"], now=BEGIN, lifetime=SPEC.authority_lifetime)
KEYS = ("tls.crt", "tls.key", "ca.crt", "ca.key", "next.key")
VALUES = {
    "gone": None,
    "empty": b"",
    "garbage": b"\xff\x00 no PEM",
    "truncated": b"-----BEGIN CERTIFICATE-----\nMIIB",
    "foreign certificate": FOREIGN.certificate,
    "foreign authority": FOREIGN.authority,
    "foreign key": FOREIGN.key,
}


class Life(RuleBasedStateMachine):
    """Two replicas and more, cut off anywhere, and people who delete and edit."""

    watches = True
    """Whether nobody may fail at any time; else it must only heal."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.world.register()
        for _ in range(2):
            self.world.start()
        self.world.burst(PACE.check)

    def runner(self, number: int) -> Runner:
        return self.world.runners[number % len(self.world.runners)]

    @rule(number=st.integers(0, 3), count=st.integers(1, 12))
    def go_a_few_requests(self, number: int, count: int) -> None:
        for _ in range(count):
            self.world.step(self.runner(number))
            self.nobody_fails()

    @rule(numbers=st.lists(st.integers(0, 3), min_size=1, max_size=60))
    def go_interleaved(self, numbers: list[int]) -> None:
        for number in numbers:
            self.world.step(self.runner(number))
            self.nobody_fails()

    @rule(seconds=st.sampled_from([1.0, PACE.check, LEASE_S, PACE.settle, 2 * PACE.settle]))
    def wait(self, seconds: float) -> None:
        self.world.wait(seconds)

    @rule(rounds=st.integers(1, 30))
    def go_on(self, rounds: int) -> None:
        for _ in range(rounds):
            for runner in list(self.world.runners):
                self.world.round(runner)
                self.nobody_fails()
            self.world.wait(PACE.check)

    @rule(days=st.integers(1, 20))
    def let_days_pass(self, days: int) -> None:
        """Most of them nobody looks, as if the API server were away; then for a while they all do.

        Within the life of a certificate an administrator heeds the alert and makes a Secret that is missing.
        """
        if SECRET not in self.world.objects:
            self.world.make_secret()
        self.world.wait(86400 * days)
        self.go_on(12)

    @rule()
    def let_months_pass(self) -> None:
        for _ in range(9):
            self.let_days_pass(20)

    @rule()
    def scale_up(self) -> None:
        if len(self.world.runners) < 4:
            self.world.start()

    @rule(number=st.integers(0, 3))
    def restart(self, number: int) -> None:
        self.world.kill(self.runner(number))
        self.world.start()

    @precondition(lambda self: self.is_whole() or not self.watches)
    @rule()
    def delete_the_secret(self) -> None:
        self.world.objects.pop(SECRET, None)

    @precondition(lambda self: self.is_whole() or not self.watches)
    @rule()
    def empty_the_secret(self) -> None:
        self.world.objects.pop(SECRET, None)
        self.world.make_secret()

    @precondition(lambda self: SECRET in self.world.objects and (self.is_whole() or not self.watches))
    @rule(key=st.sampled_from(KEYS), value=st.sampled_from(sorted(VALUES)))
    def spoil_the_secret(self, key: str, value: str) -> None:
        self.world.spoil(key, VALUES[value])

    @precondition(lambda self: self.is_whole() or not self.watches)
    @rule(bundle=st.sampled_from([b"", FOREIGN.authority]))
    def alter_the_bundle(self, bundle: bytes) -> None:
        self.world.meddle(bundle)

    @precondition(lambda self: SECRET in self.world.objects)
    @rule(what=st.sampled_from(["serving", "authority", "nonsense"]))
    def ask_for_a_rotation(self, what: str) -> None:
        self.ask(what)

    def ask(self, what: str) -> None:
        secret = self.world.objects[SECRET]
        self.world.put(SECRET, secret | {"metadata": secret["metadata"] | {"annotations": {SPEC.rotate: what}}})

    @invariant()
    def nobody_fails(self) -> None:
        if self.watches:
            assert self.world.failing(stale=STALE_S) == []

    @invariant()
    def others_are_left_alone(self) -> None:
        other = self.world.objects_of_others()
        assert other == ("other", "another")

    def is_whole(self) -> bool:
        """Whether the Secret and the configuration name what is served: of two faults one may hide the other."""
        if SECRET not in self.world.objects or self.world.meddled:
            return False
        material = read_material(self.world.data())
        served = {authority_of(runner.served) for runner in self.world.runners if runner.served}
        return not material.faults and served <= set(material.authorities)

    def teardown(self) -> None:
        """However it was left, it heals by itself; only the Secret must be there."""
        if SECRET not in self.world.objects:
            self.world.make_secret()
        self.go_on(90)
        data = self.world.data()
        assert self.world.named() == [data["ca.crt"]] * 2
        assert data["ca.crt"].count(b"BEGIN CERTIFICATE") == 1
        assert sorted(data) == ["ca.crt", "ca.key", "tls.crt", "tls.key"]
        assert all(runner.served and runner.served.certificate == data["tls.crt"] for runner in self.world.runners)


class Years(Life):
    """One fault after the other."""


class Chaos(Life):
    """Several faults at once, clocks that jump, and an API server that is away: it heals, however it was left."""

    watches = False

    @rule(days=st.sampled_from([-4000, -400, -1, 1, 60, 400, 4000]))
    def let_the_clock_jump(self, days: int) -> None:
        self.world.skew += timedelta(days=days)

    @rule()
    def put_the_clock_right(self) -> None:
        self.world.skew = timedelta(0)

    @rule()
    def be_away(self) -> None:
        self.world.away = not self.world.away

    @rule()
    def delete_the_leases(self) -> None:
        self.world.objects.pop(LEASE, None)

    def teardown(self) -> None:
        self.world.away = False
        super().teardown()


class LongYears(Years):
    """Longer lives."""


class LongChaos(Chaos):
    """Longer lives."""


SHORT = settings(
    max_examples=2,
    stateful_step_count=5,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
Years.TestCase.settings = Chaos.TestCase.settings = SHORT
LongYears.TestCase.settings = LongChaos.TestCase.settings = settings(SHORT, max_examples=40, stateful_step_count=20)
TestYears, TestChaos = Years.TestCase, Chaos.TestCase
TestLongYears, TestLongChaos = map(pytest.mark.long, (LongYears.TestCase, LongChaos.TestCase))
