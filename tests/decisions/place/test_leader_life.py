"""A leader and its workers through lives in which workers come late or never, and others want the cards meanwhile.

Objects become unreadable, planners die, pods and cards go. The leader asks for one card, each worker for three.
"""

import json

import jsonpatch
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.decisions.place.cluster import BEGIN
from tests.decisions.place.test_group_life import LateCluster, given_to, is_gated, is_pending
from tests.decisions.place.test_leaders import leader, objects, template, worker
from webhook.decisions.place.writes import Write

SIZE, CARDS, RESERVE, FULL = 3, 3, 600, 60
WORKERS = tuple(f"serve-0-{index}" for index in range(1, SIZE))
GROUP = ("serve-0", *WORKERS)
PLACED, PIN = "gpu.topology/placed", "nvidia.com~1use-gpuuuid"
ROUNDS = 120


class LeaderLife(RuleBasedStateMachine):
    """Two nodes with eight cards each."""

    @initialize(denies=st.booleans(), startup=st.sampled_from(["LeaderReady", "LeaderReady", "LeaderCreated"]))
    def begin(self, startup: str, *, denies: bool) -> None:
        self.cluster = LateCluster(reserveSeconds=RESERVE)
        self.denies, self.startup = denies, startup
        self.others = 0
        self.leads_since = self.cluster.now
        self.can_be_read(is_so=True)
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

    @rule(is_so=st.booleans())
    def can_be_read(self, *, is_so: bool) -> None:
        """The planner reads the objects from now on, or no longer. It is told when it asks."""
        known = objects(size=SIZE, worker=template(CARDS), startup=self.startup)
        self.cluster.workloads = known if is_so else dict.fromkeys(known)

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

    @rule(seconds=st.sampled_from([1, FULL, RESERVE]))
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
        self.leads_since = self.cluster.now

    def teardown(self) -> None:
        """Without anything new there is soon nothing to do, and a leader that warns has gone on."""
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
        assert first is None or self.denies or not is_gated(first), self.cluster.why("serve-0")

    # Laws.

    @invariant()
    def no_card_is_pinned_for_two(self) -> None:
        assert self.cluster.pinned_for_two() == []

    def is_sound(self, write: Write, reserved: set[str]) -> None:
        """What is held is what a worker asks for, and nobody else gets it."""
        values = {each.path.rpartition("/")[2]: each.value for each in write.patch if each.op == "add"}
        if PIN not in values:
            return
        cards = set(str(values[PIN]).split(","))
        if write.name not in GROUP:
            assert cards.isdisjoint(reserved), f"{write.name} gets what is held"
            return
        placed = json.loads(str(values["gpu.topology~1placed"]))
        sets = placed.get("later", {}).get("sets", [])
        for held in sets:
            assert len(held["cards"]) == CARDS
            assert {card.partition(".")[0] for card in held["cards"]} == {f"GPU-{held['node']}"}
        assert len({*cards, *(card for held in sets for card in held["cards"])}) == len(cards) + CARDS * len(sets)
        if write.name == "serve-0" and self.denies and self.knew_the_workers:
            assert len(sets) + placed.get("together", 1) == SIZE

    def reserved(self) -> set[str]:
        """The cards that are held for certain: no worker is there, the leader lives, and its time is not over."""
        first = self.cluster.pods.get("serve-0")
        if first is None or self.cluster.label("serve-0") not in ("waiting", "pinned"):
            return set()
        if any(name in self.cluster.pods for name in WORKERS) or self.cluster.now - self.since() >= RESERVE:
            return set()
        placed = json.loads(first["metadata"]["annotations"].get(PLACED, "{}"))
        taken = self.held() | {card for name in self.cluster.pods for card in self.cluster.pinned(name)}
        sets = [set(held["cards"]) for held in placed.get("later", {}).get("sets", [])]
        return {card for held in sets if held.isdisjoint(taken) for card in held}

    def since(self) -> float:
        """The earliest time at which this leader can have seen the cards of later pods."""
        return max(self.leads_since, self.created_at())

    def created_at(self) -> float:
        text = str(self.cluster.pods["serve-0"]["metadata"]["creationTimestamp"])
        found = BEGIN.fromisoformat(text)
        return 1000 + (found - BEGIN).total_seconds()

    # Parts.

    def decided(self) -> list[Write]:
        known = self.cluster.world.workloads.values()
        self.knew_the_workers = any(each and each.template for each in known)
        reserved = self.reserved()
        writes = self.cluster.planner.decide(self.cluster.now, BEGIN)
        for write in writes:
            self.is_sound(write, reserved)
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
