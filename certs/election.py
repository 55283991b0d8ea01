"""The election of one leader among the replicas by a Lease, as a decision from values alone.

As in client-go (tools/leaderelection), replicas do not compare clocks. A leader is gone when its Lease has not changed
for a while by the observer's own clock. ``kubernetes.leaderelection`` of the official client is not used: it compares
wall clocks, takes the process's default configuration and cannot be stopped.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class ObservedLease:
    """The Lease as a candidate last saw it, and the time of the first sight by the candidate's own clock."""

    resource_version: str
    since: float


def look(before: ObservedLease | None, lease: Mapping[str, Any], now: float) -> ObservedLease:
    """Return the observation after another look at the Lease."""
    version = str((lease.get("metadata") or {}).get("resourceVersion", ""))
    return before if before is not None and before.resource_version == version else ObservedLease(version, now)


def may_lead(lease: Mapping[str, Any], observed: ObservedLease, identity: str, now: float, *, least: float) -> bool:
    """Return whether to take or keep the Lease. This candidate leads only once the Lease has been written.

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


def lease_spec(
    lease: Mapping[str, Any] | None, identity: str, at: datetime, *, duration: float, held: bool = True
) -> dict[str, Any]:
    """Return the ``spec`` (coordination.k8s.io/v1) that takes, keeps or, with ``held`` false, gives back the Lease.

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
    """Format a time as Leases hold it: k8s.io/apimachinery, pkg/apis/meta/v1/micro_time.go."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
