"""Files of a state directory that another person has packed."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.command import ROOT, gpu_topology
from webhook.cluster.files.state_files import MAX_BYTES, check_state_file
from webhook.words.errors import ManifestError


def pipe(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def unix_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))


def hole(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(MAX_BYTES + 1)


SAID = "expected a file, found a pipe, a device or a socket"
HOSTILE: dict[str, tuple[Callable[[Path], None], str]] = {
    "a pipe": (pipe, SAID),
    "a link to a device": (device, SAID),
    "a socket": (unix_socket, SAID),
    "a file of holes": (hole, "expected at most 1024 MiB, found more"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_can_be_read_without_end_is_not_read(tmp_path: Path, kind: str) -> None:
    make, said = HOSTILE[kind]
    make(tmp_path / "a")
    with pytest.raises(ManifestError, match=said):
        check_state_file(tmp_path / "a")


def test_files_and_links_to_files_are_read_and_the_rest_is_left_to_the_reader(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    (tmp_path / "c").symlink_to(tmp_path / "nowhere")
    for name in ("a", "b", "c", "missing", "."):
        check_state_file(tmp_path / name)


@pytest.mark.parametrize(
    "place", ["pods/a.yaml", "namespaces/a.yaml", "claims/a.yaml", "objects/a.yaml", "cluster.yaml"]
)
def test_no_part_of_a_state_directory_is_waited_for(tmp_path: Path, place: str) -> None:
    (tmp_path / place).parent.mkdir(exist_ok=True)
    pipe(tmp_path / place)
    done = gpu_topology("analyze", "--state", tmp_path)
    assert (done.code, done.out) == (2, "")
    assert f"{tmp_path / place}: {SAID}" in done.err


def test_a_pipe_among_the_nodes_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "nodes").mkdir()
    pipe(tmp_path / "nodes" / "a.json")
    for command in (("analyze",), ("explain", "-f", ROOT / "examples" / "state" / "pods" / "train.yaml")):
        done = gpu_topology(*command, "--state", tmp_path)
        assert SAID in done.err, command
