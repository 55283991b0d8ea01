"""The free cards of the cluster at the moment, kept up to date pod by pod and node by node.

A card is free if HAMi may hand it out whole, the topology of its node is known to have it, and no pod holds it. A pod
holds a card by HAMi's allocation or by a pin of the planner. A card about which this is not certain is not free.
"""

from bisect import bisect_left, insort
from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping, Sized
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from webhook.decisions.node_record import NodeRecord
from webhook.decisions.place.card_parts import PartAsked, Use, has_room
from webhook.decisions.place.pins import pinned_cards
from webhook.decisions.place.pod import PodRecord
from webhook.decisions.place.scheduling import NodeNeeds, shortage
from webhook.hardware.topology.model import MigMode, NodeTopology
from webhook.hardware.topology.planning.fleet import Build, Builds
from webhook.hardware.topology.readers.hami_register import RegisteredGpu
from webhook.objects.workload import Workload, WorkloadRef
from webhook.words import names

_ANSWERS_KEPT, _LEAST_ANSWERS = 512 * 1024, 64
"""Answers kept, of all nodes together and of each, to the question whether pods of a template may run on a node."""
_UNUSED, _NONE = Use(), frozenset[int]()
_BOUND_KEPT = 4096
"""Newly bound pods that are kept. A planner that does not lead reads none of them."""


class Stock(NamedTuple):
    """The free cards of nodes that are built alike. Nodes with the same stock are one choice."""

    build: Build
    free: frozenset[int]
    """The indices of the free cards."""
    with_room: frozenset[int] | None = None
    """The indices of the cards of which a part can be had; None: the stock is for whole cards that are free."""

    @property
    def usable(self) -> frozenset[int]:
        """The indices of the cards that a pod can get."""
        return self.free if self.with_room is None else self.with_room


@dataclass(slots=True)
class Level:
    """The pods of one priority that are bound to a node."""

    pods: int = 0
    used: dict[str, int] = field(default_factory=dict)
    """The amount of each resource that they use."""

    def count(self, amounts: Mapping[str, int], sign: int) -> None:
        """Counts a pod that came (1) or went (-1)."""
        self.pods += sign
        for name, amount in amounts.items():
            used = self.used.get(name, 0) + sign * amount
            if used:
                self.used[name] = used
            else:
                self.used.pop(name, None)


