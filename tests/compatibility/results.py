"""Runs the judges of one release of HAMi alone, and writes their results: ``pytest --conformance=FILE --release=X``."""

from pathlib import Path

import msgspec
import pytest

from tests.compatibility.conformance import Result, judges

_LEFT_OUT = "left out: no "
_LONGEST = 300
_OF_SUBTESTS = "contains "
"""So begins the failure of a test that has failed subtests, which were reported before it."""


class _Plugin:
    """Of one run."""

    def __init__(self, path: Path, release: str) -> None:
        self._path, self._release = path, release
        self.results: list[Result] = []
        self._passed: set[str] = set()

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leaves the judges of this release."""
        left = [item for item in items if _release(item) == self._release and judges(item.nodeid)]
        config.hook.pytest_deselected(items=[item for item in items if item not in left])
        items[:] = left

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A phase of a test, or a subtest, has ended."""
        reason = _reason(report)
        outcome = "skipped" if _LEFT_OUT in str(report.longrepr) else report.outcome
        if isinstance(report, pytest.SubtestReport):
            for key, value in report.context.kwargs.items():
                # Values are written as Python writes them.
                self._add(report.nodeid, outcome, part=key, about=str(value).strip("'\""), said=reason)
        elif outcome != "passed":
            if not (outcome == "failed" and reason.startswith(_OF_SUBTESTS)):
                self._add(report.nodeid, outcome, said=reason)
        elif report.when == "call":
            self._add(report.nodeid, outcome)

    def _add(self, test: str, outcome: str, *, part: str = "", about: str = "", said: str = "") -> None:
        self.results.append(Result(test=test, outcome=outcome, part=part, about=about, said=said))

    def pytest_sessionfinish(self) -> None:
        """Write the file."""
        self._path.write_bytes(msgspec.json.encode(self.results))


def _release(item: pytest.Item) -> str:
    callspec = getattr(item, "callspec", None)
    return str(callspec.params.get("release", "")).partition("+")[0] if callspec else ""


def _reason(report: pytest.TestReport) -> str:
    if report.outcome == "passed":
        return ""
    crash = getattr(report.longrepr, "reprcrash", None)
    # A skipped test has its file, line and reason here.
    said = (
        crash.message if crash else report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    )
    return str(said).strip().partition("\n")[0][:_LONGEST]


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options that ask for it."""
    group = parser.getgroup("conformance")
    group.addoption(
        "--conformance", metavar="FILE", help="run the judges of one release of HAMi, write what they found"
    )
    group.addoption("--release", metavar="RELEASE", default="", help="of HAMi, with --conformance")


def pytest_configure(config: pytest.Config) -> None:
    """It runs in one process."""
    path = config.getoption("--conformance")
    if path:
        config.pluginmanager.register(_Plugin(Path(path), config.getoption("--release")), "conformance")
