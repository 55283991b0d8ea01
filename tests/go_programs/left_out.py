"""Tests whose program or package cannot be had are left out; the summary counts them and says why, and CI fails."""

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
"""Under which a worker tells what it lacked."""


class LeaveOut(Protocol):
    """Leaves the test out that calls it."""

    def __call__(self, name: str, reason: str) -> NoReturn:
        """Skip the test, or with ``CI=true`` fail it: ``name`` cannot be had, and why."""


@pytest.fixture(scope="session")
def leave_out(request: pytest.FixtureRequest) -> LeaveOut:
    """Leaves out tests for want of something that a machine may lack; the end of the run says it."""
    missing = request.config.stash.setdefault(_MISSING, {})

    def leave(name: str, reason: str) -> NoReturn:
        missing[name] = reason
        text = f"{LEFT_OUT.format(name)}: {reason}"
        if os.environ.get("CI") == "true" and name not in os.environ.get(MAY_LACK, "").split(","):
            pytest.fail(text, pytrace=False)
        pytest.skip(text)

    return leave


@pytest.fixture(scope="session")
def go_program(request: pytest.FixtureRequest, leave_out: LeaveOut) -> GetProgram:
    """Gives a program of the catalogue. Without it the test is skipped; with ``CI=true`` it is an error."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    missing = request.config.stash.setdefault(_MISSING, {})

    def say(line: str) -> None:
        with capture.global_and_fixture_disabled():
            print(f"\n{line}", file=sys.stderr, flush=True)  # the standard output of a worker is lost

    def get(program: GoProgram) -> Path:
        if program.name in missing:
            leave_out(program.name, missing[program.name])
        found = find_or_build(program, os.environ, say=say)
        if isinstance(found, Missing):
            leave_out(program.name, found.reason)
        return found

    return get


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In a worker of pytest-xdist: tell the process that started it, which writes the end of the run."""
    output: dict[str, object] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[_TOLD] = session.config.stash.get(_MISSING, {})


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A worker has ended; one that crashed told nothing."""
    told = getattr(node, "workeroutput", {}).get(_TOLD, {})
    node.config.stash.setdefault(_MISSING, {}).update(told)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say it at the end of the run, where it is read."""
    missing = config.stash.get(_MISSING, {})
    if not missing:
        return
    reports = [*terminalreporter.getreports("skipped"), *terminalreporter.getreports("error")]
    terminalreporter.write_sep("!", red=True, bold=True)
    for name, reason in missing.items():
        count = sum(LEFT_OUT.format(name) in str(report.longrepr) for report in reports)
        tests = "1 test" if count == 1 else f"{count} tests"
        terminalreporter.write_line(f"TESTS LEFT OUT: {tests} without {name}, because {reason}", red=True, bold=True)
    terminalreporter.write_sep("!", red=True, bold=True)
