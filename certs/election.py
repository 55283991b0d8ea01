"""One leader among the replicas, by a Lease: the decision, from values alone.

As in client-go, replicas do not compare clocks: a leader is gone when its Lease has not changed for a while by the
observer's own clock (client-go, tools/leaderelection). The client's ``kubernetes.leaderelection`` compares wall clocks,
takes the process's default configuration and cannot be stopped.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class ObservedLease:
    """What a candidate last saw of the Lease, and when by its own clock it saw it first."""

    resource_version: str
    since: float


def look(before: ObservedLease | None, lease: Mapping[str, Any], now: float) -> ObservedLease:
    """What is known after another look."""
    version = str((lease.get("metadata") or {}).get("resourceVersion", ""))
    return before if before is not None and before.resource_version == version else ObservedLease(version, now)


def may_lead(lease: Mapping[str, Any], observed: ObservedLease, identity: str, now: float, *, least: float) -> bool:
    """Whether to take or keep the Lease. It is ours only once it has been written.

    Args:
        lease: As it was read.
        observed: What is known of it, this look included.
        identity: Of this candidate.
        now: By its own clock, in seconds.
        least: How long to wait at least for a leader who is silent.
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
    """The ``spec`` of coordination.k8s.io/v1 that takes, keeps or (``held`` false) gives back the Lease.

    Times are for people; the decision does not read them.
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
    """A time as Leases hold it: k8s.io/apimachinery, pkg/apis/meta/v1/micro_time.go."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
