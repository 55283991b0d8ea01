"""The Leases of agents, and those by which one of several replicas leads.

By its Lease an agent shows that its published topology was true a moment ago. The Lease has the name of the ConfigMap.
The ConfigMap is written only when something changed, and so cannot show it.

As in client-go (tools/leaderelection), replicas do not compare clocks. A leader is gone when its Lease has not changed
for a while by the observer's own clock. ``kubernetes.leaderelection`` of the official client is not used: it compares
wall clocks, takes the process's default configuration and cannot be stopped.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from webhook.words import names
from webhook.words.timestamp import parse_timestamp

LEAST_SECONDS = 600
MISSED_ROUNDS = 3
"""The least number of intervals without a sign of life before the agent counts as gone."""


def lease_spec(node: str, *, at: datetime, interval: float) -> dict[str, Any]:
    """Returns the ``spec`` of the Lease, of coordination.k8s.io/v1.

    Args:
        node: The full name of the node. The API server sets no limit to a holder (kubernetes
            pkg/apis/coordination/validation).
        at: The time when the topology was true.
        interval: Seconds between two renewals.
    """
    return {
        "holderIdentity": node,
        "leaseDurationSeconds": max(LEAST_SECONDS, math.ceil(MISSED_ROUNDS * interval)),
        "renewTime": micro_time(at),
    }


def renewed_at(lease: Mapping[str, Any]) -> datetime | None:
    """Returns the time when the topology was last known to be true, in UTC and by the clock of the node.

    None if the Lease does not say it, for example after it was edited.
    """
    spec = lease.get("spec")
    text = spec.get("renewTime") if isinstance(spec, Mapping) else None
    return parse_timestamp(text) if isinstance(text, str) else None


def lasts(lease: Mapping[str, Any]) -> float:
    """Returns the seconds for which the agent vouches for its published topology; 0 if the Lease does not say it."""
    spec = lease.get("spec")
    seconds = spec.get("leaseDurationSeconds") if isinstance(spec, Mapping) else None
    return float(max(0, seconds)) if isinstance(seconds, int) else 0.0


def is_led(holder: object) -> bool:
    """Returns whether this ``holderIdentity`` of the planner's Lease is a planner: it may be given back, or paused."""
    return isinstance(holder, str) and holder not in ("", names.PLANNER_PAUSED)


@dataclass(frozen=True, slots=True)
class ObservedLease:
    """The Lease as a candidate last saw it, and the time of the first sight by the candidate's own clock."""

    resource_version: str
    since: float


def look(before: ObservedLease | None, lease: Mapping[str, Any], now: float) -> ObservedLease:
    """Returns the observation after another look at the Lease."""
    version = str((lease.get("metadata") or {}).get("resourceVersion", ""))
    return before if before is not None and before.resource_version == version else ObservedLease(version, now)


def may_lead(lease: Mapping[str, Any], observed: ObservedLease, identity: str, now: float, *, least: float) -> bool:
    """Returns whether to take or keep the Lease. This candidate leads only once the Lease has been written.

    Args:
        lease: The Lease as read.
        observed: The observation of the Lease, including this look.
        identity: The identity of this candidate.
        now: The candidate's own clock, in seconds.
        least: The shortest wait for a silent leader, in seconds.
    """
    spec = lease.get("spec") or {}
    holder, promised = spec.get("holderIdentity"), spec.get("leaseDurationSeconds")
    if not holder or holder == identity:
        return True
    patience = max(least, promised) if isinstance(promised, int) else least
    return now - observed.since >= patience


def leader_spec(
    lease: Mapping[str, Any] | None, identity: str, at: datetime, *, duration: float, held: bool = True
) -> dict[str, Any]:
    """Returns the ``spec`` (coordination.k8s.io/v1) that takes, keeps or, with ``held`` false, gives back the Lease.

    The times are for people; :func:`may_lead` does not read them.
    """
    before: Mapping[str, Any] = (lease or {}).get("spec") or {}
    changes = before.get("holderIdentity") != identity
    transitions = before.get("leaseTransitions") or 0
    return {
        "holderIdentity": identity if held else "",
        "leaseDurationSeconds": math.ceil(duration) if held else 1,
        "acquireTime": micro_time(at) if changes else before.get("acquireTime"),
        "renewTime": micro_time(at),
        "leaseTransitions": transitions + 1 if changes and lease is not None else transitions,
    }


def micro_time(at: datetime) -> str:
    """Returns a time in the form of Events and Leases: k8s.io/apimachinery, pkg/apis/meta/v1/micro_time.go."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
