"""The Leases of agents and of the planner.

By its Lease an agent shows that its published topology was true a moment ago. The Lease has the name of the ConfigMap.
The ConfigMap is written only when something changed, and so cannot show it.
"""

import math
from collections.abc import Mapping
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


def micro_time(at: datetime) -> str:
    """Returns a time in the form of Events and Leases: k8s.io/apimachinery, pkg/apis/meta/v1/micro_time.go."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
