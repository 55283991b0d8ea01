"""The stubs of CUDA and NCCL in place of the libraries of the driver and of the container, for processes of a test."""

from collections.abc import Callable
from functools import cache
from itertools import count
from pathlib import Path

import pytest

from tests.cuda.machines import Bench, bench, write_bench
from tests.nvml.library import DESCRIPTION, compile_stub
from tests.nvml.machines import Machine
from tests.nvml.stub import SHOWN, Play
from tests.shared_library import compile_library

SOURCES = Path(__file__).parent / "stub"
CUDA_DESCRIPTION = "CUDA_STUB_MACHINE"
"""Environment variable that names the cards to play."""

PlayBench = Callable[[Bench], Path]


@cache
def _compiled(directory: Path, *, nccl: bool) -> Path:
    target = directory / ("cuda-stub" if nccl else "cuda-stub-without-nccl")
    compile_stub(target)
    compile_library(SOURCES / "cuda_stub.c", target / "libcuda.so.1", stands_for="a GPU driver")
    if nccl:
        compile_library(SOURCES / "nccl_stub.c", target / "libnccl.so.2", stands_for="NCCL")
    else:
        (target / "libnccl.so.2").write_bytes(b"")  # the loader stops its search at a file that is no library
    return target


@pytest.fixture(scope="session")
def cuda_libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory with the stubs of NVML, CUDA and NCCL: the LD_LIBRARY_PATH of a process that shall find them."""
    return _compiled(tmp_path_factory.getbasetemp(), nccl=True)


@pytest.fixture(scope="session")
def cuda_without_nccl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory with the stubs of NVML and CUDA, without NCCL."""
    return _compiled(tmp_path_factory.getbasetemp(), nccl=False)


@pytest.fixture
def bench_of(play: Play) -> Callable[[Machine], Bench]:
    """A function that returns the bench of a machine whose ways have the rates of its topology."""
    return lambda machine: bench(machine, play(machine))


@pytest.fixture
def play_bench(cuda_libraries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlayBench:
    """A function that makes the processes that start after its call find the cards of a bench."""
    numbers = count(1)

    def start(found: Bench) -> Path:
        directory = tmp_path / f"bench-{next(numbers)}"
        nvml, cuda = write_bench(found, directory)
        monkeypatch.setenv("LD_LIBRARY_PATH", str(cuda_libraries))
        monkeypatch.setenv(DESCRIPTION, str(nvml))
        monkeypatch.setenv(CUDA_DESCRIPTION, str(cuda))
        monkeypatch.delenv(SHOWN, raising=False)
        return directory

    return start
