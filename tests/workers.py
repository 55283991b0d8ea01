"""How the tests are shared out among the processes of ``pytest -n``: what is expensive to set up is set up once."""

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
"""What takes longest, so that no process waits for another in the end."""


class ByExpense(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Gives a process whole files, and all tests of one cluster with HAMi."""

    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        for scope in reversed(FIRST):
            if scope in self.workqueue:
                self.workqueue.move_to_end(scope, last=False)
        super()._assign_work_unit(node)


def unit(test: str) -> str:
    """The unit of work to which the test of this id belongs."""
    path, _, name = test.partition("::")
    if path.startswith(CLUSTERS):
        return f"{CLUSTERS}{'2.9.0' if '2.9.0' in name else '2.10.0'}"
    if path.startswith(CLAIMS):
        return CLAIMS
    return path


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByExpense:
    """Whatever ``--dist`` says: with any other, several processes would start the same clusters."""
    return ByExpense(config, log)
