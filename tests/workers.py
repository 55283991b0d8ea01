"""The distribution of the tests among the processes of ``pytest -n``, so that expensive things are set up only once."""

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

CLUSTERS = "tests/control_plane/hami/"
"""Tests that share clusters with HAMi, by its release."""
CLAIMS = "tests/control_plane/claims/"
"""Tests that share clusters in which claims give GPUs."""
FIRST = (
    f"{CLUSTERS}2.10.0",
    f"{CLUSTERS}2.9.0",
    CLAIMS,
    "tests/control_plane/load/test_load.py",
    "tests/control_plane/attacks/test_attacks.py",
    "tests/certs/test_years.py",
    "tests/fuzz/test_targets.py",
    "tests/decisions/admit/test_laws.py",
    "tests/insight/explain/test_laws.py",
)
"""The longest units of work. They start first, so that no process waits for another at the end."""


class ByExpense(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """A scheduler that gives a process whole files, or all tests that share clusters."""

    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        for scope in reversed(FIRST):
            if scope in self.workqueue:
                self.workqueue.move_to_end(scope, last=False)
        super()._assign_work_unit(node)


def unit(test: str) -> str:
    """Returns the unit of work of the test with this id."""
    path, _, name = test.partition("::")
    if path.startswith(CLUSTERS):
        return f"{CLUSTERS}{'2.9.0' if '2.9.0' in name else '2.10.0'}"
    if path.startswith(CLAIMS):
        return CLAIMS
    return path


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByExpense:
    """Returns the scheduler for every value of ``--dist``: with others, several processes would start one cluster."""
    return ByExpense(config, log)
