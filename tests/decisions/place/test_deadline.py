"""How long a pod waits for a planner that does not come."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from tests.judge import TEAM_A, policy
from tests.pods import pod
from webhook.decisions.configuration import AdmitPolicy
from webhook.decisions.place.deadline import is_overdue
from webhook.objects.pod import Namespace, Pod

CREATED = datetime(2026, 1, 15, 9, 30, tzinfo=UTC)
INJECTED = "gpu.topology/injected"
DENY, WARN = {"gpu.topology/on-violation": "deny"}, {"gpu.topology/on-violation": "warn"}


def overdue(
    seconds: float = 300,
    *,
    annotations: dict[str, str] | None = None,
    namespace: Namespace = TEAM_A,
    rules: AdmitPolicy | None = None,
    created: str | None = "2026-01-15T09:30:00Z",
    **status: Any,
) -> bool:
    """Whether such a pod has waited long enough, so many seconds after it was created."""
    manifest = pod(annotations={INJECTED: "1.0.0/exclusive", **(annotations or {})})
    manifest["metadata"] |= {"creationTimestamp": created, **status.pop("metadata", {})}
    found = msgspec.json.decode(msgspec.json.encode({**manifest, "status": status}), type=Pod)
    at = CREATED + timedelta(seconds=seconds)
    return is_overdue(found, namespace, (rules or policy()).defaults, at=at, seconds=300)


@pytest.mark.parametrize(("seconds", "found"), [(299, False), (300, True), (86_400, True), (-5, False)])
def test_it_waits_for_so_long(seconds: float, found: bool) -> None:
    assert overdue(seconds) is found


@pytest.mark.parametrize(
    ("of_pod", "of_namespace", "default", "found"),
    [
        ({}, {}, "warn", True),
        ({}, {}, "deny", False),
        ({}, DENY, "warn", False),
        (DENY, {}, "warn", False),
        (WARN, DENY, "deny", True),
        (DENY, WARN, "warn", False),
    ],
)
def test_a_pod_that_denies_waits_on(
    of_pod: dict[str, str], of_namespace: dict[str, str], default: str, found: bool
) -> None:
    namespace = Namespace("team-a", TEAM_A.labels, of_namespace)
    rules = policy(defaults={"on-violation": default})
    assert overdue(annotations=of_pod, namespace=namespace, rules=rules) is found


@pytest.mark.parametrize(
    "annotations", [{"gpu.topology/on-violation": "Deny!"}, {"gpu.topology/min-bandwidth": "fast"}]
)
def test_an_annotation_that_was_spoiled_keeps_no_pod_waiting(annotations: dict[str, str]) -> None:
    assert overdue(annotations=annotations)


def test_a_spoiled_annotation_leaves_the_decision_to_the_namespace() -> None:
    namespace = Namespace("team-a", TEAM_A.labels, DENY)
    assert not overdue(annotations={"gpu.topology/on-violation": "Deny!"}, namespace=namespace)


@pytest.mark.parametrize("created", [None, "", "yesterday", "2026-01-15T09:30:00", "9" * 100])
def test_a_pod_without_a_time_is_left_alone(created: str | None) -> None:
    assert not overdue(created=created)


@pytest.mark.parametrize("status", [{"phase": "Failed"}, {"metadata": {"deletionTimestamp": "2026-01-15T09:31:00Z"}}])
def test_a_pod_that_has_ended_or_is_being_deleted_is_left_alone(status: dict[str, Any]) -> None:
    assert not overdue(**status)
    assert overdue(phase="Pending")


@pytest.mark.parametrize("denies", [{"default": "deny"}, {"of_namespace": DENY}, {"of_pod": DENY}])
def test_a_pod_that_is_not_injected_denies_nothing(denies: dict[str, Any]) -> None:
    manifest = pod(annotations=denies.get("of_pod", {}))
    manifest["metadata"] |= {"creationTimestamp": "2026-01-15T09:30:00Z"}
    found = msgspec.json.decode(msgspec.json.encode({**manifest, "status": {}}), type=Pod)
    namespace = Namespace("team-a", TEAM_A.labels, denies.get("of_namespace", {}))
    rules = policy(defaults={"on-violation": denies.get("default", "warn")})
    assert is_overdue(found, namespace, rules.defaults, at=CREATED + timedelta(seconds=300), seconds=300)
