"""Tests that are left out because a program or package is missing. The summary counts them with reasons; CI fails."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, Protocol, TypeAlias

import pytest

from tests.go_programs.build import GoProgram, Missing, find_or_build

LEFT_OUT = "left out: no {} for this test"
MAY_LACK = "CI_MAY_LACK"
"""Environment variable: names of programs, separated by commas, whose tests CI may leave out too."""
GetProgram: TypeAlias = Callable[[GoProgram], Path]
_MISSING = pytest.StashKey[dict[str, str]]()
_TOLD = "left_out"
"""The key under which a worker reports the missing programs."""


class LeaveOut(Protocol):
    """A function that leaves out the test that calls it."""

    def __call__(self, name: str, reason: str) -> NoReturn:
        """Skips the test, or with ``CI=true`` fails it, because ``name`` is missing for this reason."""


@pytest.fixture(scope="session")
def leave_out(request: pytest.FixtureRequest) -> LeaveOut:
    """A function that leaves out a test without something that a machine may lack. The end of the run reports it."""
    missing = request.config.stash.setdefault(_MISSING, {})

    def leave(name: str, reason: str) -> NoReturn:
        missing[name] = reason
        text = f"{LEFT_OUT.format(name)}: {reason.partition(chr(10))[0]}"
        if os.environ.get("CI") == "true" and name not in os.environ.get(MAY_LACK, "").split(","):
            pytest.fail(text, pytrace=False)
        pytest.skip(text)

    return leave


@pytest.fixture(scope="session")
def go_program(request: pytest.FixtureRequest, leave_out: LeaveOut) -> GetProgram:
    """A function that returns a program of the catalogue. Without it the test is skipped, or with ``CI=true`` fails."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    missing = request.config.stash.setdefault(_MISSING, {})

    def say(line: str) -> None:
        with capture.global_and_fixture_disabled():
            print(f"\n{line}", file=sys.stderr, flush=True)  # the standard output of a worker is lost

    def get(program: GoProgram) -> Path:
        if program.name in missing:
            leave_out(program.name, missing[program.name])
        found = find_or_build(program, os.environ, say=say, build=not program.on_demand)
        if isinstance(found, Missing):
            leave_out(program.name, found.reason)
        return found

    return get


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Reports the missing programs of a worker of pytest-xdist to the main process, which writes the end of the run."""
    output: dict[str, object] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[_TOLD] = session.config.stash.get(_MISSING, {})


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Takes the missing programs from a worker that has ended. A worker that crashed reported none."""
    told = getattr(node, "workeroutput", {}).get(_TOLD, {})
    node.config.stash.setdefault(_MISSING, {}).update(told)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Writes the left-out tests at the end of the run, where they are noticed."""
    missing = config.stash.get(_MISSING, {})
    if not missing:
        return
    reports = [*terminalreporter.getreports("skipped"), *terminalreporter.getreports("error")]
    for name, reason in missing.items():
        count = sum(LEFT_OUT.format(name) in str(report.longrepr) for report in reports)
        tests = "1 test" if count == 1 else f"{count} tests"
        terminalreporter.write_line(f"TESTS LEFT OUT: {tests} without {name}, because {reason}", red=True, bold=True)
