"""Our declarations are those of CUDA's and NCCL's headers, as a C compiler reads them.

The headers are NVIDIA's and not ours to keep: ``CUDA_INCLUDE`` names the directory of cuda.h, ``NCCL_INCLUDE`` that of
nccl.h, such as those in the wheels nvidia-cuda-runtime-cu12 and nvidia-nccl-cu12.
"""

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from webhook.programs.verify import abi

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
    abi.IpcMemHandle: "CUipcMemHandle",
    abi.FabricHandle: "CUmemFabricHandle",
    abi.MemLocation: "CUmemLocation",
    abi.MemAllocationProp: "CUmemAllocationProp",
    abi.MemAccessDesc: "CUmemAccessDesc",
}
_FIELDS = {
    "requested_handle_types": "requestedHandleTypes",
    "win32_handle_meta_data": "win32HandleMetaData",
    "alloc_flags": "allocFlags",
}


def include(variable: str) -> str:
    found = os.environ.get(variable)
    if not found:
        pytest.skip(f"{variable} names no directory of headers")
    return found


def compile_c(lines: Sequence[str], directory: Path, *includes: str) -> None:
    source = directory / "check.cpp"
    source.write_text("\n".join(lines), encoding="utf-8")
    flags = [flag for path in includes for flag in ("-I", path)]
    compiler = shutil.which("g++") or shutil.which("clang++")
    if not compiler:
        pytest.skip("there is no compiler of C++")
    done = subprocess.run(
        [compiler, "-std=c++17", "-fsyntax-only", *flags, str(source)], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()


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


def test_cuda_is_declared_as_in_its_header(tmp_path: Path) -> None:
    # The header redirects names to versions by macros; those that it calls by the name itself have none.
    lines = ["#include <cuda.h>", _TAKES, *structures(set(_STRUCTURES)), *functions(abi.CUDA)]
    compile_c(lines, tmp_path, include("CUDA_INCLUDE"))


def test_each_name_is_the_one_that_the_header_redirects_to(tmp_path: Path) -> None:
    plain = {name.removesuffix("_v2"): name for name in abi.CUDA}
    del plain[
        "cuDeviceGetUuid"
    ]  # the header of CUDA 12 declares both; the first is about the card of an instance of MIG
    texts = [f'static_assert(same(TEXT({short}), "{name}"), "{short}");' for short, name in plain.items()]
    same = "constexpr bool same(const char *a, const char *b) { return *a == *b && (!*a || same(a + 1, b + 1)); }"
    lines = ["#include <cuda.h>", "#define AS_TEXT(name) #name", "#define TEXT(name) AS_TEXT(name)", same, *texts]
    compile_c(lines, tmp_path, include("CUDA_INCLUDE"))


def test_nccl_is_declared_as_in_its_header(tmp_path: Path) -> None:
    lines = ["#include <nccl.h>", _TAKES, *functions(abi.NCCL)]
    # The runtime's header wants those of the compiler; of it NCCL's needs these types alone.
    runtime = "#include <cuda.h>\ntypedef CUstream cudaStream_t;\ntypedef CUevent cudaEvent_t;\n"
    (tmp_path / "cuda_runtime.h").write_text(runtime, encoding="utf-8")
    (tmp_path / "cuda_fp16.h").touch()
    compile_c(lines, tmp_path, str(tmp_path), include("NCCL_INCLUDE"), include("CUDA_INCLUDE"))
