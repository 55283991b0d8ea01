"""Files that are there whole or not at all, whatever somebody has put in their places."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs.remap.planted import PLANTED, Plant
from webhook.programs.remap.files import Files, NotWrittenError, is_ready


def test_a_file_is_there_whole_and_everybody_can_read_it(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        with Files(tmp_path) as files:
            files.write("env", "A='1'\n")
    finally:
        os.umask(before)
    assert (tmp_path / "env").read_text() == "A='1'\n"
    assert stat.S_IMODE((tmp_path / "env").stat().st_mode) == 0o644
    assert names_in(tmp_path) == ["env"]


def test_a_reader_of_the_old_file_goes_on_reading_it(tmp_path: Path) -> None:
    with Files(tmp_path) as files:
        files.write("env", "old")
        with (tmp_path / "env").open() as reader:
            files.write("env", "new")
            assert reader.read() == "old"
    assert (tmp_path / "env").read_text() == "new"


def test_what_another_run_left_is_removed(tmp_path: Path) -> None:
    temporary = ".env.0123456789abcdef.new"
    for name in ("ready", "nccl-topo.xml", "env", "report.txt", temporary, "of-somebody-else", ".env.new"):
        (tmp_path / name).write_text("old")
    with Files(tmp_path) as files:
        files.clear()
    assert names_in(tmp_path) == [".env.new", "of-somebody-else"]


def test_an_empty_directory_needs_no_clearing(tmp_path: Path) -> None:
    with Files(tmp_path) as files:
        files.clear()
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("plant", PLANTED.values(), ids=PLANTED)
def test_what_stands_in_the_place_of_a_file_is_replaced_and_neither_followed_nor_waited_for(
    tmp_path: Path, plant: Plant
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("theirs")
    plant(tmp_path / "env", victim)
    with Files(tmp_path) as files:
        files.write("env", "ours")
    found = (tmp_path / "env").lstat()
    assert (tmp_path / "env").read_text() == "ours"
    assert (stat.S_ISREG(found.st_mode), found.st_nlink) == (True, 1)
    assert victim.read_text() == "theirs"
    assert names_in(tmp_path) == ["env", "victim"]


@pytest.mark.parametrize("plant", PLANTED.values(), ids=PLANTED)
def test_what_stands_in_the_place_of_a_file_is_removed_and_neither_followed_nor_waited_for(
    tmp_path: Path, plant: Plant
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("theirs")
    for name in ("ready", "nccl-topo.xml", "env", "report.txt"):
        plant(tmp_path / name, victim)
    with Files(tmp_path) as files:
        files.clear()
    assert victim.read_text() == "theirs"
    assert names_in(tmp_path) == ["victim"]


def test_a_directory_that_is_exchanged_meanwhile_gets_nothing(tmp_path: Path) -> None:
    shared, moved, theirs = tmp_path / "shared", tmp_path / "moved", tmp_path / "theirs"
    shared.mkdir()
    theirs.mkdir()
    with Files(shared) as files:
        shared.rename(moved)
        shared.symlink_to(theirs)
        files.write("env", "ours")
        files.clear()
        files.write("report.txt", "ours")
    assert names_in(theirs) == []
    assert names_in(moved) == ["report.txt"]


def test_a_link_in_the_place_of_the_directory_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "shared").symlink_to("theirs")
    with pytest.raises(NotWrittenError, match="shared cannot be opened: Not a directory"):
        Files(tmp_path / "shared")


def test_of_very_many_planted_files_a_few_are_looked_at(tmp_path: Path) -> None:
    for number in range(1500):
        (tmp_path / f".env.{number:016x}.new").touch()
    with Files(tmp_path) as files:
        files.clear()
    assert len(names_in(tmp_path)) == 500


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    said = "no cannot be opened: No such file or directory. Is a volume mounted there, and is it full\\?$"
    with pytest.raises(NotWrittenError, match=said):
        Files(tmp_path / "no")


def test_a_directory_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NotWrittenError, match="file cannot be opened: Not a directory"):
        Files(tmp_path / "file")


def test_a_directory_in_place_of_a_file_is_named_and_nothing_is_left_behind(tmp_path: Path) -> None:
    (tmp_path / "env").mkdir()
    with Files(tmp_path) as files:
        with pytest.raises(NotWrittenError, match="env cannot be written: Is a directory"):
            files.write("env", "text")
        with pytest.raises(NotWrittenError, match="env cannot be removed: Is a directory"):
            files.clear()
    assert names_in(tmp_path) == ["env"]


def test_a_full_directory_keeps_what_it_had(tmp_path: Path) -> None:
    (tmp_path / "env").write_text("old")
    program = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from webhook.programs.remap.files import Files, NotWrittenError, is_ready\n"
        "_, most = resource.getrlimit(resource.RLIMIT_FSIZE)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, most))\n"  # stands in for a disk with so much space
        "try:\n"
        "    with Files(Path(sys.argv[1])) as files:\n"
        "        files.write('env', 'x' * 8192)\n"
        "except NotWrittenError as error:\n"
        "    print(error)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, check=True, text=True, cwd=ROOT
    )
    assert "env cannot be written: File too large" in done.stdout
    assert (tmp_path / "env").read_text() == "old"
    assert names_in(tmp_path) == ["env"]


def test_this_run_is_ready_once_it_says_so(tmp_path: Path) -> None:
    with Files(tmp_path) as files:
        assert not is_ready(tmp_path)
        files.mark_ready()
        assert is_ready(tmp_path)
        files.clear()
        assert not is_ready(tmp_path)


def test_a_run_that_has_ended_is_not_ready_although_its_mark_is_there(tmp_path: Path) -> None:
    program = "from pathlib import Path; from webhook.programs.remap.files import Files; Files(Path({!r})).mark_ready()"
    subprocess.run([sys.executable, "-c", program.format(str(tmp_path))], check=True, cwd=ROOT)
    assert (tmp_path / "ready").exists()
    assert not is_ready(tmp_path)


def test_another_process_with_the_number_of_that_run_is_not_ready(tmp_path: Path) -> None:
    (tmp_path / "ready").write_text(f"{os.getpid()} 1\n")
    assert not is_ready(tmp_path)


@pytest.mark.parametrize("text", ["", "1", "x y", "1 2 3", "-1 5", "\udcff", "../1 5", "9" * 10000])
def test_a_mark_that_is_none_is_not_ready(tmp_path: Path, text: str) -> None:
    (tmp_path / "ready").write_bytes(text.encode(errors="surrogateescape"))
    assert not is_ready(tmp_path)


@pytest.mark.parametrize("plant", PLANTED.values(), ids=PLANTED)
def test_what_stands_in_the_place_of_the_mark_is_neither_followed_nor_waited_for(tmp_path: Path, plant: Plant) -> None:
    """The victim says that it is ready, and a hard link of that is a file like any other."""
    with Files(tmp_path) as files:
        files.mark_ready()
    (tmp_path / "ready").rename(tmp_path / "victim")
    plant(tmp_path / "ready", tmp_path / "victim")
    assert is_ready(tmp_path) is (plant is PLANTED["a hard link"])


def test_a_directory_in_the_place_of_the_mark_is_not_ready(tmp_path: Path) -> None:
    (tmp_path / "ready").mkdir()
    assert not is_ready(tmp_path)


def names_in(directory: Path) -> list[str]:
    """Hidden ones too."""
    return sorted(os.listdir(directory))  # noqa: PTH208 - hidden files too


ROOT = Path(__file__).parents[3]
