"""Our declarations are those of CUDA's and NCCL's headers, as a C compiler reads them.

The headers are NVIDIA's and not ours to keep. Those of CUDA 12 and 13 are fetched from PyPI. NCCL's wheel has hundreds
of megabytes, so a person fetches it: ``python -m tests.programs.verify.wheels``.
"""

import ctypes
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.go_programs.left_out import LeaveOut
from tests.programs.verify.wheels import CUDA_12, CUDA_13, NCCL, NO_NCCL, fetched
from webhook.programs.verify import abi
from webhook.programs.verify.nccl import LAST_ERROR

pytestmark = pytest.mark.long

CompileC: TypeAlias = Callable[..., None]

_C: dict[Any, str] = {
    ctypes.c_int: "int",
    ctypes.c_uint: "unsigned int",
    ctypes.c_size_t: "unsigned long",
    ctypes.c_uint64: "unsigned long long",
    ctypes.c_void_p: "pointer",
    ctypes.c_float: "float",
}
_STRUCTURES: dict[Any, str] = {
    abi.Uuid: "CUuuid",
    abi.UniqueId: "ncclUniqueId",
    abi.IpcMemHandle: "CUipcMemHandle",
    abi.FabricHandle: "CUmemFabricHandle",
    abi.MemLocation: "CUmemLocation",
    abi.MemAllocationProp: "CUmemAllocationProp",
    abi.MemAccessDesc: "CUmemAccessDesc",
}
_AS_WELL = {"cuEventElapsedTime": "cuEventElapsedTime_v2"}
"""Names that CUDA 13 redirects to, with the same arguments. A driver keeps the names of earlier versions for programs
that were built with them, and one for CUDA 12 has only those."""
_FIELDS = {
    "requested_handle_types": "requestedHandleTypes",
    "win32_handle_meta_data": "win32HandleMetaData",
    "alloc_flags": "allocFlags",
    "num_devices": "numDevices",
    "handle_types": "handleTypes",
}


@pytest.fixture(params=[CUDA_12, CUDA_13], ids=["CUDA 12", "CUDA 13"])
def cuda_include(request: pytest.FixtureRequest, leave_out: LeaveOut) -> str:
    """The directory of cuda.h."""
    try:
        return str(fetched(request.param))
    except LookupError as error:
        leave_out("cuda-header", str(error))


@pytest.fixture
def compile_c(tmp_path: Path, leave_out: LeaveOut) -> CompileC:
    """Compiles a program of C++ without making anything of it."""

    def compile_c(lines: Sequence[str], *includes: str) -> None:
        compiler = shutil.which("g++") or shutil.which("clang++")
        if not compiler:
            leave_out("c++", "neither g++ nor clang++ is on the PATH")
        done = _compiled(compiler, lines, tmp_path, includes)
        assert done.returncode == 0, done.stderr.decode()

    return compile_c


def _compiled(
    compiler: str, lines: Sequence[str], directory: Path, includes: Sequence[str]
) -> "subprocess.CompletedProcess[bytes]":
    source = directory / "check.cpp"
    source.write_text("\n".join(lines), encoding="utf-8")
    flags = [flag for path in includes for flag in ("-I", path)]
    return subprocess.run(
        [compiler, "-std=c++17", "-fsyntax-only", *flags, str(source)], capture_output=True, check=False
    )


def shape(argument: Any) -> str:
    """A C++ expression of the shape that a type has in a call."""
    if argument in _STRUCTURES:
        return _STRUCTURES[argument]
    if hasattr(argument, "contents") or argument is ctypes.c_void_p:
        return "void *"
    return _C[argument]


def functions(prototypes: abi.Prototypes) -> Iterator[str]:
    """Each exported function takes arguments of the sizes, and of the kinds, that are declared."""
    for name, arguments in prototypes.items():
        shapes = "".join(f", {shape(argument)}" for argument in arguments)
        yield f'static_assert(takes<decltype(&{name}){shapes}>(), "{name}");'


