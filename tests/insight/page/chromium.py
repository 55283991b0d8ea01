"""A browser for tests."""

from collections.abc import Iterator

import pytest

from tests.go_programs.left_out import LeaveOut
from tests.insight.page.browser import Browser, Programs, browser, find_programs


@pytest.fixture(scope="session")
def programs(leave_out: LeaveOut) -> Programs:
    """Chromium and its driver; without them the test is left out."""
    found = find_programs()
    if isinstance(found, str):
        leave_out("chromium", found)
    return found


@pytest.fixture(scope="module")
def chromium(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A window that the tests of a module share; each opens its own page in it."""
    with browser(programs, tmp_path_factory.mktemp("chromium")) as found:
        yield found


@pytest.fixture
def window(chromium: Browser) -> Iterator[Browser]:
    """The window, without what an earlier test has left in it."""
    chromium.logged()
    yield chromium
    chromium.cdp("Emulation.setEmulatedMedia", features=[])
    chromium.cdp("Emulation.setScriptExecutionDisabled", value=False)
    chromium.open("about:blank")
