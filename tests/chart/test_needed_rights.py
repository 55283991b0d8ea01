"""Without each right that the chart gives a program something fails in a test, or a line here says why in none.

Those tests need a control plane. This one only reads what they try: the values that they are parametrized by.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from tests.chart.generated import PROGRAMS
from tests.control_plane import test_agent, test_certificates, test_gates, test_live_pods, test_place, test_state
from tests.control_plane import test_taints as taints

Right = tuple[str, str]
"""A resource and a verb."""

TRIED: Mapping[str, tuple[Callable[..., None], ...]] = {
    "agent": (test_agent.test_every_permission_is_needed,),
    "agent-taints": (taints.test_every_permission_is_needed,),
    "webhook": (
        test_state.test_no_permission_is_superfluous,
        test_live_pods.test_every_permission_is_needed,
        test_gates.test_a_lease_that_may_not_be_read_is_no_planner,
    ),
    "claims": (test_state.test_no_permission_for_claims_is_superfluous,),
    "planner": (test_place.test_no_permission_is_superfluous,),
    "certificates": (test_certificates.test_each_permission_is_needed,),
}
"""By the name of a program in the chart: the tests that take its rights away one by one."""
PEOPLE = {"reader", "view"}
"""Roles that no program has; tests of the commands try them (test_readers.py, test_explain.py, test_analyze.py)."""
UNTRIED: Mapping[str, Mapping[Right, str]] = {
    "planner": {
        ("deployments", "list"): "HAMi's version is looked for now and then, and nothing waits for it",
        ("events", "create"): "Events are written beside the choice, and nothing waits for them",
        ("pods", "get"): "a pod is read only after a write of it failed",
    }
}
RESOURCE_OF_ALL = {test_gates.test_a_lease_that_may_not_be_read_is_no_planner: "leases"}
"""Tests whose values are verbs of one resource."""


def tried(test: Callable[..., None]) -> Iterator[Right]:
    """The rights that a test takes away: the last two of its values."""
    (mark,) = (mark for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize")
    for values in mark.args[1]:
        yield (RESOURCE_OF_ALL[test], values) if isinstance(values, str) else values[-2:]


def given(program: str) -> set[Right]:
    return {(each.resource, verb) for each in PROGRAMS[program] for verb in each.verbs}


@pytest.mark.parametrize("program", sorted(PROGRAMS.keys() - PEOPLE))
def test_each_right_is_taken_away_by_a_test_or_has_a_reason(program: str) -> None:
    taken = {right for test in TRIED[program] for right in tried(test)}
    reasons = UNTRIED.get(program, {})
    assert given(program) - taken == reasons.keys()
    assert taken <= given(program)
    assert all(reasons.values())


def test_a_right_that_no_test_takes_away_would_be_found() -> None:
    def of_one_right(resource: str, verb: str) -> None:
        """Never called."""

    values: Any = [("pods", "get")]
    marked = pytest.mark.parametrize(("resource", "verb"), values)(of_one_right)
    assert given("webhook") - set(tried(marked)) >= {("pods", "list"), ("nodes", "watch")}
    assert set(tried(marked)) == {("pods", "get")}
