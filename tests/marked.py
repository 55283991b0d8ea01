"""With ``-m cluster``, only modules with such tests are imported: the others are nine in ten."""

from collections.abc import Iterable
from pathlib import Path

import pytest

MARK = "pytest.mark.cluster"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Whether nothing in this module can be meant; ``None`` leaves it to others."""
    is_meant = config.option.markexpr != "cluster" or not collection_path.match("test_*.py")
    return None if is_meant or _says_it(collection_path) else True


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: Iterable[pytest.Item]) -> None:
    """Refuse tests that have the mark in a module that does not say so: they would be left out above."""
    for path in {item.path for item in items if item.get_closest_marker("cluster")}:
        if not _says_it(path):
            raise pytest.UsageError(f"{path}: expected {MARK} in the text of a module that has tests with this mark")


def _says_it(path: Path) -> bool:
    return MARK in path.read_text(encoding="utf-8")
