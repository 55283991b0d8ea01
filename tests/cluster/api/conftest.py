"""Both event loops: that of the server, and that of Python."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(autouse=True)
def _no_proxy(without_proxy: None) -> None:
    """In all of these tests."""


@pytest.fixture(params=["uvloop", "asyncio"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a coroutine to its end."""
    return uvloop.run if request.param == "uvloop" else asyncio.run
