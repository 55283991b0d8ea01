"""The collection of tests with ``-m cluster``: modules without such tests, nine in ten, are not imported."""

from collections.abc import Iterable
from pathlib import Path

import pytest

MARK = "pytest.mark.cluster"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Returns True for a module without tests that were asked for, else ``None``, which leaves the answer to others."""
    is_meant = config.option.markexpr != "cluster" or not collection_path.match("test_*.py")
    return None if is_meant or _says_it(collection_path) else True


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: Iterable[pytest.Item]) -> None:
    """Refuses tests with the mark in a module whose text does not have it: such a module would not be collected."""
    for path in {item.path for item in items if item.get_closest_marker("cluster")}:
        if not _says_it(path):
            raise pytest.UsageError(f"{path}: expected {MARK} in the text of a module that has tests with this mark")


def _says_it(path: Path) -> bool:
    return MARK in path.read_text(encoding="utf-8")
