"""The collection of tests with ``-m cluster`` or ``-m long``: modules without such tests, nine in ten, are not imported."""

from collections.abc import Iterable
from pathlib import Path

import pytest

MARKS = ("cluster", "long")
"""The marks whose tests are selected without importing other modules."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Return True for a module without tests that are selected, else ``None``, which leaves the answer to others."""
    selected = {mark for mark in MARKS if mark in config.option.markexpr.split(" and ")}
    is_test_module = collection_path.match("test_*.py")
    if is_test_module and not all(_names(collection_path, mark) for mark in selected):
        return True
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: Iterable[pytest.Item]) -> None:
    """Refuse tests with a mark in a module whose text does not have it: such a module would not be collected."""
    for mark in MARKS:
        for path in {item.path for item in items if item.get_closest_marker(mark)}:
            if not _names(path, mark):
                raise pytest.UsageError(
                    f"{path}: expected pytest.mark.{mark} in the text of a module that has such tests"
                )


def _names(path: Path, mark: str) -> bool:
    return f"pytest.mark.{mark}" in path.read_text(encoding="utf-8")
