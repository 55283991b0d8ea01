"""What takes long to start, and is started only when a test wants it."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TypeVar

import pytest

from tests.control_plane.processes import NotRunningError

Running = TypeVar("Running")


@contextmanager
def started_on_demand(start: Callable[[str], AbstractContextManager[Running]]) -> Iterator[Callable[[str], Running]]:
    """Gives what finds the one of a kind, which runs from the first time that it is wanted to the end of the block.

    A test that wants one that does not start fails.
    """
    running: dict[str, Running] = {}

    def get(kind: str) -> Running:
        if kind not in running:
            try:
                running[kind] = stack.enter_context(start(kind))
            except NotRunningError as error:
                pytest.fail(str(error), pytrace=False)
        return running[kind]

    with ExitStack() as stack:
        yield get
