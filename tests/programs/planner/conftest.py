"""No proxy stands between the tests and their servers, and nothing waits for long."""

import pytest

from webhook.cluster.api import reflector
from webhook.programs.planner import leadership, rounds, writer


@pytest.fixture(autouse=True)
def _no_proxy(without_proxy: None) -> None:
    """In all of these tests."""


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, seconds in (
        (reflector, "FIRST_DELAY", 0.005),
        (reflector, "LONGEST_DELAY", 0.05),
        (leadership, "LOOK_SECONDS", 0.02),
        (leadership, "RENEW_SECONDS", 0.05),
        (writer, "FIRST_DELAY", 0.05),
        (writer, "FIRST_LOOK", 0.01),
        (writer, "LONGEST_LOOK", 0.05),
        (rounds, "EVERY_SECONDS", 0.05),
        (rounds, "QUIET_SECONDS", 0.005),
    ):
        monkeypatch.setattr(module, name, seconds)
