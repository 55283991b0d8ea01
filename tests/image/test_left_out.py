"""Tests of the image that cannot run are left out, and the run says so or, in CI, fails."""

import subprocess
from pathlib import Path

import pytest

from tests.go_programs.run_apart import run_apart

pytestmark = pytest.mark.long


def run_one_test(directory: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A run of its own, on a machine without any program."""
    selected = ("-m", "image", "-k", "they_are_small", "tests/image/test_both_images.py")
    return run_apart(directory, *selected, PATH=str(directory), **environment)


def test_tests_of_the_image_that_are_left_out_are_told_with_the_remedy(tmp_path: Path) -> None:
    done = run_one_test(tmp_path)
    assert done.returncode == 0
    packages = "buildah, mmdebstrap, util-linux: apt-get install buildah mmdebstrap util-linux"
    assert f"IMAGE TESTS LEFT OUT, because expected {packages}" in done.stdout
    assert "1 skipped" in done.stdout


def test_make_image_test_fails_when_they_are_left_out(tmp_path: Path) -> None:
    done = run_one_test(tmp_path, CI="true")
    assert done.returncode == 1
    assert "IMAGE TESTS LEFT OUT, because expected" in done.stdout
    assert "1 error" in done.stdout
