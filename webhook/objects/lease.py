"""The Leases of agents and of the planner: by its own an agent shows that what it published was true a moment ago.

It has the name of the ConfigMap, which is written only when something changed and so cannot show it.
"""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from webhook.words import names
from webhook.words.timestamp import parse_timestamp

LEAST_SECONDS = 600
MISSED_ROUNDS = 3
"""So many intervals may pass without a sign of life, at least, before the agent counts as gone."""


def lease_spec(node: str, *, at: datetime, interval: float) -> dict[str, Any]:
    """Returns the ``spec`` of the Lease, of coordination.k8s.io/v1.

    Args:
        node: Its full name; the API server sets no limit to a holder (kubernetes pkg/apis/coordination/validation).
        at: When the topology was true.
        interval: Seconds between two renewals.
    """
    return {
        "holderIdentity": node,
        "leaseDurationSeconds": max(LEAST_SECONDS, math.ceil(MISSED_ROUNDS * interval)),
        "renewTime": micro_time(at),
    }


def renewed_at(lease: Mapping[str, Any]) -> datetime | None:
    """When the topology was last known to be true, in UTC and by the clock of the node.

    None if the Lease does not say it, for example after it was edited.
    """
    spec = lease.get("spec")
    text = spec.get("renewTime") if isinstance(spec, Mapping) else None
    return parse_timestamp(text) if isinstance(text, str) else None


def lasts(lease: Mapping[str, Any]) -> float:
    """Returns seconds for which the agent vouches for what it published; 0 if the Lease does not say it."""
    spec = lease.get("spec")
    seconds = spec.get("leaseDurationSeconds") if isinstance(spec, Mapping) else None
    return float(max(0, seconds)) if isinstance(seconds, int) else 0.0


def is_led(holder: object) -> bool:
    """Returns whether a planner holds the planner's Lease with this ``holderIdentity``: it may be given back, or paused."""
    return isinstance(holder, str) and holder not in ("", names.PLANNER_PAUSED)


def micro_time(at: datetime) -> str:
    """Returns a time as Events and Leases hold it: k8s.io/apimachinery, pkg/apis/meta/v1/micro_time.go."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
