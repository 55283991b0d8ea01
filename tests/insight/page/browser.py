"""A headless Chromium of its own, driven over WebDriver."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from selenium.webdriver import Chrome, ChromeOptions, ChromeService
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

WAIT_SECONDS = 30.0
"""At most, for something that a page does at once."""
INSTALL = "make browser, or apt-get install chromium chromium-driver"
BROWSERS = ("chromium", "google-chrome")
"""The same browser: as Debian calls it, and as Google's package does, which Ubuntu's machines at GitHub have."""


class Programs(NamedTuple):
    """Of one release."""

    chromium: str
    chromedriver: str


def find_programs() -> Programs | str:
    """Both programs on ``PATH``, or what is missing and how to get it."""
    chromium = next(filter(None, map(shutil.which, BROWSERS)), None)
    chromedriver = shutil.which("chromedriver")
    if chromium and chromedriver:
        return Programs(chromium, chromedriver)
    lacking = [name for name, path in (("chromium", chromium), ("chromedriver", chromedriver)) if path is None]
    return f"{' and '.join(lacking)} not found on PATH: {INSTALL}"


class Browser:
    """One window. Methods wait for what they look for."""

    def __init__(self, driver: Chrome) -> None:
        self.driver = driver

    def open(self, url: str) -> None:
        self.driver.get(url)

    def run(self, script: str, *arguments: Any) -> Any:
        """The value of ``return ...`` in the page."""
        return self.driver.execute_script(script, *arguments)

    def cdp(self, command: str, **arguments: Any) -> dict[str, Any]:
        """The answer to a command of the Chrome DevTools Protocol."""
        answer: dict[str, Any] = self.driver.execute_cdp_cmd(command, arguments)
        return answer

    def until(self, holds: Callable[[], Any], what: str) -> Any:
        """The first true value."""
        return WebDriverWait(self.driver, WAIT_SECONDS, poll_frequency=0.05).until(lambda _: holds(), what)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector: str) -> WebElement:
        found: WebElement = self.until(lambda: next(iter(self.all(selector)), None), f"no {selector}")
        return found

    def text(self, selector: str) -> str:
        return str(self.run("return document.querySelector(arguments[0])?.textContent ?? ''", selector))

    def texts(self, selector: str) -> list[str]:
        """Of elements that are shown."""
        script = """return [...document.querySelectorAll(arguments[0])]
            .filter((each) => each.checkVisibility()).map((each) => each.textContent)"""
        found: list[str] = self.run(script, selector)
        return found

    def live(self) -> None:
        """Returns once the page follows."""
        self.until(
            lambda: self.run("return document.getElementById('overview')?.dataset.live") == "yes",
            "the page is not live",
        )

    def logged(self) -> list[str]:
        """What the console said, such as violations of the policy, since it was asked last."""
        return [str(entry["message"]) for entry in self.driver.get_log("browser")]  # type: ignore[no-untyped-call]

    def tree(self) -> list[tuple[str, str]]:
        """Roles and names of what assistive technology is told."""
        nodes = self.cdp("Accessibility.getFullAXTree")["nodes"]
        return [
            (str(node.get("role", {}).get("value", "")), str(node.get("name", {}).get("value", "")))
            for node in nodes
            if not node.get("ignored")
        ]


@contextmanager
def browser(
    programs: Programs, directory: Path, *, language: str = "en", size: str = "1440,1000", hosts: str = ""
) -> Iterator[Browser]:
    """A new Chromium with an empty profile.

    Args:
        programs: To start.
        directory: For the profile.
        language: Of ``Accept-Language``.
        size: Of the window.
        hosts: What names resolve to, as Chromium's ``--host-resolver-rules`` takes it.
    """
    options = ChromeOptions()
    options.binary_location = programs.chromium
    # Chromium's sandbox refuses root, and some kernels refuse it; nothing but our own pages is opened.
    arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage"]
    if hosts:
        arguments += [f"--host-resolver-rules={hosts}", "--proxy-server=direct://"]
    for argument in (*arguments, f"--window-size={size}", f"--user-data-dir={directory}", f"--lang={language}"):
        options.add_argument(argument)
    options.add_experimental_option("prefs", {"intl.accept_languages": language})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = Chrome(options, ChromeService(programs.chromedriver))
    try:
        yield Browser(driver)
    finally:
        driver.quit()
