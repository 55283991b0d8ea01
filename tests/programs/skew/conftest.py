"""The previous commit, and the stub of NVML for its programs."""

from pathlib import Path

import pytest

from tests.go_programs.left_out import LeaveOut
from tests.nvml.stub import nvml_library
from tests.programs.skew.previous import NoPreviousCommitError, unpack

__all__ = ["nvml_library"]

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def previous(tmp_path_factory: pytest.TempPathFactory, leave_out: LeaveOut) -> Path:
    """The tree of the commit before this one; where the checkout has none, the test is left out."""
    try:
        return unpack(ROOT, tmp_path_factory.mktemp("previous"))
    except NoPreviousCommitError as error:
        leave_out("previous-commit", f"{error}; fetch it: git fetch --deepen 1")
