"""The images, built once; where they cannot be, their tests are left out, and the run says so."""

import os
from collections.abc import Iterator

import pytest

from tests.image.build import BuildError, Image, Images, built, missing

LEFT_OUT = "no image for this test"
REASON = pytest.StashKey[str]()


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Images]:
    """Both images. Without the programs that build them the test is skipped; with ``CI=true`` it is an error."""
    reason = missing()
    if reason:
        request.config.stash[REASON] = reason
        if os.environ.get("CI") == "true":
            pytest.fail(f"{LEFT_OUT}: {reason}", pytrace=False)
        pytest.skip(f"{LEFT_OUT}: {reason}")
    try:
        with built(tmp_path_factory.mktemp("image")) as found:
            yield found
    except BuildError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture(scope="session")
def image(images: Images) -> Image:
    """The image of the webhook."""
    return images.webhook


@pytest.fixture(scope="session")
def remap_image(images: Images) -> Image:
    """The image of the remap container."""
    return images.remap


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say it at the end of the run, where it is read."""
    reason = config.stash.get(REASON, None)
    if reason is not None:
        terminalreporter.write_sep("!", red=True, bold=True)
        terminalreporter.write_line(f"IMAGE TESTS LEFT OUT, because {reason}", red=True, bold=True)
        terminalreporter.write_sep("!", red=True, bold=True)
