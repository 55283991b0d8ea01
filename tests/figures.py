"""What tests have measured, for the person who reads the run. Figures describe the machine; no test fails by them."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, redirect_stdout
from io import StringIO
from typing import TypeAlias

import pytest

ShowFigures: TypeAlias = Callable[[], AbstractContextManager[None]]
_PROPERTY = "figures"
_OUTCOMES = ("passed", "failed")


@pytest.fixture
def show_figures(record_property: Callable[[str, object], None]) -> ShowFigures:
    """Gives a context: what is printed within it is shown at the end of the run, in whichever process it was."""

    @contextmanager
    def show() -> Iterator[None]:
        with redirect_stdout(StringIO()) as text:
            yield
        record_property(_PROPERTY, text.getvalue())

    return show


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show the figures of all tests."""
    reports = [report for outcome in _OUTCOMES for report in terminalreporter.getreports(outcome)]
    texts = [str(text) for report in reports for name, text in report.user_properties if name == _PROPERTY]
    if texts:
        terminalreporter.section("figures")
        for text in texts:
            terminalreporter.write_line(text.strip("\n"))
