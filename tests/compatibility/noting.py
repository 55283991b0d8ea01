"""Notes beside each test which cells it has seen, and writes what a run has seen: ``pytest --compatibility=FILE``."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import msgspec
import pytest

from tests.compatibility.cells import Cell, Run, Seen, cell_of

PROPERTY = "compatibility"
_LEFT_OUT = "left out: no "


class Note(Protocol):
    """Notes a pod that has been given its cards."""

    def __call__(
        self, pod: Mapping[str, Any], *, hami: str, kubernetes: str, strategy: str, judges: Sequence[str]
    ) -> None:
        """Beside the test that runs."""


@pytest.fixture
def note_pod(request: pytest.FixtureRequest) -> Note:
    """Notes pods beside this test; one that we did not prepare is not noted."""

    def note(pod: Mapping[str, Any], *, hami: str, kubernetes: str, strategy: str, judges: Sequence[str]) -> None:
        cell = cell_of(pod, hami=hami, kubernetes=kubernetes, strategy=strategy)
        if cell:
            noted = {"cell": msgspec.to_builtins(cell), "judges": list(judges)}
            request.node.user_properties.append((PROPERTY, noted))

    return note


class _Collected:
    """What the tests of a run have said."""

    def __init__(self) -> None:
        self.outcomes: dict[Cell, Counter[str]] = defaultdict(Counter)
        self.judges: dict[Cell, set[str]] = defaultdict(set)
        self.left_out: Counter[str] = Counter()
        self._calls: dict[str, str] = {}
        """Outcomes of tests whose fixtures are not torn down yet."""

    def add(self, report: pytest.TestReport) -> None:
        """Of one phase of a test; what it saw is noted when it has ended."""
        reason = str(report.longrepr)
        if _LEFT_OUT in reason and not report.passed:
            self.left_out[reason.partition(_LEFT_OUT)[2].partition(" for this test")[0]] += 1
        elif report.when == "call":
            self._calls[report.nodeid] = report.outcome
        elif report.when == "teardown" and report.nodeid in self._calls:
            self._end(report, self._calls.pop(report.nodeid))

    def _end(self, report: pytest.TestReport, outcome: str) -> None:
        noted: list[Any] = [value for name, value in report.user_properties if name == PROPERTY]
        for cell, judges in {_read(each): each["judges"] for each in noted}.items():
            self.outcomes[cell][outcome] += 1
            self.judges[cell].update(judges)

    def run(self, date: str) -> Run:
        """All of it."""
        cells = tuple(
            Seen(
                cell=cell,
                date=date,
                judges=tuple(sorted(self.judges[cell])),
                passed=counts["passed"],
                failed=counts["failed"],
            )
            for cell, counts in sorted(self.outcomes.items())
            if counts["passed"] or counts["failed"]
        )
        return Run(date=date, cells=cells, left_out=dict(self.left_out))


def _read(noted: Any) -> Cell:
    return msgspec.convert(noted["cell"], Cell)


class _Plugin:
    """Of one run."""

    def __init__(self, path: Path) -> None:
        self._path, self._collected = path, _Collected()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A phase of a test has ended, here or in a worker."""
        self._collected.add(report)

    def pytest_sessionfinish(self) -> None:
        """Write the file."""
        run = self._collected.run(datetime.now(UTC).strftime("%Y-%m-%d"))
        self._path.write_bytes(msgspec.json.format(msgspec.json.encode(run), indent=2) + b"\n")


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option that asks for the file. Behind a blank pytest takes a file that is there for one with tests."""
    parser.addoption("--compatibility", metavar="FILE", help="write which combinations the tests of this run have seen")


def pytest_configure(config: pytest.Config) -> None:
    """A worker of pytest-xdist leaves it to the process that started it."""
    path = config.getoption("--compatibility")
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Plugin(Path(path)), "compatibility")
