"""The choice of cards for pods that work together: for all of them or none, on one node or on nodes near each other."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf

from webhook.decisions.configuration import NetworkLevel
from webhook.decisions.place.card_request import Asked, CardsAsked
from webhook.decisions.place.choice import Chosen, grade_of, is_satisfying
from webhook.decisions.place.group import NETWORK_LABELS
from webhook.decisions.place.pins import pin_of
from webhook.decisions.place.pod import PodRecord
from webhook.decisions.place.ranking import wanted_of
from webhook.decisions.place.round import Round, Scene
from webhook.hardware.topology.sets import models_of, quality_of
from webhook.words import names
from webhook.words.choices import NodePolicy


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """A pod of a group."""

    pod: PodRecord
    asked: Asked


Placement = dict[str, Chosen]
"""The chosen cards, by the keys of the pods."""


class GroupChooser:
    """Chooses cards for the pods of one group, and leaves the chosen cards held.

    Args:
        scene: The world, the memory and the configuration.
        this: The round.
        members: Pods that need cards, at least one.
    """

    def __init__(self, scene: Scene, this: Round, members: Sequence[Member]) -> None:
        self._scene, self._this = scene, this
        self._members = sorted(members, key=lambda member: (-member.asked.cards.count, member.pod.key))
        self._first = self._members[0]
        self._count = sum(member.asked.cards.count for member in members)
        self._options = self._first.asked.options
        first = self._first.pod
        pinned = {pin.node for mate in scene.world.mates(first) if (pin := pin_of(mate))}
        self._shared = next((label for member in members if (label := _exclusive(member.pod))), "")
        """The label of nodes that has to have one value for all pods; empty: none has to."""
        self._present = scene.world.nodes_of_mates(first) | pinned
        """The nodes on which pods of the group run already, or have cards."""

    def choose(self) -> Placement | None:
        """Returns cards for all members, near each other; None if there are not enough.

        If all pods have to be on one node, only single nodes are tried. Otherwise single nodes come first, then each
        level of the network, and in the end the whole cluster.
        """
        if self._first.asked.on_one_node:
            return self._best_of([frozenset({name}) for name in self._single_nodes()])
        for domains in self._levels():
            found = self._best_of(self._split(domains) if self._shared else domains)
            if found:
                return found
        return None

    def _single_nodes(self) -> Iterator[str]:
        """Yields the nodes that have enough free cards for all members."""
        for node in self._scene.world.known_nodes():
            if self._free(node.name) >= self._count and self._present <= {node.name}:
                yield node.name

    def _levels(self) -> Iterator[list[frozenset[str]]]:
        """Yields for each level the sets of nodes that are near each other, because they have one value of a label."""
        nodes = [node for node in self._scene.world.known_nodes() if node.record]
        levels = {level.label: level for level in self._scene.settings.network}
        least = self._options.min_network_bandwidth or 0.0
        yield [frozenset({node.name}) for node in nodes if self._present <= {node.name}]
        for label in levels or NETWORK_LABELS:
            if not _carries(levels.get(label), least):
                continue
            domains: dict[str, set[str]] = {}
            for node in nodes:
                value = node.record.labels.get(label) if node.record else None
                if value:
                    domains.setdefault(value, set()).add(node.name)
            yield [frozenset(names) for names in domains.values() if self._present <= names]
        if not levels or not least:
            yield [frozenset(node.name for node in nodes)]

    def _split(self, domains: Sequence[frozenset[str]]) -> list[frozenset[str]]:
        """Returns the parts of these sets of nodes with one value of the label that all nodes have to share."""
        parts: dict[tuple[int, str], set[str]] = {}
        for number, domain in enumerate(domains):
            for name in domain:
                record = self._scene.world.nodes[name].record
                if record and (value := record.labels.get(self._shared)):
                    parts.setdefault((number, value), set()).add(name)
        return [frozenset(part) for part in parts.values() if self._present <= part]

    def _best_of(self, domains: Sequence[frozenset[str]]) -> Placement | None:
        """Returns the best placement within one of these sets of nodes, and holds its cards."""
        best: tuple[tuple[float, ...], Placement] | None = None
        for domain in sorted(domains, key=_first_name):
            if sum(self._free(name) for name in domain) < self._count:
                continue
            for found in self._placements(domain):
                rank = self._rank(found)
                best = (rank, found) if best is None or rank > best[0] else best
        if best is None:
            return None
        self._hold(best[1])
        return best[1]

    def _placements(self, domain: frozenset[str]) -> Iterator[Placement]:
        """Yields a placement within a set of nodes; if it mixes models of cards, also one for each model."""
        mixed = self._within(domain, self._members)
        self._drop()
        if not mixed:
            return
        yield mixed
        if len(_models(mixed)) < 2:
            return
        models = self._models_of(domain)
        for model in sorted(models):
            found = self._within(domain, _of_model(self._members, model, models))
            self._drop()
            if found:
                yield found

    def _models_of(self, domain: frozenset[str]) -> set[str]:
        builds = (self._scene.world.nodes[name].build for name in domain)
        return {gpu.name for build in builds if build for gpu in build.topology.gpus if gpu.name}

    def _within(self, domain: frozenset[str], members: Sequence[Member]) -> Placement | None:
        """Returns cards within a set of nodes, chosen for one member after the other; None if a member gets none."""
        found: Placement = {}
        if len(members) < len(self._members):
            return None
        for member in members:
            chosen = self._next(member, domain, found)
            if chosen is None or (member.asked.waits and not is_satisfying(chosen)):
                return None
            found[member.pod.key] = chosen
            self._scene.intents.hold(member.pod, chosen.node, chosen.uuids)
        return found if self._is_allowed(found) else None

    def _next(self, member: Member, domain: frozenset[str], found: Placement) -> Chosen | None:
        """Returns the best cards for one more member.

        Of equally good cards those win whose node the group uses already; with the policy ``spread``, those whose
        node it does not use.
        """
        used = self._present | {chosen.node.name for chosen in found.values()}
        most = self._options.max_nodes
        is_full = most is not None and len(used) >= most
        anywhere = self._best(member, domain & used if is_full else domain)
        preferred = domain - used if self._options.node_policy is NodePolicy.SPREAD else domain & used
        if anywhere is None or is_full or not preferred:
            return anywhere
        kept = self._best(member, preferred)
        cards = member.asked.cards
        return kept if kept and _wanted(kept, cards) >= _wanted(anywhere, cards) else anywhere

    def _best(self, member: Member, only: Collection[str]) -> Chosen | None:
        return self._scene.chooser.best(member.pod, member.asked.cards, closed=self._this.closed, only=only)

    def _is_allowed(self, found: Placement) -> bool:
        """Returns whether each node gives enough GPUs, and the network between the nodes is fast enough."""
        given: dict[str, int] = {}
        for chosen in found.values():
            given[chosen.node.name] = given.get(chosen.node.name, 0) + len(chosen.choice.gpus)
        if min(given.values()) < self._options.min_gpus_per_node:
            return False
        least = self._options.min_network_bandwidth
        if least is None or len(given) == 1 or self._scene.settings.network:
            return True
        return all(_network(chosen) >= least for chosen in found.values())

    def _rank(self, found: Placement) -> tuple[float, ...]:
        """Returns the rank of a placement, in the order in which ``topology plan`` compares placements.

        This is its worst set, the number of its nodes, the mean pair of its worst set and whether its cards are of one
        model; then the cards of its nodes that stay free.
        """
        worst = min((_wanted(found[member.pod.key], member.asked.cards) for member in self._members), default=(0.0,))
        nodes = {chosen.node.name for chosen in found.values()}
        sign = -1 if self._options.node_policy is not NodePolicy.SPREAD else 1
        mean = min((_mean(found[member.pod.key], member) for member in self._members), default=0.0)
        has_one_model = len(_models(found)) <= 1
        return (*worst, sign * len(nodes), mean, has_one_model, -sum(self._free(name) for name in nodes))

    def _free(self, name: str) -> int:
        stock = self._scene.world.free_of(name)
        return len(stock.free) if stock else 0

    def _hold(self, found: Placement) -> None:
        for member in self._members:
            chosen = found[member.pod.key]
            self._scene.intents.hold(member.pod, chosen.node, chosen.uuids)

    def _drop(self) -> None:
        for member in self._members:
            self._scene.intents.drop(member.pod.key)


def _first_name(domain: frozenset[str]) -> str:
    return min(domain, default="")


def _wanted(chosen: Chosen, cards: CardsAsked) -> tuple[float, ...]:
    return wanted_of(grade_of(chosen, cards), cards)


def _exclusive(pod: PodRecord) -> str:
    """Returns the label of nodes by which a LeaderWorkerSet gives each of its groups nodes of its own; else empty."""
    return pod.unbound.pod.annotations.get(names.LWS_EXCLUSIVE, "") if pod.unbound else ""


def _models(found: Placement) -> frozenset[str]:
    """Returns the models of all cards of a placement, without those that are not known."""
    every = (models_of(each.node.build.topology, each.choice.gpus) for each in found.values() if each.node.build)
    return frozenset[str]().union(*every)


def _of_model(members: Sequence[Member], model: str, models: Collection[str]) -> list[Member]:
    """Returns the members with requests for cards of one model; without those that do not accept it."""
    narrowed = ((member, member.asked.cards.of_model(model, models)) for member in members)
    return [replace(member, asked=replace(member.asked, cards=cards)) for member, cards in narrowed if cards]


def _mean(chosen: Chosen, member: Member) -> float:
    """Returns the mean bandwidth of the pairs of a set, as far as it matters to the pod."""
    return quality_of(chosen.choice.chosen).mean if member.asked.cards.linked else inf


def _carries(level: NetworkLevel | None, least: float) -> bool:
    return level is None or level.bandwidth >= least


def _network(chosen: Chosen) -> float:
    """Returns the GB/s per direction between the cards and other nodes, by their NICs."""
    return chosen.node.build.network(chosen.choice) if chosen.node.build else 0.0
