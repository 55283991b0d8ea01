"""The pods of a group that are not there yet, as far as the planner knows what they will ask for.

The pods of a StatefulSet are equal, so those that come ask for what those ask for that are there. The workers of a
LeaderWorkerSet come from a template of their own, which only that object has. Its leaders are pods of a StatefulSet
that it owns, and its workers pods of a StatefulSet that the leader owns. Of other pods nothing is known.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import msgspec

from webhook.decisions.place.choice import LOOK
from webhook.decisions.place.gate import gated
from webhook.decisions.place.group_choice import Member
from webhook.decisions.place.placed_annotation import MOST_CARDS
from webhook.decisions.place.pod import PodRecord, record_of
from webhook.decisions.place.round import NotPlaceable, NotReadYet, Scene
from webhook.decisions.place.waiting_group import WaitingGroup
from webhook.objects.pod import MalformedPod, Metadata, Owner, Pod, PodSpec, decode_stored_pod
from webhook.objects.workload import Workload, WorkloadKind, WorkloadRef
from webhook.words import names

_STATEFUL_SET, _LEADER_WORKER_SET = ("StatefulSet", "apps/"), ("LeaderWorkerSet", "leaderworkerset.x-k8s.io/")
_REVISION = "controller-revision-hash"
"""The label by which a pod of a StatefulSet names its revision: k8s.io/api apps/v1, ControllerRevisionHashLabelKey."""
_LEADER = "0"
TEMPLATE_WORK = 2 * LOOK
"""The visits of a node that take as long as the reading of a template: up to 0.8 ms with some hundred containers."""


@dataclass(frozen=True, slots=True)
class AbsentPods:
    """The pods of a group that are not there."""

    count: int
    """The number of all of them."""
    unknown: int
    """The number of those of which nothing says what they will ask for."""
    come_later: bool
    """Whether all of them are created only when a pod that is there runs, so that it is no use to wait for them."""
    members: tuple[Member, ...]
    """Stand-ins for those that will wait for cards of the planner, as many as cards can be held for."""


NO_PODS = AbsentPods(0, 0, False, ())


@dataclass(frozen=True, slots=True)
class _Source:
    """The pods that are still to come from one object."""

    count: int
    is_ordered: bool
    like: Member | None
    """A pod with the same request; None: the planner will choose no cards for them."""


def absent_pods(scene: Scene, group: WaitingGroup) -> AbsentPods:
    """Returns what is known of the pods of a group that are not there. It asks for the objects that would say more."""
    missing = max(0, group.size - group.present)
    left, ordered = missing, 0
    members: list[Member] = []
    for source in _sources(scene, group) if missing else ():
        count = min(left, source.count)
        left -= count
        ordered += count if source.is_ordered else 0
        members += islice(_stand_ins(group.members[0].pod, source, len(members)), count)
        if not left:
            break
    return AbsentPods(missing, left, bool(missing) and ordered == missing, tuple(_within_limit(members)))


def _sources(scene: Scene, group: WaitingGroup) -> Iterator[_Source]:
    """Yields the objects from which pods of the group come, each of them once."""
    makers = {member.pod.uid: _maker(member.pod) for member in group.members}
    held_back = [maker for pod in group.held_back if (maker := _maker(pod))]
    present = Counter(maker.uid for maker in (*makers.values(), *held_back) if maker)
    workers = sum(map(_is_worker, (*(member.pod for member in group.members), *group.held_back)))
    done = set()
    for member in group.members:
        maker = makers[member.pod.uid]
        if maker is None or maker.uid in done:
            continue
        done.add(maker.uid)
        try:
            yield from _from(scene, member, maker, present=present[maker.uid], workers=workers)
        except NotReadYet:
            continue


def _from(scene: Scene, member: Member, maker: Owner, *, present: int, workers: int) -> Iterator[_Source]:
    """Yields the pods that still come from the maker of a member.

    Raises:
        NotReadYet: an object that says it is not read yet.
    """
    pod = member.pod
    made = scene.workload(_ref(WorkloadKind.STATEFUL_SET, pod, maker, _label(pod, _REVISION)))
    if _is_leader(pod):
        found = _leader_worker_set(scene, pod, made)
        if found and found.template:
            yield _Source(max(0, found.pods - 1 - workers), found.is_ordered, _worker(scene, member, found.template))
    elif made is None:
        yield _Source(MOST_CARDS, False, member)
    else:
        yield _Source(max(0, made.pods - present), made.is_ordered, member)


def _leader_worker_set(scene: Scene, leader: PodRecord, made: Workload | None) -> Workload | None:
    """Returns the LeaderWorkerSet of a leader; None if it cannot be read, or has other templates by now."""
    owner, revision = made.owner if made else None, _label(leader, names.LWS_REVISION)
    if made is None or owner is None or not _is(owner, *_LEADER_WORKER_SET) or made.revision != revision:
        return None
    return scene.workload(_ref(WorkloadKind.LEADER_WORKER_SET, leader, owner, revision))


def _worker(scene: Scene, leader: Member, template: bytes) -> Member | None:
    """Returns a pod of a template as a member of the group; None if the planner will choose no cards for it."""
    scene.chooser.work += TEMPLATE_WORK
    try:
        pod = decode_stored_pod(template)
        record = record_of(_waiting(pod, leader.pod))
        asked = scene.asked(record, is_admitted=False)
    except (msgspec.DecodeError, MalformedPod, NotPlaceable):
        return None
    return Member(record, asked)


def _waiting(template: Pod, leader: PodRecord) -> Pod:
    """Returns the pod that a template makes, behind the gate, with the labels by which the leader is in its group."""
    metadata, spec = template.metadata or Metadata(), template.spec or PodSpec()
    label, _, value = leader.group.partition("=")
    return Pod(
        metadata=Metadata(
            namespace=leader.namespace,
            name=leader.name,
            uid=leader.uid,
            labels={**(metadata.labels or {}), label: value},
            annotations=metadata.annotations,
        ),
        spec=gated(spec),
    )


def _stand_ins(first: PodRecord, source: _Source, begin: int) -> Iterator[Member]:
    """Yields pods that come from an object, under names that belong to no pod. Their cards stand on the first pod."""
    like = source.like
    if like is None:
        return
    for number in range(begin, begin + MOST_CARDS):
        pod = msgspec.structs.replace(like.pod, name=f"{first.name}/later-{number}", group=first.group)
        yield Member(pod, like.asked, holder=first.key)


def _within_limit(members: list[Member]) -> Iterator[Member]:
    """Yields the first members, as far as cards may be held for them."""
    cards = 0
    for member in members:
        cards += member.asked.cards.count
        if cards > MOST_CARDS:
            return
        yield member


def _maker(pod: PodRecord) -> Owner | None:
    """Returns the StatefulSet that made a pod; None if none did."""
    try:
        found = pod.unbound.pod.controller if pod.unbound else None
    except MalformedPod:
        return None
    return found if found and _is(found, *_STATEFUL_SET) else None


def _is(owner: Owner, kind: str, group: str) -> bool:
    return owner.kind == kind and owner.api_version.startswith(group)


def _ref(kind: WorkloadKind, pod: PodRecord, owner: Owner, revision: str) -> WorkloadRef:
    return WorkloadRef(kind, pod.namespace, owner.name, owner.uid, revision)


def _label(pod: PodRecord, key: str) -> str:
    return pod.unbound.pod.labels.get(key, "") if pod.unbound else ""


def _is_leader(pod: PodRecord) -> bool:
    return _label(pod, names.LWS_WORKER_INDEX) == _LEADER


def _is_worker(pod: PodRecord) -> bool:
    return _label(pod, names.LWS_WORKER_INDEX) not in ("", _LEADER)
