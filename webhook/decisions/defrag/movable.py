"""The pods that may be moved, and the reasons why others stay."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from webhook.decisions.place.card_request import Asked
from webhook.decisions.place.gate import gated
from webhook.decisions.place.pod import PodRecord, record_of
from webhook.objects.pod import MalformedPod, Metadata, Pod, PodSpec
from webhook.words import names
from webhook.words.catalogue import moving as said
from webhook.words.catalogue.entry import Entry
from webhook.words.choices import OnViolation, Placement
from webhook.words.timestamp import parse_timestamp

_CHOSEN = frozenset({*names.HAMI_CHOICE, names.USE_GPU_UUID, names.PLACED})
_RECREATING = frozenset({"ReplicaSet", "StatefulSet"})
"""The controllers that create an evicted pod anew and lose nothing by it. A Job counts an eviction as a failure."""


class Stays(StrEnum):
    """The reason why a pod is not moved, as a word."""

    NOT_RUNNING = "not-running"
    NOT_PLACED = "not-placed"
    NO_CONTROLLER = "no-controller"
    LOSES_WORK = "loses-work"
    SWITCHED_OFF = "switched-off"
    GROUP = "group"
    DENIES = "denies"
    PRIORITY = "priority"
    YOUNG = "young"
    BUDGET = "budget"
    NOT_CHOSEN = "not-chosen"

    @property
    def entry(self) -> Entry:
        """The sentence of the catalogue for the reason, a clause about the pod."""
        return _SAID[self]


_SAID = {
    Stays.NOT_RUNNING: said.STAYS_NOT_RUNNING,
    Stays.NOT_PLACED: said.STAYS_NOT_PLACED,
    Stays.NO_CONTROLLER: said.STAYS_NO_CONTROLLER,
    Stays.LOSES_WORK: said.STAYS_LOSES_WORK,
    Stays.SWITCHED_OFF: said.STAYS_SWITCHED_OFF,
    Stays.GROUP: said.STAYS_GROUP,
    Stays.DENIES: said.STAYS_DENIES,
    Stays.PRIORITY: said.STAYS_PRIORITY,
    Stays.YOUNG: said.STAYS_YOUNG,
    Stays.BUDGET: said.STAYS_BUDGET,
    Stays.NOT_CHOSEN: said.STAYS_NOT_CHOSEN,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """The limits of a plan."""

    evictions: int
    """The most pods that are moved."""
    priority: int
    """The greatest priority of a pod that is moved."""
    age: timedelta
    """The least age of a pod that is moved, so that no pod is moved again and again."""


@dataclass(frozen=True, slots=True, eq=False)
class RunningPod:
    """A pod with whole cards that runs, and the pod that its controller would create in its place."""

    record: PodRecord
    """The pod, as it stands in the world."""
    again: PodRecord
    """The pod that takes its place, as it waits for the planner."""
    pod: Pod

    @property
    def controller(self) -> str:
        """The controller as ``ReplicaSet/train-5d9``; empty: there is none."""
        owner = self.pod.controller
        return f"{owner.kind}/{owner.name}" if owner else ""

    @property
    def is_created_first(self) -> bool:
        """Whether the new pod is created while the old one still has its cards, as by a ReplicaSet.

        A StatefulSet waits until the old pod is gone: its pods have names that there can be only once.
        """
        return not self.controller.startswith("StatefulSet/")


def running_pod(pod: Pod, record: PodRecord) -> RunningPod | None:
    """Returns a pod that may be moved as far as its node and cards go; None if it has none or cannot be read.

    Args:
        pod: The pod.
        record: The same pod, as it stands in the world.
    """
    if not record.is_bound or not record.held:
        return None
    try:
        return RunningPod(record, record_of(_created_anew(pod)), pod)
    except MalformedPod:
        return None


def stays(running: RunningPod, asked: Asked, limits: Limits, now: datetime) -> Stays | None:
    """Returns why a pod is not moved whatever that would gain; None if it may be.

    Args:
        running: The pod.
        asked: Its request.
        limits: The limits of the plan.
        now: The time by the clock of the API server.
    """
    pod, options = running.pod, asked.options
    metadata, spec = pod.metadata or Metadata(), pod.spec or PodSpec()
    created = parse_timestamp(metadata.creation_timestamp)
    recreates = running.controller.partition("/")[0] in _RECREATING or options.move is True
    causes = {
        Stays.NOT_RUNNING: running.record.occupant is None or metadata.deletion_timestamp is not None,
        Stays.SWITCHED_OFF: options.move is False,
        Stays.NOT_PLACED: pod.labels.get(names.PLACEMENT) != Placement.PINNED,
        Stays.NO_CONTROLLER: not running.controller,
        Stays.LOSES_WORK: not recreates,
        Stays.GROUP: bool(running.record.group) or asked.group_size > 1,
        Stays.DENIES: options.on_violation is OnViolation.DENY,
        Stays.PRIORITY: (spec.priority or 0) > limits.priority,
        Stays.YOUNG: created is None or now - created < limits.age,
    }
    return next((cause for cause, applies in causes.items() if applies), None)


def _created_anew(pod: Pod) -> Pod:
    """Returns the pod that a controller creates in the place of another, as admission leaves it."""
    annotations = {key: text for key, text in pod.annotations.items() if key not in _CHOSEN}
    metadata = msgspec.structs.replace(pod.metadata or Metadata(), annotations=annotations, deletion_timestamp=None)
    return msgspec.structs.replace(pod, metadata=metadata, spec=gated(pod.spec or PodSpec()), status=None)
