"""Where the previous commit is found, and that a checkout without one is told."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.programs.skew.previous import NoPreviousCommitError, unpack


def git(directory: Path, *arguments: str) -> None:
    author = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-c", "init.defaultBranch=main", "-c", "commit.gpgsign=false", "-C", str(directory), *arguments]
    subprocess.run(command, check=True, capture_output=True, env={**kept, **author})


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """A repository of two commits with another text each."""
    repository = tmp_path / "history"
    (repository / "part").mkdir(parents=True)
    git(repository, "init")
    for said in ("before", "now"):
        (repository / "part" / "text").write_text(said)
        git(repository, "add", ".")
        git(repository, "commit", "-m", said)
    return repository


def test_the_files_are_those_of_the_commit_before(history: Path, tmp_path: Path) -> None:
    (history / "part" / "text").write_text("not committed")
    assert (unpack(history, tmp_path / "tree", ("part",)) / "part" / "text").read_text() == "before"


@pytest.mark.parametrize(("depth", "has_one"), [("1", False), ("2", True)])
def test_a_shallow_clone_has_it_from_two_commits_on(history: Path, tmp_path: Path, depth: str, has_one: bool) -> None:
    git(tmp_path, "clone", "--depth", depth, f"file://{history}", "clone")
    if has_one:
        assert (unpack(tmp_path / "clone", tmp_path / "tree", ("part",)) / "part" / "text").read_text() == "before"
    else:
        with pytest.raises(NoPreviousCommitError, match=r"^git archive HEAD~1: .*HEAD~1"):
            unpack(tmp_path / "clone", tmp_path / "tree", ("part",))


def test_a_directory_that_is_no_checkout_has_none(tmp_path: Path) -> None:
    with pytest.raises(NoPreviousCommitError, match=r"^git archive HEAD~1: .*not a git repository"):
        unpack(tmp_path, tmp_path / "tree")


def test_without_git_there_is_none(history: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoPreviousCommitError, match=r"^git is not installed$"):
        unpack(history, tmp_path / "tree")
