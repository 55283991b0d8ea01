"""What is said of a directory that is no checkout of HAMi, and of one that cannot be built."""

from pathlib import Path

import pytest

from tests.compatibility.checkout import NotUsableError, build, called, examined, stands_for
from tests.compatibility.conform import main

MODULE = "module github.com/Project-HAMi/HAMi\n"


def checkout(directory: Path, *, module: str = MODULE, version: str = "v2.10.0") -> Path:
    (directory / "go.mod").write_text(module)
    (directory / "VERSION").write_text(version)
    return directory


def test_the_version_is_that_of_its_file(tmp_path: Path) -> None:
    assert examined(checkout(tmp_path)) == "2.10.0"
    assert called(tmp_path, "2.10.0") == "2.10.0"


@pytest.mark.parametrize(
    ("version", "release"), [("2.9.0", "2.9.0"), ("2.9.3", "2.9.0"), ("2.10.0", "2.10.0"), ("3.0.0", "2.10.0")]
)
def test_it_stands_for_the_newest_release_that_is_not_newer(version: str, release: str) -> None:
    assert stands_for(version) == release


def test_what_is_older_than_the_releases_cannot_be_judged() -> None:
    with pytest.raises(NotUsableError, match=r"HAMi 2\.8\.1 is older than 2\.9\.0, the oldest that the tests know"):
        stands_for("2.8.1")


@pytest.mark.parametrize(
    ("module", "version", "said"),
    [
        ("module example.com/other\n", "v2.10.0", "expected the first line 'module github.com/Project-HAMi/HAMi'"),
        (MODULE, "soon", "expected a version"),
    ],
)
def test_another_project_is_refused_with_what_was_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], module: str, version: str, said: str
) -> None:
    assert main([str(checkout(tmp_path, module=module, version=version))]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert str(tmp_path) in error


def test_without_go_it_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(NotUsableError, match=r"no Go compiler is on the PATH\. Install Go"):
        build(checkout(tmp_path), "2.10.0", tmp_path, {"PATH": str(tmp_path)})
