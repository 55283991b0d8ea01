"""The planner through long lives of a cluster: pods and nodes come and go, HAMi gives cards to others, writes fail."""

import json
from collections import Counter
from collections.abc import Iterator

import jsonpatch
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.decisions.place.cluster import BEGIN, Object, PlacedCluster, named
from tests.hardware.topology.machines import a100_pcie_bridged, bent, h20, l40s
from webhook.decisions.place.writes import Write
from webhook.hardware.topology.model import MigMode

MACHINES = {
    "bridged": a100_pcie_bridged(),
    "h20": h20(),
    "l40s": l40s(),
    "mig": bent(a100_pcie_bridged(), 1, mig_mode=MigMode.ENABLED),
}
SHAPES = ((1,), (1,), (2,), (2,), (4,), (8,), (1, 1), (2, 2))
IN_FLIGHT, FULL, CPUS = 3, 60, 192
DENY = {"on-violation": "deny", "require-nvlink": "true"}


class Life(RuleBasedStateMachine):
    """One cluster. Every pod's need stands in its name's place in ``needs``."""

    @initialize()
    def begin(self) -> None:
        self.cluster = PlacedCluster(
            named(a100_pcie_bridged(), "n0"), named(h20(), "n1"), settings={"inFlight": IN_FLIGHT, "attempts": 3}
        )
        self.needs: dict[str, int] = {}
        self.waits: dict[str, bool] = {}
        self.patience: dict[str, float] = {}
        self.began: dict[str, float] = {}
        self.unknown: list[Write] = []
        self.failed: set[str] = set()
        self.made = 2

    # What others do.

    @rule(kind=st.sampled_from(sorted(MACHINES)))
    def add_a_node(self, kind: str) -> None:
        if len(self.cluster.nodes) < 6:
            self.cluster.add_node(named(MACHINES[kind], f"n{self.made}"))
            self.made += 1

    @precondition(lambda self: self.cluster.nodes)
    @rule(pick=st.integers(0, 99))
    def remove_a_node(self, pick: int) -> None:
        self.cluster.remove_node(self.node(pick))

    @precondition(lambda self: self.cluster.nodes)
    @rule(pick=st.integers(0, 99), closed=st.booleans())
    def cordon(self, pick: int, closed: bool) -> None:
        name = self.node(pick)
        self.cluster.nodes[name]["spec"] = {"unschedulable": closed}
        self.cluster.tell_node(name)

    @rule(
        shape=st.sampled_from(SHAPES),
        denies=st.booleans(),
        wait=st.sampled_from(["0s", "30s", "90s"]),
        priority=st.sampled_from([0, 0, 1000]),
        cpus=st.sampled_from([0, 150]),
    )
    def create(self, shape: tuple[int, ...], denies: bool, wait: str, priority: int, cpus: int) -> None:
        name = f"p{self.made}"
        self.made += 1
        options = {**(DENY if denies else {}), "place-wait": wait}
        pod = self.cluster.create(name, *shape, options=options, priority=priority)
        pod["spec"]["containers"][0]["resources"]["requests"] = {"cpu": str(cpus)}
        self.cluster.tell(name)
        self.needs[name], self.waits[name] = sum(shape), denies
        self.patience[name] = max(FULL, int(wait[:-1]))

    @rule()
    def create_a_slice(self) -> None:
        name = f"s{self.made}"
        self.made += 1
        self.cluster.create(name, 1, gated=False, annotations={"gpu.topology/injected": ""})
        del self.cluster.pods[name]["metadata"]["annotations"]["gpu.topology/injected"]
        self.cluster.tell(name)

    @precondition(lambda self: self.cluster.nodes)
    @rule(priority=st.sampled_from([-10, 0, 500, 5000]))
    def take_cpus(self, priority: int) -> None:
        """Pods without cards go wherever there is room."""
        containers = [{"name": "c", "resources": {"requests": {"cpu": "90"}}}]
        for node in self.cluster.nodes:
            if self.cpus_of(node) + 90 <= CPUS:
                name = f"h{self.made}"
                self.made += 1
                self.cluster.create(name, gated=False, nodeName=node, priority=priority, containers=containers)

    @rule()
    def end_victims(self) -> None:
        for name in [name for name, pod in self.cluster.pods.items() if "deletionTimestamp" in pod["metadata"]]:
            self.cluster.delete(name)

    @precondition(lambda self: self.cluster.pods)
    @rule(pick=st.integers(0, 99))
    def delete(self, pick: int) -> None:
        self.cluster.delete(self.pod(pick))

    @precondition(lambda self: self.cluster.pods)
    @rule(pick=st.integers(0, 99))
    def finish(self, pick: int) -> None:
        pod = self.cluster.pods[self.pod(pick)]
        if "nodeName" in pod["spec"]:
            pod["status"]["phase"] = "Succeeded"
            self.cluster.tell(pod["metadata"]["name"])

    @rule(picks=st.lists(st.integers(0, 99), max_size=6))
    def let_hami_schedule(self, picks: list[int]) -> None:
        for pick in picks:
            pending = [name for name, pod in self.cluster.pods.items() if self.is_pending(pod)]
            if pending:
                self.hami(pending[pick % len(pending)], pick)

    @rule(seconds=st.sampled_from([1, 29, 60, 61, 700]))
    def wait(self, seconds: int) -> None:
        self.cluster.now += seconds

    # What the planner does.

    @rule(fates=st.lists(st.sampled_from(["done", "done", "done", "failed", "unknown"]), max_size=6))
    def decide(self, fates: list[str]) -> None:
        writes = self.decided()
        self.failed = set()
        for position, write in enumerate(writes):
            fate = fates[position] if position < len(fates) else "done"
            if fate == "done":
                self.apply(write)
            elif fate == "unknown":
                self.unknown.append(write)
            else:
                self.failed.add(write.name)
        self.nothing_waits_too_long()

    @precondition(lambda self: self.unknown)
    @rule(arrives=st.booleans())
    def learn_the_outcome(self, arrives: bool) -> None:
        write = self.unknown.pop()
        if arrives:
            self.apply(write)

    @rule()
    def take_over(self) -> None:
        while self.unknown:
            self.learn_the_outcome(True)
        self.cluster.restart()
        self.began = {}

    @rule()
    def come_to_rest(self) -> None:
        """Without anything new there is soon nothing to do.

        What a round holds for a pod without writing it is seen by other pods in the next round.
        """
        while self.unknown:
            self.learn_the_outcome(False)
        empty = 0
        for _ in range(40):
            writes = self.decided()
            for write in writes:
                self.apply(write)
            empty = 0 if writes else empty + 1
            if empty == 3:
                break
        assert empty == 3

    # Laws.

    @invariant()
    def no_card_is_pinned_for_two(self) -> None:
        pinned = Counter(card for _, cards in self.pins() for card in cards)
        assert not [card for card, pods in pinned.items() if pods > 1]

    @invariant()
    def few_are_on_their_way(self) -> None:
        open_pins = [
            cards
            for name, cards in self.pins()
            if not self.cluster.gates(name) and "nominatedNodeName" not in self.cluster.pods[name]["status"]
        ]
        # A write that failed may have been one that took cards back: the next round tries it again.
        assert len(open_pins) <= IN_FLIGHT + len(self.failed)
        nodes = Counter(node_of(cards) for cards in open_pins)
        assert not [node for node, pods in nodes.items() if pods > 1]

    @invariant()
    def pods_that_deny_are_never_let_go(self) -> None:
        for name, pod in self.cluster.pods.items():
            if self.waits.get(name) and not self.cluster.gates(name) and "nodeName" not in pod["spec"]:
                assert len(self.cluster.pinned(name)) == self.needs[name], name

    def nothing_waits_too_long(self) -> None:
        late = [
            name
            for name, pod in self.cluster.pods.items()
            if self.cluster.gates(name)
            and not self.waits[name]
            and name not in self.failed
            and name not in {write.name for write in self.unknown}
            and self.cluster.now - self.began[name] >= self.patience[name]
        ]
        assert len(late) <= self.cluster.planner.report.waiting["Soon"], late

    # Parts.

    def decided(self) -> list[Write]:
        """What the planner wants, which is well-formed."""
        cluster, busy = self.cluster, tuple(write.key for write in self.unknown)
        self.began.update({name: cluster.now for name in cluster.pods if name not in self.began})
        writes = cluster.planner.decide(cluster.now, BEGIN, busy)
        assert not {write.key for write in writes} & set(busy)
        for write in writes:
            for text in (write.condition and write.condition.message, write.event and write.event.note):
                assert not text or text.startswith("GT6"), text
            if write.result in ("pinned", "repinned"):
                self.is_sound(write)
        return writes

    def is_sound(self, write: Write) -> None:
        values = {operation.path.rpartition("/")[2]: operation.value for operation in write.patch}
        cards = str(values["nvidia.com~1use-gpuuuid"]).split(",")
        placed = json.loads(str(values["gpu.topology~1placed"]))
        assert len(cards) == len(set(cards)) == self.needs[write.name]
        node = self.cluster.nodes[placed["node"]]
        assert not node["spec"].get("unschedulable")
        if placed.get("preempts"):
            lower = self.lower_on(placed["node"], self.priority(write.name))
            spared = self.cpus_of(placed["node"]) - sum(cpus(self.cluster.pods[name]) for name in lower)
            assert lower
            assert spared + cpus(self.cluster.pods[write.name]) <= CPUS
        topology = self.cluster.topologies[placed["node"]]
        assert topology is not None
        found = [gpu for gpu in topology.gpus if gpu.uuid in cards]
        assert len(found) == len(cards)
        assert not [gpu for gpu in found if gpu.mig_mode is MigMode.ENABLED]
        held = {card for name in self.cluster.pods for card in self.held(name) if name != write.name}
        assert held.isdisjoint(cards)

    def apply(self, write: Write) -> None:
        try:
            self.cluster.apply(write)
        except jsonpatch.JsonPatchException:
            self.failed.add(write.name)  # 422: the pod is another by now

    def pins(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Of the pods that the planner holds cards for."""
        for name, pod in self.cluster.pods.items():
            if "nodeName" not in pod["spec"] and self.cluster.label(name) == "pinned":
                yield name, self.cluster.pinned(name)

    def held(self, name: str) -> list[str]:
        """Cards that HAMi counts as the pod's."""
        pod = self.cluster.pods[name]
        if pod["status"]["phase"] == "Succeeded":
            return []
        text = pod["metadata"]["annotations"].get("hami.io/vgpu-devices-allocated", "")
        return [part.partition(",")[0] for part in text.replace(";", "").split(":") if part]

    def is_pending(self, pod: Object) -> bool:
        return "nodeName" not in pod["spec"] and not pod["spec"].get("schedulingGates")

    def hami(self, name: str, pick: int) -> None:
        """HAMi gives what the pod may have, or refuses it."""
        used = Counter(card for other in self.cluster.pods for card in self.held(other))
        allowed, need = self.cluster.pinned(name), self.needs.get(name, 0)
        open_nodes = {
            node: topology
            for node, topology in self.cluster.topologies.items()
            if topology
            and not self.cluster.nodes[node]["spec"].get("unschedulable")
            and self.cpus_of(node) + cpus(self.cluster.pods[name]) <= CPUS
        }
        for node, topology in sorted(open_nodes.items(), reverse=bool(pick % 2)):
            cards = [gpu.uuid for gpu in topology.gpus if gpu.mig_mode is not MigMode.ENABLED]
            free = [card for card in cards if not used[card] and (not allowed or card in allowed)]
            if need and len(free) >= need:
                return self.cluster.give(name, node, tuple(free[:need]))
            if not need and cards:
                return self.cluster.give(name, node, (cards[pick % len(cards)],))
        self.made += 1
        self.make_room(name, pick)
        return self.cluster.refuse(name, f"0/{self.made} nodes are available.")

    def make_room(self, name: str, pick: int) -> None:
        """The scheduler evicts pods, on any node and whatever the cards."""
        short = [node for node in self.cluster.nodes if self.cpus_of(node) + cpus(self.cluster.pods[name]) > CPUS]
        nodes = [node for node in short if self.lower_on(node, self.priority(name))]
        self.cluster.pods[name]["status"].pop("nominatedNodeName", None)
        if nodes:
            node = nodes[pick % len(nodes)]
            for victim in self.lower_on(node, self.priority(name)):
                self.cluster.pods[victim]["metadata"]["deletionTimestamp"] = "2026-11-22T12:00:00Z"
                self.cluster.tell(victim)
            self.cluster.pods[name]["status"]["nominatedNodeName"] = node

    def priority(self, name: str) -> int:
        return int(self.cluster.pods[name]["spec"].get("priority", 0))

    def running_on(self, node: str) -> list[str]:
        return [
            name
            for name, pod in self.cluster.pods.items()
            if pod["spec"].get("nodeName") == node and pod["status"]["phase"] != "Succeeded"
        ]

    def cpus_of(self, node: str) -> int:
        """In use."""
        return sum(cpus(self.cluster.pods[name]) for name in self.running_on(node))

    def lower_on(self, node: str, priority: int) -> list[str]:
        """The pods that the scheduler may evict."""
        return [name for name in self.running_on(node) if self.cluster.pods[name]["spec"].get("priority", 0) < priority]

    def node(self, pick: int) -> str:
        return sorted(self.cluster.nodes)[pick % len(self.cluster.nodes)]

    def pod(self, pick: int) -> str:
        return sorted(self.cluster.pods)[pick % len(self.cluster.pods)]


def cpus(pod: Object) -> int:
    """That the pod asks for."""
    return sum(int(each["resources"].get("requests", {}).get("cpu", 0)) for each in pod["spec"]["containers"])


def node_of(cards: tuple[str, ...]) -> str:
    """By the names that the cards have here."""
    return cards[0].partition(".")[0]


Life.TestCase.settings = settings(
    max_examples=settings().max_examples,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
)
TestLife = pytest.mark.slow(Life.TestCase)
