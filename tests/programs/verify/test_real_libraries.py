"""Real libraries answer through our declarations: NCCL of NVIDIA's package, and libcuda where it is installed."""

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import ROOT
from tests.go_programs.left_out import LeaveOut
from tests.programs.verify.wheels import NCCL, NO_NCCL
from webhook.programs.verify import abi
from webhook.programs.verify.library import explained

_ASK_NCCL = """
import ctypes, json
from webhook.programs.verify.library import CallFailed
from webhook.programs.verify.nccl import Nccl
nccl = Nccl()
library = ctypes.CDLL("libnccl.so.2")
library.ncclGetErrorString.restype = ctypes.c_char_p
told = {"version": nccl.version(), "words": [library.ncclGetErrorString(code).decode() for code in range(12)]}
one, other = (bytes(nccl.unique_id()) for _ in range(2))
told["ids"] = [one.hex(), other.hex()]
try:
    nccl.library.call("ncclCommInitAll", None, 0, None)
except CallFailed as error:
    told["refused"] = [error.function, error.code, error.said]
print(json.dumps(told))
"""
_ASK_CUDA = """
from webhook.programs.verify.cuda import Cuda
from webhook.programs.verify.library import CallFailed

pytestmark = pytest.mark.long
try:
    print(Cuda().version())
except CallFailed as error:
    print(error.function, error.code)
"""


def answered(program: str, folder: Path | None = None) -> str:
    """What a process of its own prints, which finds libraries in a folder."""
    # NCCL looks for an interface of the network, and every machine has this one.
    found = os.environ | {"NCCL_SOCKET_IFNAME": "lo"} | ({"LD_LIBRARY_PATH": str(folder)} if folder else {})
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, env=found, cwd=ROOT, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def nccl(leave_out: LeaveOut) -> Path:
    """The directory of the real NCCL."""
    if not NCCL.is_kept:
        leave_out("nccl", NO_NCCL)
    return NCCL.directory


@pytest.fixture(scope="module")
def libcuda(leave_out: LeaveOut) -> ctypes.CDLL:
    """The driver's library, such as that of Debian's package libcuda1, which needs no GPU to be installed."""
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        leave_out("libcuda", str(error))


def test_nccl_tells_its_version_and_a_new_id_each_time(nccl: Path) -> None:
    told = json.loads(answered(_ASK_NCCL, nccl))
    assert told["version"] == NCCL.version
    one, other = told["ids"]
    assert one != other
    assert len(bytes.fromhex(one)) == abi.UNIQUE_ID_BYTES


def test_each_error_of_nccl_has_words_here_and_none_is_invented(nccl: Path) -> None:
    words = json.loads(answered(_ASK_NCCL, nccl))["words"]
    known = [code for code, said in enumerate(words) if code and said != "unknown result code"]
    assert known == list(range(1, 8))
    assert all(": " in explained("ncclAllReduce", code) for code in known)
    assert ": " not in explained("ncclAllReduce", 11)


def test_nccl_says_why_it_refuses(nccl: Path) -> None:
    assert json.loads(answered(_ASK_NCCL, nccl))["refused"] == [
        "ncclCommInitAll",
        4,
        "CommInitAll : comms argument is NULL",
    ]


def test_nccl_exports_all_that_is_declared(nccl: Path) -> None:
    library = ctypes.CDLL(str(nccl / "libnccl.so.2"))
    assert [name for name in abi.NCCL if not hasattr(library, name)] == []
    assert not hasattr(library, "ncclNoSuchFunction")


def test_libcuda_exports_all_that_is_declared(libcuda: ctypes.CDLL) -> None:
    assert [name for name in abi.CUDA if not hasattr(libcuda, name)] == []
    assert not hasattr(libcuda, "cuNoSuchFunction")


def test_libcuda_starts_or_says_why_not(libcuda: ctypes.CDLL) -> None:
    del libcuda
    said = answered(_ASK_CUDA).split()
    assert said[0].partition(".")[0].isdecimal() or ": " in explained(said[0], int(said[1]))
