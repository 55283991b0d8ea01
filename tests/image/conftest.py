"""The images, built once; where they cannot be, their tests are left out, and the run says so."""

from collections.abc import Iterator

import pytest

from tests.go_programs.left_out import LeaveOut
from tests.image.build import BuildError, Image, Images, built, missing


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory, leave_out: LeaveOut) -> Iterator[Images]:
    """Both images. Without the programs that build them the test is skipped; with ``CI=true`` it is an error."""
    if reason := missing():
        leave_out("image", reason)
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
