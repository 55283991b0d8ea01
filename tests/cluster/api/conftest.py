"""The event loop of the server; test_connection.py, whose transport is ours, has both."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(autouse=True)
def _no_proxy(without_proxy: None) -> None:
    """In all of these tests."""


@pytest.fixture
def run() -> Run:
    """Runs a coroutine to its end."""
    return uvloop.run
