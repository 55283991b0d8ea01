"""The distribution of the tests among the processes of ``pytest -n``, so that expensive things are set up only once."""

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

PLANE = "tests/control_plane/"
HAMI, CLAIMS = f"{PLANE}hami/", f"{PLANE}claims/"
TOGETHER = {
    f"{PLANE}{module}.py": f"{PLANE}{what}"
    for what, modules in {
        "more kinds": ("test_taints", "test_chart_taints", "test_pod_groups"),
    }.items()
    for module in modules
}
"""Modules that share a control plane of their own, by what it is for."""
FIRST = (
    f"{HAMI}2.10.0",
    f"{HAMI}2.9.0",
    f"{CLAIMS}1.37",
    f"{CLAIMS}1.36",
    f"{PLANE}load/test_load.py",
    f"{PLANE}attacks/test_attacks.py",
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
    """Return the unit of work of the test with this id."""
    path, _, name = test.partition("::")
    if path.startswith(HAMI):
        return f"{HAMI}{'2.9.0' if '2.9.0' in name else '2.10.0'}"
    if path.startswith(CLAIMS):
        return f"{CLAIMS}{'1.37' if '1.37' in name else '1.36'}"
    return TOGETHER.get(path, path)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByExpense:
    """Return the scheduler for every value of ``--dist``: with others, several processes would start one cluster."""
    return ByExpense(config, log)