_TAKES = """
#include <type_traits>
#include <cstddef>
template <class T, class U> constexpr bool alike() {
    if (std::is_class_v<T> || std::is_class_v<U>) return std::is_same_v<T, U>;
    return sizeof(T) == sizeof(U) && std::is_pointer_v<T> == std::is_pointer_v<U>;
}
template <class F> struct signature;
template <class R, class... A> struct signature<R (*)(A...)> {
    template <class... B> static constexpr bool takes() {
        if constexpr (sizeof...(A) != sizeof...(B)) return false;
        else return sizeof(R) == 4 && (alike<A, B>() && ... && true);
    }
};
template <class F, class... B> constexpr bool takes() { return signature<F>::template takes<B...>(); }
"""


def structures(header: set[Any]) -> Iterator[str]:
    for ours in header:
        theirs = _STRUCTURES[ours]
        yield f'static_assert(sizeof({theirs}) == {ctypes.sizeof(ours)}, "{theirs}");'
        for name, *_ in ours._fields_:
            there = _FIELDS.get(name, name)
            yield f'static_assert(offsetof({theirs}, {there}) == {getattr(ours, name).offset}, "{theirs}.{there}");'


def test_cuda_is_declared_as_in_its_header(cuda_include: str, compile_c: CompileC) -> None:
    # The header redirects names to versions by macros; those that it calls by the name itself have none.
    lines = [
        "#include <cuda.h>",
        _TAKES,
        *structures(set(_STRUCTURES) - {abi.UniqueId}),
        *functions(abi.CUDA),
    ]
    compile_c(lines, cuda_include)


def test_a_declaration_that_differs_is_noticed(cuda_include: str, compile_c: CompileC) -> None:
    wrong = {**abi.CUDA, "cuMemAlloc_v2": (ctypes.c_int, ctypes.c_size_t)}
    with pytest.raises(AssertionError, match="cuMemAlloc_v2"):
        compile_c(["#include <cuda.h>", _TAKES, *functions(wrong)], cuda_include)


def test_each_name_is_the_one_that_the_header_redirects_to(cuda_include: str, compile_c: CompileC) -> None:
    plain = {name.removesuffix("_v2"): name for name in abi.CUDA}
    del plain[
        "cuDeviceGetUuid"
    ]  # the header of CUDA 12 declares both; the first is about the card of an instance of MIG
    texts = [
        f'static_assert(same(TEXT({short}), "{name}") || same(TEXT({short}), "{_AS_WELL.get(name, name)}"), "{short}");'
        for short, name in plain.items()
    ]
    same = "constexpr bool same(const char *a, const char *b) { return *a == *b && (!*a || same(a + 1, b + 1)); }"
    lines = ["#include <cuda.h>", "#define AS_TEXT(name) #name", "#define TEXT(name) AS_TEXT(name)", same, *texts]
    compile_c(lines, cuda_include)


def test_nccl_is_declared_as_in_its_header(
    cuda_include: str, compile_c: CompileC, leave_out: LeaveOut, tmp_path: Path
) -> None:
    if not NCCL.is_kept:
        leave_out("nccl", NO_NCCL)
    last_error = f"static_assert(std::is_same_v<decltype({LAST_ERROR}(nullptr)), const char *>);"
    lines = ["#include <nccl.h>", _TAKES, *structures({abi.UniqueId}), *functions(abi.NCCL), last_error]
    # The runtime's header wants those of the compiler; of it NCCL's needs these types alone.
    runtime = "#include <cuda.h>\ntypedef CUstream cudaStream_t;\ntypedef CUevent cudaEvent_t;\n"
    (tmp_path / "cuda_runtime.h").write_text(runtime, encoding="utf-8")
    (tmp_path / "cuda_fp16.h").touch()
    compile_c(lines, str(tmp_path), str(NCCL.directory), cuda_include)


def test_a_header_that_cannot_be_fetched_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(LookupError, match=f"pip does not get nvidia-cuda-runtime {CUDA_13.version}: "):
        fetched(CUDA_13)
