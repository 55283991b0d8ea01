"""A leader and its workers through lives in which workers come late or never, and others want the cards meanwhile.

Planners die, pods and cards go. The leader asks for one card, each worker for three.
"""

import json

import jsonpatch
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.decisions.place.cluster import BEGIN
from tests.decisions.place.test_group_life import LateCluster, given_to, is_gated, is_pending
from tests.decisions.place.test_leaders import leader, worker
from webhook.decisions.place.waiting_group import FIRST_SECONDS
from webhook.decisions.place.writes import Write

SIZE, CARDS, RESERVE, FULL = 3, 3, 600, 60
WORKERS = tuple(f"serve-0-{index}" for index in range(1, SIZE))
GROUP = ("serve-0", *WORKERS)
PIN = "nvidia.com~1use-gpuuuid"
ROUNDS = 120


class LeaderLife(RuleBasedStateMachine):
    """Two nodes with eight cards each."""

    @initialize(denies=st.booleans(), startup=st.sampled_from(["LeaderReady", "LeaderCreated"]))
    def begin(self, startup: str, *, denies: bool) -> None:
        self.cluster = LateCluster(reserveSeconds=RESERVE)
        self.denies, self.startup = denies, startup
        self.others = 0
        self.create()
        self.cluster.hear_all()

    # What others do.

    @rule()
    def create(self) -> None:
        """The leader, or its workers when their controller creates them."""
        cluster, options = self.cluster, {"on-violation": "deny"} if self.denies else {}
        first = cluster.pods.get("serve-0")
        if first is None and not any(name in cluster.pods for name in WORKERS):
            leader(cluster, size=SIZE, options=options)
        elif first is not None and (self.startup == "LeaderCreated" or "nodeName" in first["spec"]):
            for index, name in enumerate(WORKERS, 1):
                if name not in cluster.pods:
                    worker(cluster, index, cards=CARDS, size=SIZE)

    @rule(cards=st.sampled_from([1, 2, 4, 5]))
    def a_stranger_waits(self, cards: int) -> None:
        self.others += 1
        self.cluster.create(f"stranger-{self.others}", cards, options={"on-violation": "deny"})

    @rule(cards=st.integers(1, 6))
    def a_pod_that_does_not_wait(self, cards: int) -> None:
        self.others += 1
        self.cluster.create(f"other-{self.others}", cards, gated=False)

    @rule(pick=st.integers(0, 99))
    def delete(self, pick: int) -> None:
        """A pod goes; with a leader its workers go."""
        names = sorted(self.cluster.pods)
        if names:
            name = names[pick % len(names)]
            for each in GROUP if name == "serve-0" else (name,):
                if each in self.cluster.pods:
                    self.cluster.delete(each)

    @rule(picks=st.lists(st.integers(0, 99), max_size=4))
    def let_hami_schedule(self, picks: list[int]) -> None:
        for pick in picks:
            pending = [name for name, pod in self.cluster.pods.items() if is_pending(pod)]
            if pending:
                self.hami(pending[pick % len(pending)])

    @rule(seconds=st.sampled_from([1, FIRST_SECONDS, FULL, RESERVE]))
    def wait(self, seconds: int) -> None:
        self.cluster.now += seconds

    # What the planner does and hears.

    @rule(made=st.lists(st.booleans(), max_size=4), rounds=st.integers(1, 3))
    def decide(self, made: list[bool], rounds: int) -> None:
        for _ in range(rounds):
            self.cluster.hear_all()
            for write in self.decided():
                if made.pop(0) if made else True:
                    self.apply(write)

    @rule()
    def take_over(self) -> None:
        self.cluster.hear_all()
        self.cluster.restart()

    def teardown(self) -> None:
        """Without anything new there is soon nothing to do, and a leader for which there is a card has gone on."""
        if not hasattr(self, "cluster"):
            return
        for _ in range(ROUNDS):
            self.cluster.hear_all()
            writes = self.decided()
            for write in writes:
                self.apply(write)
            for name, pod in self.cluster.pods.items():
                if is_pending(pod):
                    self.hami(name)
            self.cluster.now += 1
        first = self.cluster.pods.get("serve-0")
        is_alone = not any(name in self.cluster.pods for name in WORKERS)
        has_card = any(stock.free for stock in self.cluster.world.stocks)
        if first is not None and (not self.denies or (is_alone and has_card)):
            assert not is_gated(first), self.cluster.why("serve-0")

    # Laws.

    @invariant()
    def no_card_is_pinned_for_two(self) -> None:
        assert self.cluster.pinned_for_two() == []

    def is_whole(self, write: Write) -> None:
        """A group whose workers are there before it begins is placed whole."""
        values = {each.path.rpartition("/")[2]: each.value for each in write.patch if each.op == "add"}
        if PIN in values and write.name == "serve-0":
            placed = json.loads(str(values["gpu.topology~1placed"]))
            there = sum(name in self.cluster.pods for name in GROUP)
            assert placed.get("together", 0) <= there

    # Parts.

    def decided(self) -> list[Write]:
        writes = self.cluster.planner.decide(self.cluster.now, BEGIN)
        for write in writes:
            self.is_whole(write)
        self.cluster.read()
        return writes

    def apply(self, write: Write) -> None:
        try:
            self.cluster.apply(write)
        except jsonpatch.JsonPatchException:
            return

    def held(self) -> set[str]:
        return {card for pod in self.cluster.pods.values() for card in given_to(pod)}

    def hami(self, name: str) -> None:
        if not self.cluster.hami_gives(name, self.held()):
            self.cluster.refuse(name, f"0/2 nodes are available: refusal {self.cluster.version}.")


LeaderLife.TestCase.settings = settings(
    max_examples=settings().max_examples,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
)
TestLeaderLife = pytest.mark.slow(LeaderLife.TestCase)
