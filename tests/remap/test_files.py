"""Files that are there whole or not at all."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from webhook.remap.files import Files, NotWrittenError


def test_a_file_is_there_whole_and_everybody_can_read_it(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        Files(tmp_path).write("env", "A='1'\n")
    finally:
        os.umask(before)
    assert (tmp_path / "env").read_text() == "A='1'\n"
    assert stat.S_IMODE((tmp_path / "env").stat().st_mode) == 0o644
    assert os.listdir(tmp_path) == ["env"]  # noqa: PTH208 - hidden files too


def test_a_reader_of_the_old_file_goes_on_reading_it(tmp_path: Path) -> None:
    files = Files(tmp_path)
    files.write("env", "old")
    with (tmp_path / "env").open() as reader:
        files.write("env", "new")
        assert reader.read() == "old"
    assert (tmp_path / "env").read_text() == "new"


def test_what_another_run_left_is_removed(tmp_path: Path) -> None:
    for name in ("ready", "nccl-topo.xml", "env", "report.txt", ".env.new", "of-somebody-else"):
        (tmp_path / name).write_text("old")
    Files(tmp_path).clear()
    assert os.listdir(tmp_path) == ["of-somebody-else"]  # noqa: PTH208 - hidden files too


def test_an_empty_directory_needs_no_clearing(tmp_path: Path) -> None:
    Files(tmp_path).clear()
    assert list(tmp_path.iterdir()) == []


def test_a_link_in_place_of_a_file_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("theirs")
    (tmp_path / "env").symlink_to("victim")
    Files(tmp_path).write("env", "ours")
    assert (tmp_path / "victim").read_text() == "theirs"
    assert not (tmp_path / "env").is_symlink()


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    said = "no/env cannot be written: No such file or directory. Is a volume mounted there, and is it full\\?$"
    with pytest.raises(NotWrittenError, match=said):
        Files(tmp_path / "no").write("env", "")


def test_a_directory_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NotWrittenError, match="file/ready cannot be removed: Not a directory"):
        Files(tmp_path / "file").clear()


def test_a_directory_in_place_of_a_file_is_named_and_nothing_is_left_behind(tmp_path: Path) -> None:
    (tmp_path / "env").mkdir()
    with pytest.raises(NotWrittenError, match="env cannot be written: Is a directory"):
        Files(tmp_path).write("env", "text")
    assert os.listdir(tmp_path) == ["env"]  # noqa: PTH208 - hidden files too


def test_a_full_directory_keeps_what_it_had(tmp_path: Path) -> None:
    (tmp_path / "env").write_text("old")
    program = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from webhook.remap.files import Files, NotWrittenError\n"
        "_, most = resource.getrlimit(resource.RLIMIT_FSIZE)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, most))\n"  # stands in for a disk with so much space
        "try:\n"
        "    Files(Path(sys.argv[1])).write('env', 'x' * 8192)\n"
        "except NotWrittenError as error:\n"
        "    print(error)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, check=True, text=True, cwd=ROOT
    )
    assert "env cannot be written: File too large" in done.stdout
    assert (tmp_path / "env").read_text() == "old"
    assert os.listdir(tmp_path) == ["env"]  # noqa: PTH208 - hidden files too


def test_this_run_is_ready_once_it_says_so(tmp_path: Path) -> None:
    files = Files(tmp_path)
    assert not files.is_ready()
    files.mark_ready()
    assert files.is_ready()
    files.clear()
    assert not files.is_ready()


def test_a_run_that_has_ended_is_not_ready_although_its_mark_is_there(tmp_path: Path) -> None:
    program = "from pathlib import Path; from webhook.remap.files import Files; Files(Path({!r})).mark_ready()"
    subprocess.run([sys.executable, "-c", program.format(str(tmp_path))], check=True, cwd=ROOT)
    assert (tmp_path / "ready").exists()
    assert not Files(tmp_path).is_ready()


def test_another_process_with_the_number_of_that_run_is_not_ready(tmp_path: Path) -> None:
    (tmp_path / "ready").write_text(f"{os.getpid()} 1\n")
    assert not Files(tmp_path).is_ready()


@pytest.mark.parametrize("text", ["", "1", "x y", "1 2 3", "-1 5", "\udcff"])
def test_a_mark_that_is_none_is_not_ready(tmp_path: Path, text: str) -> None:
    (tmp_path / "ready").write_bytes(text.encode(errors="surrogateescape"))
    assert not Files(tmp_path).is_ready()


ROOT = Path(__file__).parents[2]
