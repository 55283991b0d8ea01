"""Groups through lives in which each write may fail, come late or be lost, and leaders, pods and cards go at any time.

The planner is told of changes later than the API server has them. What a leader has sent at the end of its term has
arrived, or never will, when the next one decides: that is what the Lease is for. Gates that it opens and pins that it
takes back may come later still, as those of a leader that stood still may.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jsonpatch
import msgspec
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.decisions.place.cluster import BEGIN, PlacedCluster, named
from tests.hardware.topology.machines import h20
from webhook.decisions.place.gate import find_gate, open_gate
from webhook.decisions.place.pod import PodRecord, read_pod
from webhook.decisions.place.writes import Write
from webhook.words.choices import Placement

SHAPES = ((2, 1, 4), (2, 2, 4), (1, 1), (4, 4))
GROUPS = ("ring", "mesh")
NODES = ("a", "b")
FATES = ("done", "done", "done", "refused", "made, answer lost", "lost", "late")
PIN, PLACED = "nvidia.com/use-gpuuuid", "gpu.topology/placed"
FULL = 60
ROUNDS = 120
"""After so many rounds without faults there is nothing left to do."""


class LateCluster(PlacedCluster):
    """A cluster of which the planner hears later."""

    def __init__(self, **settings: Any) -> None:
        self.unheard: dict[str, None] = {}
        super().__init__(*(named(h20(), name) for name in NODES), settings=settings)

    def tell(self, name: str) -> None:
        """The API server has a new version of the pod."""
        self.version += 1
        if name in self.pods:
            self.pods[name]["metadata"]["resourceVersion"] = str(self.version)
        self.unheard[name] = None

    def hear(self, name: str) -> None:
        """The planner hears of the pod as it is now."""
        self.unheard.pop(name, None)
        key, before = f"team/{name}", self.records.pop(f"team/{name}", None)
        after = None
        if name in self.pods:
            after = self.records[key] = read_pod(msgspec.json.encode(self.pods[name]), key, before)
        self.world.pod_changed(key, before, after)

    def hear_all(self) -> None:
        for name in list(self.unheard):
            self.hear(name)

    def hami_gives(self, name: str, held: set[str]) -> bool:
        """Whether HAMi gives the pod as many free cards of one node as it asks for, and as it may have."""
        pod, allowed = self.pods[name], self.pinned(name)
        need = sum(int(each["resources"]["limits"]["nvidia.com/gpu"]) for each in pod["spec"]["containers"])
        for node in sorted(self.nodes):
            cards = [f"GPU-{node}.{index}" for index in range(8)]
            free = [card for card in cards if card not in held and (not allowed or card in allowed)]
            if len(free) >= need:
                self.give(name, node, tuple(free[:need]))
                return True
        return False

    def pinned_for_two(self) -> list[str]:
        """The cards to which several pods without a node are pinned."""
        pinned = Counter(
            card
            for name, pod in self.pods.items()
            if "nodeName" not in pod["spec"] and self.label(name) in ("waiting", "pinned")
            for card in self.pinned(name)
        )
        return [card for card, pods in pinned.items() if pods > 1]

    def schedule_free(self, held: set[str]) -> bool:
        """HAMi gives each pod what it may have; whether it gave anything."""
        found = False
        for name, pod in list(self.pods.items()):
            if is_pending(pod) and self.hami_gives(name, held):
                held |= set(given_to(self.pods[name]))
                found = True
        return found


@dataclass(frozen=True)
class Group:
    """What its pods ask for."""

    cards: tuple[int, ...]
    denies: bool
    on_one_node: bool

    def options(self, name: str) -> dict[str, str]:
        found = {"group-size": str(len(self.cards)), "on-violation": "deny" if self.denies else "warn"}
        return found | ({"group": name} if self.on_one_node else {})


@dataclass(frozen=True, eq=False)
class Sent:
    """A write on its way, and what the planner knew when it decided on it."""

    write: Write
    waiting: Mapping[str, str]
    """The uids of the other pods of the group behind their gates, by name; empty if one was past its gate."""
    is_pending: bool = True
    """Whether it may still arrive."""

    @property
    def values(self) -> dict[str, Any]:
        """What it sets, by the last part of the path."""
        return {each.path.rpartition("/")[2]: each.value for each in self.write.patch if each.op == "add"}

    @property
    def opens(self) -> bool:
        return any(each.op == "remove" and "schedulingGates" in each.path for each in self.write.patch)

    @property
    def is_pin(self) -> bool:
        return "nvidia.com~1use-gpuuuid" in self.values


class GroupLife(RuleBasedStateMachine):
    """One cluster of two nodes with eight cards each, and two groups."""

    @initialize(
        shapes=st.tuples(st.sampled_from(SHAPES), st.sampled_from(SHAPES)),
        denies=st.tuples(st.booleans(), st.just(False)),
        one_node=st.tuples(st.booleans(), st.booleans()),
        limit=st.sampled_from([1, 3, 16]),
    )
    def begin(
        self,
        shapes: tuple[tuple[int, ...], ...],
        denies: tuple[bool, ...],
        one_node: tuple[bool, ...],
        limit: int,
    ) -> None:
        self.cluster = LateCluster(inFlight=limit)
        asked = zip(shapes, denies, one_node, strict=True)
        self.groups = {name: Group(*what) for name, what in zip(GROUPS, asked, strict=True)}
        self.sent: list[Sent] = []
        self.strays: list[Sent] = []
        self.refused: list[str] = []
        self.others = 0
        for name in GROUPS:
            self.create_all(name)
        self.cluster.hear_all()

    # What others do.

    @rule(
        what=st.sampled_from(["create", "create", "delete", "take cards", "node"]),
        pick=st.integers(0, 99),
        cards=st.sets(st.integers(0, 7), min_size=1, max_size=6),
    )
    def disturb(self, what: str, pick: int, cards: set[int]) -> None:
        match what:
            case "create":
                self.create_all(GROUPS[pick % 2])
            case "delete" if self.cluster.pods:
                self.cluster.delete(sorted(self.cluster.pods)[pick % len(self.cluster.pods)])
            case "take cards":
                self.take_cards(NODES[pick % 2], cards)
            case "node":
                self.lose_or_return_a_node(NODES[pick % 2])

    @precondition(lambda self: self.with_cards())
    @rule(what=st.sampled_from(["delete", "take cards", "node"]), pick=st.integers(0, 99), hears=st.booleans())
    def spoil(self, what: str, pick: int, hears: bool) -> None:
        """Something happens to a group of which all pods wait, and some have cards."""
        names = self.with_cards()
        name = names[pick % len(names)]
        card = self.cluster.pinned(name)[0].removeprefix("GPU-")
        match what:
            case "delete":
                self.cluster.delete(name)
            case "take cards":
                self.take_cards(card[0], {int(card[-1])})
            case "node" if card[0] in self.cluster.nodes:
                self.lose_or_return_a_node(card[0])
        if hears:
            self.cluster.hear_all()

    def with_cards(self) -> list[str]:
        """The pods with cards of groups of which all pods wait."""
        waiting = [dict(self.members(group)) for group in GROUPS]
        waiting = [group for group in waiting if all(map(is_gated, group.values()))]
        return [name for group in waiting for name in group if self.cluster.pinned(name)]

    def create_all(self, group: str) -> None:
        """The pods of the group that are not there."""
        asked = self.groups[group]
        for number, cards in enumerate(asked.cards):
            name = f"{group}-{number}"
            if name not in self.cluster.pods:
                labels = {"gpu.topology/group": group}
                self.cluster.create(name, cards, options=asked.options(group), labels=labels)
                self.cluster.now += 1

    def take_cards(self, node: str, cards: set[int]) -> None:
        """A pod that does not wait gets cards, those of pins too."""
        held = self.held()
        free = [f"GPU-{node}.{card}" for card in sorted(cards) if f"GPU-{node}.{card}" not in held]
        if free and node in self.cluster.nodes:
            self.others += 1
            self.cluster.create(f"other-{self.others}", len(free), gated=False)
            self.cluster.give(f"other-{self.others}", node, tuple(free))

    def lose_or_return_a_node(self, node: str) -> None:
        if node in self.cluster.nodes:
            self.cluster.remove_node(node)
        else:
            self.cluster.add_node(named(h20(), node))

    @rule(picks=st.lists(st.integers(0, 99), min_size=1, max_size=4))
    def let_hami_schedule(self, picks: list[int]) -> None:
        for pick in picks:
            pending = [name for name, pod in self.cluster.pods.items() if is_pending(pod)]
            if pending:
                self.hami(pending[pick % len(pending)])

    @rule(seconds=st.sampled_from([1, 29, FULL, 700]))
    def wait(self, seconds: int) -> None:
        self.cluster.now += seconds
        self.refused.clear()

    # What the planner does and hears.

    @rule(fates=st.lists(st.sampled_from(FATES), max_size=8), rounds=st.integers(1, 3), hears=st.booleans())
    def decide(self, fates: list[str], rounds: int, hears: bool) -> None:
        for _ in range(rounds):
            if hears:
                self.cluster.hear_all()
            for sent in self.decided():
                self.send(sent, fates.pop(0) if fates else "done")

    @precondition(lambda self: self.cluster.unheard)
    @rule(picks=st.lists(st.integers(0, 99), min_size=1, max_size=4))
    def hear(self, picks: list[int]) -> None:
        for pick in picks:
            if self.cluster.unheard:
                self.cluster.hear(list(self.cluster.unheard)[pick % len(self.cluster.unheard)])

    @precondition(lambda self: self.sent)
    @rule(pick=st.integers(0, 99), arrives=st.booleans())
    def find_out(self, pick: int, arrives: bool) -> None:
        """The planner reads the pod of a write whose answer was lost. What has not come by then never comes."""
        sent = self.sent.pop(pick % len(self.sent))
        if sent.is_pending and arrives:
            self.arrives(sent)
        self.cluster.hear(sent.write.name)

    @rule(
        arrive=st.lists(st.sampled_from(["later", "now", "never"]), max_size=8),
        opened=st.lists(st.integers(0, 9), max_size=2),
    )
    def take_over(self, arrive: list[str], opened: list[int]) -> None:
        """The leader dies. Until another one is there, the webhook may open gates of pods that warn."""
        for position, sent in enumerate(self.sent):
            fate = arrive[position] if position < len(arrive) else "never"
            if sent.is_pending and fate == "later" and not sent.is_pin:
                self.strays.append(sent)
            elif sent.is_pending and fate == "now":
                self.arrives(sent)
        self.sent, self.refused = [], []
        for pick in opened:
            self.webhook_opens(pick)
        self.cluster.hear_all()
        self.cluster.restart()

    @precondition(lambda self: self.strays)
    @rule(pick=st.integers(0, 99))
    def stray_arrives(self, pick: int) -> None:
        """A write of a leader that stood still."""
        self.arrives(self.strays.pop(pick % len(self.strays)))

    def teardown(self) -> None:
        """Without more faults each group gets its cards as a whole, or none of them."""
        if not hasattr(self, "cluster"):
            return
        self.strays.clear()
        while self.sent:
            self.find_out(0, arrives=len(self.sent) % 2 == 0)
        self.refused.clear()
        self.cluster.hear_all()
        for _ in range(ROUNDS):
            writes = self.decided()
            for sent in writes:
                self.send(sent, "done")
            self.adopted()
            bound = self.cluster.schedule_free(self.held())
            self.cluster.hear_all()
            self.cluster.now += 1
            if not writes and not bound:
                break
        else:
            raise AssertionError([sent.write for sent in writes])
        for group in GROUPS:
            waiting = [name for name, pod in self.members(group) if is_gated(pod)]
            if not any(is_past_its_gate(pod) for _, pod in self.members(group)):
                assert len({bool(self.cluster.pinned(name)) for name in waiting}) <= 1, waiting

    # Laws.

    @invariant()
    def no_card_is_pinned_for_two(self) -> None:
        assert self.cluster.pinned_for_two() == []

    @invariant()
    def pods_that_deny_are_never_past_their_gate_without_cards(self) -> None:
        for group in GROUPS:
            for name, pod in self.members(group):
                if self.groups[group].denies and is_past_its_gate(pod):
                    assert self.cluster.pinned(name), name

    @invariant()
    def a_choice_and_its_pin_come_and_go_together(self) -> None:
        for name, pod in self.cluster.pods.items():
            if is_gated(pod):
                annotations = pod["metadata"]["annotations"]
                assert (PIN in annotations) == (PLACED in annotations), name

    def opens_with_all_pinned(self, sent: Sent) -> None:
        """The pods that waited with this one when it was decided on, and still do, have cards."""
        for name, uid in sent.waiting.items():
            pod = self.cluster.pods.get(name)
            if pod and pod["metadata"]["uid"] == uid and is_gated(pod):
                assert self.cluster.pinned(name), f"{sent.write.name} goes on, and {name} has no cards"

    def opens_what_is_whole(self, sent: Sent, group: Mapping[str, PodRecord]) -> None:
        """As far as the planner knows, the group is the one that was chosen for, and its cards are there and free.

        A group that goes on without cards has none at all.
        """
        choices = {name: choice for name, record in group.items() if (choice := choice_of(record))}
        if sent.values["gpu.topology~1placement"] == "released":
            assert not choices, f"{sent.write.name} is released, and {sorted(choices)} have cards"
            return
        if sent.is_pin:
            assert len(group) == 1, f"{sent.write.name} goes on with its pin, and others wait"
            return
        assert {choice["together"] for choice in choices.values()} == {len(group)}, group
        known = {card for node in self.cluster.world.nodes.values() for card in node.uuids.values()}
        taken = {card for record in self.cluster.records.values() for card in record.held}
        for name, choice in choices.items():
            assert known >= set(choice["cards"]), f"the node of {name} is gone"
            assert taken.isdisjoint(choice["cards"]), f"a card of {name} is taken"

    def adopted(self) -> None:
        """The pins whose gates the webhook has opened hold their cards, unless these are gone."""
        pinned = {
            name: self.cluster.pinned(name) for name, pod in self.cluster.pods.items() if "nodeName" not in pod["spec"]
        }
        for name, pod in self.cluster.pods.items():
            if is_pending(pod) and pinned[name] and self.cluster.why(name)[0] != "CardsLost":
                others = {card for other, cards in pinned.items() if other != name for card in cards}
                lost = (others | self.held()).intersection(pinned[name])
                node = pinned[name][0].removeprefix("GPU-")[0]
                assert self.cluster.label(name) == "pinned" or lost or node not in self.cluster.nodes, name

    # Parts.

    def decided(self) -> list[Sent]:
        """What the planner wants."""
        busy = {*(sent.write.key for sent in self.sent), *self.refused}
        at = BEGIN  # of one second: the planner gets no help from the time of a choice
        writes = self.cluster.planner.decide(self.cluster.now, at, busy)
        assert not {write.key for write in writes if write.patch or write.condition} & busy
        found = []
        for write in writes:
            group = write.name.partition("-")[0]
            mates = {record.name: record for record in self.cluster.records.values() if is_of(record.name, group)}
            others = {name: record for name, record in mates.items() if name != write.name}
            all_wait = all(record.unbound and record.unbound.is_gated for record in mates.values())
            sent = Sent(write, {name: record.uid for name, record in others.items()} if all_wait else {})
            if all_wait and sent.opens:
                self.opens_what_is_whole(sent, mates)
            found.append(sent)
        return found

    def send(self, sent: Sent, fate: str) -> None:
        match fate:
            case "done":
                self.arrives(sent)
                self.cluster.hear(sent.write.name)
            case "refused":
                self.refused.append(sent.write.key)
            case "made, answer lost":
                self.arrives(sent)
                self.sent.append(Sent(sent.write, sent.waiting, is_pending=False))
            case "lost":
                self.sent.append(Sent(sent.write, sent.waiting, is_pending=False))
            case _:
                self.sent.append(sent)

    def arrives(self, sent: Sent) -> None:
        """The API server makes the write, if the pod is as it was."""
        before = self.cluster.pods.get(sent.write.name)
        was_gated = before is not None and is_gated(before)
        try:
            self.cluster.apply(sent.write)
        except jsonpatch.JsonPatchException:
            return
        after = self.cluster.pods.get(sent.write.name)
        if was_gated and after is not None and not is_gated(after) and self.cluster.pinned(sent.write.name):
            self.opens_with_all_pinned(sent)

    def webhook_opens(self, pick: int) -> None:
        names = [name for group in GROUPS for name, pod in self.members(group) if is_gated(pod)]
        names = [name for name in names if not self.groups[name.partition("-")[0]].denies]
        if names:
            name = names[pick % len(names)]
            record = read_pod(msgspec.json.encode(self.cluster.pods[name]), name, None)
            gate = find_gate(record.unbound.pod) if record.unbound else None
            assert gate
            patch = msgspec.json.encode(open_gate(gate, Placement.RELEASED)).decode()
            self.cluster.pods[name] = jsonpatch.apply_patch(self.cluster.pods[name], patch)
            self.cluster.tell(name)

    def members(self, group: str) -> Iterator[tuple[str, dict[str, Any]]]:
        return ((name, pod) for name, pod in self.cluster.pods.items() if is_of(name, group))

    def held(self) -> set[str]:
        """The cards that HAMi has given."""
        return {card for pod in self.cluster.pods.values() for card in given_to(pod)}

    def hami(self, name: str) -> None:
        """HAMi gives what the pod may have, or refuses it."""
        if not self.cluster.hami_gives(name, self.held()):
            self.cluster.refuse(name, f"0/2 nodes are available: refusal {self.cluster.version}.")


def choice_of(record: PodRecord) -> dict[str, Any]:
    """What the planner has chosen for a pod; empty: nothing."""
    annotations = record.unbound.pod.annotations if record.unbound else {}
    found: dict[str, Any] = json.loads(annotations.get(PLACED, "{}"))
    return found


def is_of(name: str, group: str) -> bool:
    return name.startswith(f"{group}-")


def is_gated(pod: Mapping[str, Any]) -> bool:
    return bool(pod["spec"].get("schedulingGates"))


def is_past_its_gate(pod: Mapping[str, Any]) -> bool:
    return not is_gated(pod)


def is_pending(pod: Mapping[str, Any]) -> bool:
    return not is_gated(pod) and "nodeName" not in pod["spec"]


def given_to(pod: Mapping[str, Any]) -> list[str]:
    text = pod["metadata"]["annotations"].get("hami.io/vgpu-devices-allocated", "")
    return [part.partition(",")[0] for part in text.replace(";", "").split(":") if part]


GroupLife.TestCase.settings = settings(
    max_examples=settings().max_examples,
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
)
TestGroupLife = pytest.mark.slow(GroupLife.TestCase)
