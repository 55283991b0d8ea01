"""The image, built once; where it cannot be, its tests are left out, and the run says so."""

import os
import shutil
from collections.abc import Iterator

import pytest

from tests.image.build import BuildError, Image, build, missing

LEFT_OUT = "no image for this test"
REASON = pytest.StashKey[str]()


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Image]:
    """The image. Without the programs that build it the test is skipped; with ``CI=true`` it is an error."""
    reason = missing()
    if reason:
        request.config.stash[REASON] = reason
        if os.environ.get("CI") == "true":
            pytest.fail(f"{LEFT_OUT}: {reason}", pytrace=False)
        pytest.skip(f"{LEFT_OUT}: {reason}")
    directory = tmp_path_factory.mktemp("image")
    try:
        yield build(directory)
    except BuildError as error:
        pytest.fail(str(error), pytrace=False)
    finally:
        shutil.rmtree(directory)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say it at the end of the run, where it is read."""
    reason = config.stash.get(REASON, None)
    if reason is not None:
        terminalreporter.write_sep("!", red=True, bold=True)
        terminalreporter.write_line(f"IMAGE TESTS LEFT OUT, because {reason}", red=True, bold=True)
        terminalreporter.write_sep("!", red=True, bold=True)
