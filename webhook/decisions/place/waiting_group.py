"""The pods of one group at one moment, as far as they decide whether its pins are made, kept or taken back.

All of it stands on the pods. So a new leader sees what the leader before it has done, and goes on from there.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from webhook.decisions.place.group_choice import Member
from webhook.decisions.place.pins import pin_of
from webhook.decisions.place.placed_annotation import Placed
from webhook.decisions.place.pod import PodRecord
from webhook.decisions.place.round import NotPlaceable, Scene
from webhook.decisions.place.world import World
from webhook.objects.pod import MalformedPod
from webhook.words import names

FIRST_SECONDS = 10.0
"""Seconds for which the first pod of a group waits alone. Controllers that create the others beside it take a moment;
other controllers create them when it runs, so that it would wait in vain."""
_FIRST = "0"


@dataclass(frozen=True, slots=True)
class WaitingGroup:
    """The pods of a group that wait behind the planner's gate, and what is known of the others."""

    name: str
    """The value of the label of the group."""
    size: int
    """The number of pods that get their cards together, as the pods say."""
    present: int
    """The number of pods of the group that are there, behind the gate or not."""
    has_begun: bool
    """Whether a pod of the group is past the gate. From then on the others go forward, and nothing is taken back."""
    members: Sequence[Member]
    """The pods that wait behind the planner's gate alone, the oldest first."""
    held_back: Sequence[PodRecord]
    """The pods that wait behind the gates of other programs too."""
    is_unsettled: bool
    """Whether the state of a pod that waits is not known for certain: it is being written, or about to be released."""

    @property
    def pinned(self) -> list[tuple[Member, Placed]]:
        """The members that hold cards, with these, the oldest first."""
        return [(member, pin) for member in self.members if (pin := pin_of(member.pod))]

    @property
    def unpinned(self) -> list[Member]:
        """The members that hold no cards."""
        return [member for member in self.members if pin_of(member.pod) is None]

    @property
    def absent(self) -> int:
        """The number of pods of the group that are not there."""
        return max(0, self.size - self.present)

    @property
    def is_first(self) -> bool:
        """Whether all pods that are there are such after which others may come, so that it is no use to wait long.

        These are leaders of a LeaderWorkerSet, and the first pods of StatefulSets.
        """
        return self.present == len(self.members) and all(_comes_first(member.pod) for member in self.members)

    @property
    def waits(self) -> bool:
        """Whether a pod of the group waits rather than run with cards that do not meet its requirements."""
        return any(member.asked.waits for member in self.members)

    @property
    def wait(self) -> float:
        """The longest time in seconds for which a pod of the group waits for better cards."""
        return max(member.asked.wait for member in self.members)


def look_at_group(scene: Scene, first: Member, busy: Collection[str]) -> WaitingGroup:
    """Returns the group of a pod.

    Pods that wait and name no ``gpu.topology/group-size`` are placed by themselves: they count as present only.

    Args:
        scene: The world, the memory and the configuration.
        first: The pod, which waits behind the planner's gate alone, and names a size.
        busy: The keys of the pods whose last write is not known to be done.
    """
    members, held_back, is_unsettled = [first], [], first.pod.key in busy
    mates = scene.world.mates(first.pod)
    for mate in mates:
        if mate.unbound is None or not mate.unbound.is_gated:
            continue
        try:
            asked = scene.asked(mate)
        except NotPlaceable:
            is_unsettled = True
            continue
        if asked.group_size == 1:
            continue
        is_unsettled |= mate.key in busy
        if mate.unbound.other_gates:
            held_back.append(mate)
        else:
            members.append(Member(mate, asked))
    return WaitingGroup(
        name=first.pod.group.partition("=")[2],
        size=max(member.asked.group_size for member in members),
        present=len(mates) + 1,
        has_begun=any(map(_is_past_the_gate, mates)),
        members=sorted(members, key=_age),
        held_back=held_back,
        is_unsettled=is_unsettled,
    )


def broken_by(group: WaitingGroup, world: World) -> str:
    """Returns why the pins of a group cannot stay, in a clause; empty if each pod has cards that it can get.

    Args:
        group: A group of which some pod is pinned, and none is past the gate.
        world: The pods and nodes of the cluster.
    """
    without = [*(member.pod for member in group.unpinned), *group.held_back]
    if without:
        return f"pod {without[0].name} has none"
    pinned = group.pinned
    if {(pin.together, pin.at) for _, pin in pinned} != {(len(pinned), pinned[0][1].at)}:
        return "they were chosen for other pods than those that are there now"
    lost = next((member.pod.name for member, pin in pinned if not _is_kept(member, pin, world)), "")
    return f"those of pod {lost} are lost" if lost else ""


def _is_kept(member: Member, pin: Placed, world: World) -> bool:
    """Returns whether the pod can get the cards: its node has them and takes the pod, and no other pod holds one."""
    pod, node = member.pod, world.nodes.get(pin.node)
    if node is None or pod.unbound is None or node.refusal(pod.unbound.needs):
        return False
    if not {*pin.cards} <= {*node.uuids.values()}:
        return False
    is_enough = len(pin.cards) == member.asked.cards.count
    return is_enough and not any(world.is_held(uuid, node.name, but=pod.key) for uuid in pin.cards)


def _comes_first(pod: PodRecord) -> bool:
    """Returns whether the controller of a pod may create the others of its group only when the pod runs.

    With ``LeaderReady`` and with exclusive placement that is so for the leader of a LeaderWorkerSet, and with
    ``OrderedReady`` for the first pod of a StatefulSet.
    """
    if pod.unbound is None:
        return False
    found = pod.unbound.pod
    if index := found.labels.get(names.LWS_WORKER_INDEX):
        return index == _FIRST
    try:
        maker = found.controller
    except MalformedPod:
        return False
    return maker is not None and maker.kind == "StatefulSet" and pod.name == f"{maker.name}-{_FIRST}"


def _is_past_the_gate(mate: PodRecord) -> bool:
    """Returns whether a pod of the group has cards, or may get some without the planner.

    Pods without cards of HAMi, such as a leader that needs none, do not count.
    """
    if mate.is_bound:
        return bool(mate.held)
    return mate.unbound is not None and not mate.unbound.is_gated


def _age(member: Member) -> tuple[str, str]:
    unbound = member.pod.unbound
    return (unbound.created if unbound else "", member.pod.uid)
