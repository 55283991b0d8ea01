"""A changed file in a copy of the checkout, and the test that notices it."""

import gc
import importlib
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path

import pytest

from tests.near import CONTROL_PLANE, PACKAGES, House

ROOT = Path(__file__).parents[2]
SECONDS = 120
"""A test that takes longer is stopped, and has noticed."""
COMMANDS: dict[str, tuple[str, ...]] = {
    "quick": ("-m", "not cluster and not long and not slow", "--hypothesis-profile=quick"),
    "test": (),
    "test-all": ("-m", "long and not cluster"),
}
"""What the tests of each command of make are run with, for those that need no control plane."""
QUICK = ("tests/decisions/", "tests/objects/", "tests/words/", "tests/hardware/")
"""The folders of ``make quick``."""
LIBRARIES = (
    *("hypothesis", "fastapi", "kubernetes", "cryptography.x509", "aiohttp", "httpx", "rich", "typer", "trio", "xdist"),
    *("selenium.webdriver.chrome.webdriver", "anyio._backends._asyncio", "anyio._backends._trio"),
)
"""What takes long to import. Each run of pytest is forked from a process that has imported them."""


@dataclass(frozen=True)
class Change:
    """A file with another text, the modules with tests that may notice it, in their order, and the command of make."""

    file: str
    text: str
    tests: Sequence[str]
    command: str = "test"


def nearest(house: House, file: str, command: str, limit: int) -> list[str]:
    """Return the modules with tests of a command that are nearest to a file, without those at a control plane."""
    ranked = [path for path in house.ranked([file]) if not path.startswith(CONTROL_PLANE)]
    return [path for path in ranked if command != "quick" or path.startswith(QUICK)][:limit]


def noticing(changes: Sequence[Change], processes: int, report: Callable[[Change, str], None]) -> list[str]:
    """Return for each change the first test that fails with it and passes without; empty where there is none.

    Args:
        changes: The changes.
        processes: The number of processes, each with a copy of the checkout.
        report: Called for each change when its test is known.
    """
    found, left_out, to_do = [""] * len(changes), set[str](), [*range(len(changes))]
    context = multiprocessing.get_context("fork")
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(processes, context, _begin, (folder,)) as executor,
    ):
        while to_do:
            tests = executor.map(_noticing, [changes[index] for index in to_do], repeat(frozenset(left_out)))
            for index, test in zip(to_do, tests, strict=True):
                found[index] = test
                report(changes[index], test)
            broken = executor.submit(_broken, frozenset(filter(None, found))).result()
            to_do = [index for index in to_do if found[index] in broken]
            left_out |= broken
            if broken:
                print("These fail without a change too, once more without them:", *broken, sep="\n", file=sys.stderr)
    return found


_copies: list["_Copy"] = []
"""The copy of this process."""


def _begin(folder: str) -> None:
    sys.dont_write_bytecode = False  # rewritten assertions are compiled once and not in each run
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    for library in LIBRARIES:
        importlib.import_module(library)
    gc.freeze()  # pytest collects garbage several times
    _copies.append(_Copy(Path(folder, str(os.getpid()))))


def _noticing(change: Change, left_out: Collection[str]) -> str:
    return _copies[0].noticing(change, left_out)


def _broken(tests: Collection[str]) -> set[str]:
    """Return the tests that fail without a change."""
    named = [test for test in tests if "/" in test]
    return set(_copies[0].failures(["--maxfail=1000", *named])[0]) if named else set()


class _Copy:
    """A copy of the checkout in ``folder``, with what is not committed yet."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        subprocess.run(["git", "clone", "--quiet", "--shared", ROOT, folder], check=True)  # noqa: S607 - found on the PATH
        listed = ["git", "ls-files", "--modified", "--others", "--exclude-standard"]
        for name in subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines():
            (folder / name).unlink(missing_ok=True)
            if (ROOT / name).exists():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, folder / name)

    def noticing(self, change: Change, left_out: Collection[str]) -> str:
        path = self._folder / change.file
        own = path.read_text(encoding="utf-8")
        options = [*COMMANDS[change.command], *(option for test in left_out for option in ("--deselect", test))]
        start, count = 0, 3
        _write(path, change.text)
        try:
            while start < len(change.tests):
                batch = [test for test in change.tests[start : start + count] if test not in left_out]
                failed, code = self.failures([*options, *batch]) if batch else ([], 0)
                if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
                    return next(iter(failed), f"pytest ended with {code}")
                start, count = start + count, 5 * count
        finally:
            _write(path, own)
        return ""

    def failures(self, arguments: Sequence[str]) -> tuple[list[str], int | None]:
        """Run pytest. Return the tests that fail, and its exit code."""
        report = self._folder / ".pytest_cache/v/cache/lastfailed"
        report.unlink(missing_ok=True)
        options = ["-x", "-p", "no:randomly", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
        options += ["-o", f"faulthandler_timeout={SECONDS}", "-o", "faulthandler_exit_on_timeout=true"]
        arguments = [*options, *arguments]
        run = multiprocessing.get_context("fork").Process(target=_run, args=(self._folder, arguments))
        run.start()
        run.join()
        return list(json.loads(report.read_text(encoding="utf-8"))) if report.exists() else [], run.exitcode


def _run(folder: Path, arguments: list[str]) -> None:
    """Run pytest in a copy, without the packages that this process has imported from the checkout."""
    os.chdir(folder)
    os.environ["PYTHONPATH"] = str(folder)
    sys.path.insert(0, str(folder))
    for name in [name for name in sys.modules if name.partition(".")[0] in PACKAGES]:
        del sys.modules[name]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    sys.exit(pytest.main(arguments))


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):  # it may have the same second and size
        compiled.unlink()
