"""Tests whose program cannot be had are left out; the summary counts them and says why, and CI fails."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.programs.build import GoProgram, Missing, find_or_build

LEFT_OUT = "left out: no {} for this test"
MAY_LACK = "CI_MAY_LACK"
"""Environment variable: names of programs, separated by commas, whose tests CI may leave out too."""
GetProgram: TypeAlias = Callable[[GoProgram], Path]
_MISSING = pytest.StashKey[dict[str, str]]()


@pytest.fixture(scope="session")
def go_program(request: pytest.FixtureRequest) -> GetProgram:
    """Gives a program of the catalogue. Without it the test is skipped; with ``CI=true`` it is an error."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    missing = request.config.stash.setdefault(_MISSING, {})

    def say(line: str) -> None:
        with capture.global_and_fixture_disabled():
            print(f"\n{line}", flush=True)

    def get(program: GoProgram) -> Path:
        if program.name not in missing:
            found = find_or_build(program, os.environ, say=say)
            if not isinstance(found, Missing):
                return found
            missing[program.name] = found.reason
        text = f"{LEFT_OUT.format(program.name)}: {missing[program.name]}"
        if os.environ.get("CI") == "true" and program.name not in os.environ.get(MAY_LACK, "").split(","):
            pytest.fail(text, pytrace=False)
        pytest.skip(text)

    return get


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
