"""A browser for tests."""

from collections.abc import Iterator

import pytest

from tests.page.browser import Browser, browser, missing
from tests.programs.left_out import LeaveOut


@pytest.fixture(scope="session")
def has_browser(leave_out: LeaveOut) -> None:
    """Leaves the test out where there is no Chromium."""
    if problem := missing():
        leave_out("chromium", problem)


@pytest.fixture(scope="module")
def chromium(has_browser: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A window that the tests of a module share; each opens its own page in it."""
    with browser(tmp_path_factory.mktemp("chromium")) as found:
        yield found


@pytest.fixture
def window(chromium: Browser) -> Iterator[Browser]:
    """The window, without what an earlier test has left in it."""
    chromium.logged()
    yield chromium
    chromium.cdp("Emulation.setEmulatedMedia", features=[])
    chromium.cdp("Emulation.setScriptExecutionDisabled", value=False)
    chromium.open("about:blank")
