"""A changed file in a copy of the checkout, and the test that notices it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
AT_A_TIME = 12
"""The modules with tests that one run of pytest collects."""
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


class Copy:
    """A copy of the checkout in ``folder``, with what is not committed yet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        subprocess.run(["git", "clone", "--quiet", "--shared", ROOT, folder], check=True)  # noqa: S607 - found on the PATH
        for name in _git("ls-files", "--modified", "--others", "--exclude-standard"):
            (folder / name).unlink(missing_ok=True)
            if (ROOT / name).exists():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, folder / name)
        self._sound: set[str] = set()
        self._broken: set[str] = set()

    def noticing(self, file: str, text: str, tests: Sequence[str], command: str) -> str:
        """Return the first test that fails with ``text`` in a file and passes without; empty if there is none.

        Args:
            file: The path of the file.
            text: What it holds.
            tests: The modules with tests, in their order.
            command: One of ``COMMANDS``.
        """
        path = self.folder / file
        own = path.read_text(encoding="utf-8")
        for start in range(0, len(tests), AT_A_TIME):
            batch = tests[start : start + AT_A_TIME]
            while True:
                _write(path, text)
                try:
                    failed = self._first_failure(batch, command)
                finally:
                    _write(path, own)
                if not failed:
                    break
                if failed in self._sound or not self._first_failure([failed] if "/" in failed else batch, command):
                    self._sound.add(failed)
                    return failed
                print(f"left out, it fails without a change too: {failed}", file=sys.stderr)
                self._broken.add(failed)
        return ""

    def _first_failure(self, tests: Sequence[str], command: str) -> str:
        """Return the first test that fails, or a code if pytest itself fails."""
        left_out = [option for test in self._broken for option in ("--deselect", test)]
        left_out += [option for test in self._broken if "::" not in test for option in ("--ignore", test)]
        report = self.folder / ".pytest_cache/v/cache/lastfailed"
        report.unlink(missing_ok=True)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-qx", "-p", "no:randomly", *COMMANDS[command], *left_out, *tests]
            + ["-o", f"faulthandler_timeout={SECONDS}", "-o", "faulthandler_exit_on_timeout=true"],
            cwd=self.folder,
            env=os.environ | {"PYTHONPATH": str(self.folder)},
            capture_output=True,
            check=False,
        )
        if done.returncode in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            return ""
        failed = json.loads(report.read_text(encoding="utf-8")) if report.exists() else {}
        return next(iter(failed), f"pytest ended with {done.returncode}")


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):  # it may have the same second and size
        compiled.unlink()


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S607 - found on the PATH
    return done.stdout.splitlines()