class PlaceNode:
    """One node with GPUs.

    Args:
        name: Its name.
        among: All nodes that are known, which share the room for answers.
    """

    def __init__(self, name: str, among: Sized) -> None:
        self.name = name
        self._among = among
        self.record: NodeRecord | None = None
        self.topology: NodeTopology | None = None
        self.build: Build | None = None
        self.uuids: dict[int, str] = {}
        """The UUIDs of the cards that HAMi may hand out whole, by index."""
        self.cards: dict[str, RegisteredGpu] = {}
        """The cards that HAMi registered, by UUID."""
        self.all = Level()
        """The pods of every priority, with those that are on their way."""
        self.levels: dict[int, Level] = {}
        """The pods bound to the node, by their priority: those that kube-scheduler may evict for others."""
        self._refusals: dict[bytes, str] = {}
        """The answers to requirements, by their keys."""

    def changed(self, record: NodeRecord | None, topology: NodeTopology | None, builds: Builds) -> None:
        """Takes over the present state of the node."""
        if record is not self.record:
            self._refusals.clear()
        self.record = record
        if topology is not self.topology:
            self.topology, self.build = topology, builds.of(topology) if topology else None
        self.cards = {gpu.uuid: gpu for gpu in record.registered} if record else {}
        gpus = self.topology.gpus if self.topology else ()
        self.uuids = {
            gpu.index: gpu.uuid for gpu in gpus if gpu.uuid in self.cards and gpu.mig_mode is not MigMode.ENABLED
        }

    @property
    def host_name(self) -> str:
        """The value of the label ``kubernetes.io/hostname``, by which pods can be limited to the node; else empty."""
        return self.record.labels.get(names.HOSTNAME_TOPOLOGY, "") if self.record else ""

    def labels_of(self, uuids: Collection[str]) -> list[str]:
        """Returns the names of cards, such as ``GPU3``; of a card that the node no longer gives, its UUID."""
        indices = {uuid: index for index, uuid in self.uuids.items()}
        return [f"GPU{indices[uuid]}" if uuid in indices else uuid for uuid in uuids]

    def refusal(self, needs: NodeNeeds) -> str:
        """Returns why a pod may not run on the node, regardless of the pods that run there; empty if it may."""
        record = self.record
        if record is None:
            return "is unknown"
        found = self._refusals.get(needs.key)
        if found is None:
            if len(self._refusals) >= max(_LEAST_ANSWERS, _ANSWERS_KEPT // (1 + len(self._among))):
                self._refusals.clear()
            found = needs.refusal(self.name, record.labels, record.taints, unschedulable=record.is_cordoned)
            self._refusals[needs.key] = found
        return found

    def is_only_cordoned(self, needs: NodeNeeds) -> bool:
        """Returns whether nothing but a cordon keeps a pod from the node, regardless of the pods that run there."""
        record = self.record
        if record is None or not record.is_cordoned or not self.refusal(needs):
            return False
        return not needs.refusal_if_uncordoned(self.name, record.labels, record.taints)

    def shortage(self, pod: PodRecord, not_counted: frozenset[str]) -> str:
        """Returns which resource is too scarce for a pod, in a clause about the node; empty if there is room.

        Args:
            pod: A pod without a node.
            not_counted: Resources that kube-scheduler leaves to HAMi.
        """
        record = self.record
        if record is None:
            return "is unknown"
        needed = {name: amount for name, amount in pod.amounts.items() if name not in not_counted}
        lack = shortage(needed, record.allocatable, self.all.used, self.all.pods)
        return f"has {lack.left} of {lack.resource} left" if lack else ""

    def victims(self, pod: PodRecord, not_counted: frozenset[str]) -> int | None:
        """Returns the priority of the most important pods that have to be evicted so that there is room for a pod.

        kube-scheduler evicts pods of a lower priority only, and the most important ones last (pkg/scheduler/framework/
        plugins/defaultpreemption, SelectVictimsOnNode).

        Args:
            pod: A pod without a node for which there is no room now.
            not_counted: Resources that kube-scheduler leaves to HAMi.

        Returns:
            None if there is no room even without all pods of lower priority.
        """
        record = self.record
        if record is None:
            return None
        needed = {name: amount for name, amount in pod.amounts.items() if name not in not_counted}
        used, pods = {name: self.all.used.get(name, 0) for name in needed}, self.all.pods
        for priority in sorted(level for level in self.levels if level < pod.priority):
            level = self.levels[priority]
            pods -= level.pods
            used = {name: amount - level.used.get(name, 0) for name, amount in used.items()}
            if shortage(needed, record.allocatable, used, pods) is None:
                return priority
        return None

    def count(self, pod: PodRecord, sign: int) -> None:
        """Counts a pod that came (1) or went (-1)."""
        self.all.count(pod.amounts, sign)
        if not pod.is_bound:
            return
        level = self.levels.setdefault(pod.priority, Level())
        level.count(pod.amounts, sign)
        if not level.pods:
            del self.levels[pod.priority]


@dataclass(slots=True)
class GroupOfPods:
    """Pods that work together."""

    keys: set[str] = field(default_factory=set)
    nodes: Counter[str] = field(default_factory=Counter)
    """The number of pods of the group on each node."""

    def __len__(self) -> int:
        return len(self.keys)

    def count(self, key: str, pod: PodRecord, sign: int) -> None:
        """Counts a pod that came (1) or went (-1)."""
        if sign > 0:
            self.keys.add(key)
        else:
            self.keys.discard(key)
        if pod.node:
            self.nodes[pod.node] += sign
            if not self.nodes[pod.node]:
                del self.nodes[pod.node]


class World:
    """The pods and nodes of a cluster, and the free cards that follow from them."""

    def __init__(self) -> None:
        self.nodes: dict[str, PlaceNode] = {}
        self.pods: dict[str, PodRecord] = {}
        self.unbound: dict[str, PodRecord] = {}
        """The pods of interest without a node, by their keys."""
        self.groups: dict[tuple[str, str], GroupOfPods] = {}
        """The groups of pods, by namespace and group."""
        self.newly_bound: deque[tuple[PodRecord, PodRecord]] = deque(maxlen=_BOUND_KEPT)
        """Pods with GPUs that got their node: before it and with it. The reader removes each entry that it reads."""
        self.stocks: dict[Stock, list[str]] = {}
        """The names of the nodes with each stock, sorted."""
        self.workloads: dict[WorkloadRef, Workload | None] = {}
        """The objects that say something about pods to come; None: there is no such object, or it cannot be read."""
        self._builds = Builds()
        self._holders: dict[str, set[str]] = {}
        """The keys of the pods that hold each card, by UUID."""
        self._uses: dict[tuple[str, str], Use] = {}
        """The use of each card of which pods have parts, by its UUID and the node on which HAMi counts it."""
        self._shared: dict[str, frozenset[int]] = {}
        """The indices of the cards of each node of which pods hold parts, and none holds the whole."""
        self._on: dict[str, set[str]] = {}
        """The names of the nodes that have each card, by UUID."""
        self._stock_of: dict[str, Stock] = {}
        self._counted: dict[str, str] = {}
        """The node whose resources each pod takes, by the key of the pod."""
        self._bound: Counter[int] = Counter()
        """The number of bound pods of each priority."""
        self._lowest: int | None = None
        """The least of these priorities."""
        self._leaving: dict[str, dict[str, int]] = {}
        """The priorities of the pods that are being deleted, by node and key."""
        self.arrived: set[str] = set()
        """The UUIDs of cards that HAMi registered newly. The reader clears it."""
        self._stale: set[str] = set()
        """Names of the nodes whose stock has to be found anew."""
        self.changes = 0
        """The number of changes so far. A result holds as long as this number stays the same."""
        self.gains = 0
        """The number of changes so far by which a pod could get cards: cards or resources became free, or a node
        changed. That there are none holds as long as this number stays the same."""

    def pod_changed(self, key: str, before: PodRecord | None, after: PodRecord | None) -> None:
        """Replaces the state of a pod; ``None`` means that the pod did not exist before, or no longer exists."""
        self.changes += 1
        if before is not None:
            self._discount(key, before)
            self._let_go(key, before)
            self._leave(key, before)
            self.pods.pop(key, None)
            self.unbound.pop(key, None)
        if after is not None:
            self._count(key, after)
            self._hold(key, after)
            self.pods[key] = after
            if after.group:
                self.groups.setdefault((after.namespace, after.group), GroupOfPods()).count(key, after, 1)
            if after.unbound is not None:
                self.unbound[key] = after
        is_new = before and after and after.is_bound and not before.is_bound and before.uid == after.uid
        if before and after and is_new and (before.unbound or after.parts or len(after.held) == 1):
            self.newly_bound.append((before, after))

    @contextmanager
    def without(self, pod: PodRecord) -> Iterator[None]:
        """Leaves a pod out of the world while the context lasts. Nothing becomes free by that."""
        gains = self.gains
        self.pod_changed(pod.key, pod, None)
        try:
            yield
        finally:
            self.pod_changed(pod.key, None, pod)
            self.gains = gains

    def node_changed(self, name: str, record: NodeRecord | None, topology: NodeTopology | None) -> None:
        """Replaces the state of a node and its topology, as far as that is known."""
        self.changes += 1
        node = self.nodes.get(name)
        if node is None:
            if record is None and topology is None:
                return
            node = self.nodes[name] = PlaceNode(name, self.nodes)
        self.gains += record != node.record or topology is not node.topology
        before = set(node.uuids.values())
        node.changed(record, topology, self._builds)
        after = set(node.uuids.values())
        self.arrived |= after - before
        self.arrived -= before - after
        self._moved(name, before, after)
        self._stale.add(name)
        if record is None and topology is None and not node.all.pods:
            self.nodes.pop(name, None)

    def workload_read(self, ref: WorkloadRef, workload: Workload | None) -> bool:
        """Replaces what is known of an object, and returns whether it is something new."""
        is_new = ref not in self.workloads or self.workloads[ref] != workload
        if is_new:
            self.workloads[ref] = workload
            self.changes += 1
            self.gains += 1
        return is_new

    def forget_workloads(self, kept: Collection[WorkloadRef]) -> None:
        """Forgets all objects except these. An object that is asked for again is told again."""
        self.workloads = {ref: self.workloads[ref] for ref in kept if ref in self.workloads}

    def _moved(self, name: str, before: set[str], after: set[str]) -> None:
        """Counts pods that are pinned to cards which a node lost or got on the node that has these cards now."""
        for uuid in before - after:
            nodes = self._on[uuid]
            nodes.discard(name)
            if not nodes:
                del self._on[uuid]
        for uuid in after - before:
            self._on.setdefault(uuid, set()).add(name)
        for key in {key for uuid in before ^ after for key in self._holders.get(uuid, ())}:
            pod = self.pods[key]
            if not pod.node:
                self._discount(key, pod)
                self._count(key, pod)

    def mates(self, pod: PodRecord) -> list[PodRecord]:
        """Returns the other pods in the group of a pod."""
        group = self.groups.get((pod.namespace, pod.group))
        return [self.pods[key] for key in sorted(group.keys) if key != pod.key] if group else []

    def nodes_of_mates(self, pod: PodRecord) -> set[str]:
        """Returns the nodes of the other pods in the group of a pod."""
        group = self.groups.get((pod.namespace, pod.group))
        if group is None:
            return set()
        return {name for name, pods in group.nodes.items() if name != pod.node or pods > 1}

    def holders(self, uuid: str, node: str) -> frozenset[str]:
        """Returns the keys of the pods that hold a card of a node."""
        return frozenset(key for key in self._holders.get(uuid, ()) if self._holds(self.pods[key], uuid, node))

    def is_held(self, uuid: str, node: str, *, but: str = "") -> bool:
        """Returns whether any pod holds a card of a node.

        It stops at the first holder, because forged allocations may name one card for thousands of pods.

        Args:
            uuid: The card.
            node: The name of the node.
            but: The key of a pod that does not count; empty: all pods count.
        """
        holders = self._holders.get(uuid, ())
        return any(key != but and self._holds(self.pods[key], uuid, node) for key in holders)

    def _holds(self, pod: PodRecord, uuid: str, node: str) -> bool:
        return pod.held_on in ("", node) or uuid in pinned_cards(pod)

    def stocks_of_parts(self, asked: PartAsked, nodes: Collection[str] | None = None) -> dict[Stock, list[str]]:
        """Returns the stocks of nodes for a pod that asks for parts of cards. The caller calls ``refresh`` first.

        Args:
            asked: The part of each card.
            nodes: The names of the nodes; None: all.
        """
        found: dict[Stock, list[str]] = {}
        for name in sorted(self._stock_of if nodes is None else nodes):
            stock = self._stock_of.get(name)
            if stock is not None:
                found.setdefault(self._with_room(name, stock, asked), []).append(name)
        return found

    def has_room_for(self, asked: PartAsked, name: str, uuids: Collection[str]) -> bool:
        """Returns whether this part of each of these cards of a node can be had."""
        self.refresh()
        stock = self._stock_of.get(name)
        if stock is None:
            return False
        return set(uuids) <= {self.nodes[name].uuids[index] for index in self._with_room(name, stock, asked).usable}

    def _with_room(self, name: str, stock: Stock, asked: PartAsked) -> Stock:
        node = self.nodes[name]
        cards = ((index, node.uuids[index]) for index in stock.free | self._shared.get(name, _NONE))
        with_room = [
            index for index, uuid in cards if has_room(node.cards[uuid], self._uses.get((uuid, name), _UNUSED), asked)
        ]
        return stock._replace(with_room=frozenset(with_room))

    def _find_shared(self, name: str, stock: Stock | None) -> None:
        """Notes the cards of a node that pods share.

        A pod that is pinned holds its cards as a whole until HAMi counts how much of them it takes.
        """
        node = self.nodes.get(name)
        held = {index: uuid for index, uuid in node.uuids.items() if index not in stock.free} if node and stock else {}
        shared = frozenset(index for index, uuid in held.items() if self._is_shared(uuid, name))
        if shared:
            self._shared[name] = shared
        else:
            self._shared.pop(name, None)

    def _is_shared(self, uuid: str, name: str) -> bool:
        """Returns whether a pod holds a part of a card of a node, and none holds the whole.

        Forged allocations may name one card for thousands of pods. No more are looked at than HAMi lets share it, and
        none after the first that holds the whole.
        """
        use = self._uses.get((uuid, name))
        if use is None or use.containers > self.nodes[name].cards[uuid].most_pods:
            return False
        holders = (self.pods[key] for key in self._holders.get(uuid, ()))
        return all(_has_part(pod, uuid) for pod in holders if self._holds(pod, uuid, name))

    def node_with(self, uuids: tuple[str, ...]) -> PlaceNode | None:
        """Returns the node that has all of these cards, free or not; None if there is none."""
        found = set.intersection(*(self._on.get(uuid, set()) for uuid in uuids)) if uuids else set()
        return self.nodes[min(found)] if found else None

    def free_of(self, name: str) -> Stock | None:
        """Returns the stock of a node; None if nothing is known of its cards."""
        self.refresh()
        return self._stock_of.get(name)

    def stocks_of(self, nodes: Collection[str]) -> dict[Stock, list[str]]:
        """Returns the stocks of these nodes, like ``stocks``. The caller calls ``refresh`` first."""
        found: dict[Stock, list[str]] = {}
        for name in sorted(nodes):
            stock = self._stock_of.get(name)
            if stock is not None:
                found.setdefault(stock, []).append(name)
        return found

    def refresh(self) -> None:
        """Brings the stocks up to date."""
        for name in self._stale:
            before, after = self._stock_of.get(name), self._stock(name)
            self._find_shared(name, after)
            if before == after:
                continue
            if before is not None:
                self._take_out(name, before)
            if after is not None:
                insort(self.stocks.setdefault(after, []), name)
                self._stock_of[name] = after
        self._stale.clear()

    def has_pods_below(self, priority: int) -> bool:
        """Returns whether any pod that is bound to a node has a lower priority."""
        return self._lowest is not None and self._lowest < priority

    def is_making_room(self, name: str, priority: int) -> bool:
        """Returns whether a pod of a lower priority is being deleted on a node."""
        return any(other < priority for other in self._leaving.get(name, {}).values())

    def known_nodes(self) -> Iterator[PlaceNode]:
        """Returns the nodes whose cards are known."""
        return (node for node in self.nodes.values() if node.uuids)

    def _stock(self, name: str) -> Stock | None:
        node = self.nodes.get(name)
        if node is None or node.build is None or not node.uuids:
            return None
        return Stock(node.build, frozenset(i for i, uuid in node.uuids.items() if not self.is_held(uuid, name)))

    def _take_out(self, name: str, stock: Stock) -> None:
        listed = self.stocks[stock]
        del listed[bisect_left(listed, name)]
        if not listed:
            del self.stocks[stock]
        del self._stock_of[name]

    def _count(self, key: str, pod: PodRecord) -> None:
        """Counts the resources that a pod takes of its node, or of the node that it is pinned to or nominated for."""
        pinned = "" if pod.node else getattr(self.node_with(pinned_cards(pod)), "name", "")
        name = pod.node or pinned or pod.nominated
        if name:
            node = self.nodes.get(name)
            if node is None:
                node = self.nodes[name] = PlaceNode(name, self.nodes)
            node.count(pod, 1)
            self._counted[key] = name
            if pod.is_bound:
                self._bound[pod.priority] += 1
                self._lowest = pod.priority if self._lowest is None else min(self._lowest, pod.priority)
            if pod.is_leaving:
                self._leaving.setdefault(name, {})[key] = pod.priority

    def _discount(self, key: str, pod: PodRecord) -> None:
        name = self._counted.pop(key, "")
        if name:
            self.gains += 1
            node = self.nodes[name]
            node.count(pod, -1)
            self._uncount(key, name, pod)
            if not node.all.pods and node.record is None and node.topology is None:
                del self.nodes[name]

    def _uncount(self, key: str, name: str, pod: PodRecord) -> None:
        """Forgets the priority of a pod that was counted on a node."""
        if pod.is_bound:
            self._bound[pod.priority] -= 1
            if not self._bound[pod.priority]:
                del self._bound[pod.priority]
                if pod.priority == self._lowest:
                    self._lowest = min(self._bound, default=None)
        if pod.is_leaving:
            del self._leaving[name][key]
            if not self._leaving[name]:
                del self._leaving[name]

    def _leave(self, key: str, pod: PodRecord) -> None:
        group = self.groups.get((pod.namespace, pod.group))
        if group:
            group.count(key, pod, -1)
            if not group:
                del self.groups[pod.namespace, pod.group]

    def _hold(self, key: str, pod: PodRecord) -> None:
        self._use(pod, 1)
        for uuid in cards_of(pod):
            holders = self._holders.setdefault(uuid, set())
            holders.add(key)
            self._stale |= self._on.get(uuid, set())

    def _let_go(self, key: str, pod: PodRecord) -> None:
        self._use(pod, -1)
        uuids = cards_of(pod)
        self.gains += bool(uuids)
        for uuid in uuids:
            holders = self._holders.get(uuid, set())
            holders.discard(key)
            if not holders:
                self._holders.pop(uuid, None)
            self._stale |= self._on.get(uuid, set())

    def _use(self, pod: PodRecord, sign: int) -> None:
        """Counts the parts of cards that a pod has."""
        keys = [(part.uuid, pod.held_on) for part in pod.parts]
        for key, part in zip(keys, pod.parts, strict=True):
            self._uses.setdefault(key, Use()).count(part, sign)
        for key in set(keys):
            if not self._uses[key].containers:
                del self._uses[key]


def _has_part(pod: PodRecord, uuid: str) -> bool:
    return any(part.uuid == uuid for part in pod.parts)


def cards_of(pod: PodRecord) -> frozenset[str]:
    """Returns the UUIDs of the cards that a pod holds: by HAMi's allocation, or by a pin of a pod without a node."""
    return frozenset((*pod.held, *pinned_cards(pod)))
