"""Which files -f means, in which order: as kubectl has it."""

from pathlib import Path

import pytest

from webhook.cluster.files.manifests import read_files
from webhook.words.errors import ManifestError


def sources(*given: str | Path, recursive: bool = False) -> list[str]:
    return [one.source for one in read_files([str(one) for one in given], recursive=recursive)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What kubectl 1.32 was tried with: ``kubectl annotate --local -f``."""
    for name in ("z.yaml", "a.yml", "m.json", "b/n.yaml", "b/deep/o.yaml", "c/readme.md"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}\n")
    (tmp_path / "x.txt").write_text("garbage: [")
    return tmp_path


def test_of_a_directory_the_manifests_are_read_by_name(folder: Path) -> None:
    assert sources(folder) == [f"{folder}/{name}" for name in ("a.yml", "m.json", "z.yaml")]


def test_recursively_directories_stand_among_the_files_by_name(folder: Path) -> None:
    names = ("a.yml", "b/deep/o.yaml", "b/n.yaml", "m.json", "z.yaml")
    assert sources(folder, recursive=True) == [f"{folder}/{name}" for name in names]


def test_several_are_read_in_the_order_in_which_they_are_given(folder: Path) -> None:
    given = [folder / "z.yaml", folder / "b", folder / "x.txt", folder / "z.yaml"]
    assert sources(*given) == [f"{folder}/{name}" for name in ("z.yaml", "b/n.yaml", "x.txt", "z.yaml")]


def test_a_pattern_that_the_shell_left_is_a_pattern(folder: Path) -> None:
    assert sources(f"{folder}/*.y*ml") == [f"{folder}/a.yml", f"{folder}/z.yaml"]
    (folder / "[1].yaml").write_text("{}")
    assert sources(f"{folder}/[1].yaml") == [f"{folder}/[1].yaml"]


def test_line_ends_and_the_byte_order_mark_stay(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\r\nb: 2\r")
    (one,) = read_files([str(path)], recursive=False)
    assert one.text == "\ufeffa: 1\r\nb: 2\r"


REFUSED = [
    pytest.param("c", r"/c: expected files that end in \.json, \.yaml, \.yml, found none\. With -R", id="no manifests"),
    pytest.param("nowhere.yaml", r"/nowhere\.yaml: cannot be read: No such file or directory$", id="no file"),
    pytest.param("no*.yaml", r"/no\*\.yaml: cannot be read: No such file or directory$", id="a pattern without files"),
    pytest.param("utf16.yaml", r"/utf16\.yaml line 1: .* found UTF-16, which PowerShell writes", id="UTF-16"),
    pytest.param("latin.yaml", r"/latin\.yaml line 2: .* found byte 0xfc\. Save it as UTF-8$", id="Latin-1"),
    pytest.param("links", r"/links/d\.yaml: expected a file, found a directory$", id="a link to a directory"),
    pytest.param("dangling", r"/dangling/d\.yaml: expected a file, found none$", id="a link to nothing"),
]


@pytest.mark.parametrize(("name", "said"), REFUSED)
def test_what_cannot_be_read_is_named(folder: Path, name: str, said: str) -> None:
    (folder / "utf16.yaml").write_bytes("kind: Pod\n".encode("utf-16"))
    (folder / "latin.yaml").write_bytes("kind: Pod\n# Grüße\n".encode("latin-1"))
    for link, target in (("links", folder / "b"), ("dangling", folder / "nowhere")):
        (folder / link).mkdir()
        (folder / link / "d.yaml").symlink_to(target)
    with pytest.raises(ManifestError, match=said):
        sources(folder / name)
