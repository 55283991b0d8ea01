"""How far a pod is on its way to its cards, as its status and the planner's Lease say it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from webhook.model import names
from webhook.model.lease import is_led, lasts, renewed_at
from webhook.model.nesting import decode_answer
from webhook.model.pod import Fields, MalformedPod
from webhook.model.timestamp import parse_timestamp
from webhook.printable import fitted

CLOCKS_DIFFER = 60.0
"""Seconds by which the clock here and that of the planner's node may differ: a planner renews its Lease every few
seconds, and must not be taken for gone because a laptop is ahead."""
_SCHEDULED = "PodScheduled"


class Condition(Fields):
    """A condition of a pod's status."""

    type: str = ""
    status: str | None = None
    reason: str | None = None
    message: str | None = None


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """What the status of a pod says."""

    placed: Condition | None = None
    """``gpu.topology/Placed``, of the planner."""
    scheduled: Condition | None = None
    """``PodScheduled``, of the scheduler."""
    started: datetime | None = None
    """When the kubelet took on the pod that runs, by the clock of its node; ``None`` while it does not run."""


class PlannerSigns(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a planner is alive."""

    is_alive: bool | None = None
    """``None``: not known."""
    said: str = ""
    """What tells it, in a clause."""
    problem: str = ""
    """Why it is not known; empty where nothing could be asked."""


NO_SIGNS = PlannerSigns()
"""Nothing could be asked."""


class _Status(Fields):
    phase: str | None = None
    start_time: str | None = None
    conditions: list[Condition] | None = None


class _Pod(Fields):
    status: _Status | None = None


_POD = msgspec.json.Decoder(_Pod)


def standing_of(pod: bytes) -> Standing:
    """What the status of a pod says.

    Args:
        pod: As JSON.

    Raises:
        MalformedPod: a field has another type than in a pod.
    """
    try:
        status = decode_answer(_POD, pod).status or _Status()
    except msgspec.DecodeError as error:
        raise MalformedPod(str(error)) from None
    found = {condition.type: condition for condition in status.conditions or ()}
    return Standing(
        placed=found.get(names.PLACED_CONDITION),
        scheduled=found.get(_SCHEDULED),
        started=parse_timestamp(status.start_time) if status.phase == "Running" else None,
    )


def planner_signs(lease: Mapping[str, Any] | None, where: str, *, at: datetime) -> PlannerSigns:
    """Whether a planner is alive, by its Lease.

    Args:
        lease: As the API server has it; ``None``: there is none.
        where: Its namespace and name.
        at: Now.
    """
    if lease is None:
        return PlannerSigns(is_alive=False, said=f"there is no Lease {where}")
    spec = lease.get("spec")
    holder = spec.get("holderIdentity") if isinstance(spec, Mapping) else None
    if not isinstance(holder, str) or not is_led(holder):
        pauses = holder == names.PLANNER_PAUSED
        said = f"Lease {where} pauses the planner" if pauses else f"Lease {where} names no holder"
        return PlannerSigns(is_alive=False, said=said)
    renewed = renewed_at(lease)
    if renewed is None:
        return PlannerSigns(is_alive=False, said=f"Lease {where} does not say when it was renewed")
    silent = (at - renewed).total_seconds()
    if silent > lasts(lease) + CLOCKS_DIFFER:
        return PlannerSigns(is_alive=False, said=f"Lease {where} was renewed {duration(silent)} ago")
    return PlannerSigns(is_alive=True, said=f"Lease {where} is held by {fitted(holder)}")


def duration(seconds: float) -> str:
    """``95 s``, ``3 minutes``, ``5 hours``, ``3 days``; what clocks make negative is 0."""
    whole = max(0, round(seconds))
    for size, noun in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if whole >= 2 * size:
            return f"{whole // size} {noun}"
    return f"{whole} s"
