"""NCCL's own code out of a ``libnccl.so.2``, as PyPI's packages ``nvidia-nccl-cu12`` and ``-cu13`` have it.

Those libraries keep the names of their inner functions. So a program can call the parser of topology files and the
reader of levels of each release, without a GPU and without a driver. This file is such a program: a function of NCCL
that reads a bad file may end its process.
"""

import ctypes
import mmap
import os
import re
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import NamedTuple

ALLOC = "_ZL8xmlAllocPP7ncclXmli"
READ = "_Z22ncclTopoGetXmlFromFilePKcP7ncclXmli"
BUILD = "_Z24ncclTopoGetSystemFromXmlP7ncclXmlPP14ncclTopoSystemm"
PRINT = "_Z13ncclTopoPrintP14ncclTopoSystem"
LEVEL = "_Z12ncclGetLevelPiPKcS1_"
_NODES = 256
"""NCCL_TOPO_XML_MAX_NODES, which NCCL hands to the allocation itself."""
_HOST = 1
"""Any hash of the host: NCCL writes its own into what it has read, before it builds the system of it."""
_UNSET, _VARIABLE = -1, b"LEVEL"
_SYMBOL, _SECTION = struct.Struct("<IBBHQQ"), struct.Struct("<IIQQQQIIQQ")
_SYMBOL_TABLE, _UNDEFINED = 2, 0
_CALL, _FOUND = "NCCL INFO ", "found "

Function = Callable[..., int]


class Judged(NamedTuple):
    """What NCCL made of a file."""

    result: int
    """0, or the number of NCCL's error; negative: the signal that ended the process."""
    machine: tuple[str, ...]
    """The machine with its bandwidths, in NCCL's words; empty where NCCL made none."""


def version(library: Path) -> str:
    """The version of a library, such as ``2.32.3``."""
    return _run(library, "version", "").stdout.strip()


def judge(library: Path, file: Path) -> Judged:
    """Has the NCCL of a library read a file, in a process of its own."""
    done = _run(library, "file", str(file))
    told = [line.partition(_CALL)[2] for line in done.stdout.splitlines() if _CALL in line]
    machine = told[next((at for at, line in enumerate(told) if line.startswith("===")), len(told)) :]
    return Judged(done.returncode, tuple(machine) if done.returncode == 0 else ())


def level(library: Path, text: str) -> int:
    """The level that NCCL reads from a text; -2: it does not know the text, so the default holds."""
    lines = _run(library, "level", text).stdout.splitlines()
    return int(next(line for line in lines if line.startswith(_FOUND)).removeprefix(_FOUND))


def _run(library: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "GRAPH"}
    command = [sys.executable, __file__, str(library), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env)


def offsets(library: bytes | mmap.mmap) -> Iterator[tuple[str, int]]:
    """Yields the functions of a 64-bit ELF file with little-endian numbers: name and offset."""
    start, size, number = (
        struct.unpack_from(form, library, at)[0] for form, at in (("<Q", 40), ("<H", 58), ("<H", 60))
    )
    sections = [_SECTION.unpack_from(library, start + size * each) for each in range(number)]
    for section in sections:
        if section[1] == _SYMBOL_TABLE:
            yield from _symbols(library, section[4], section[5], sections[section[6]][4])


def _symbols(library: bytes | mmap.mmap, start: int, size: int, names: int) -> Iterator[tuple[str, int]]:
    for at in range(start, start + size, _SYMBOL.size):
        name, _, _, section, value, _ = _SYMBOL.unpack_from(library, at)
        if section != _UNDEFINED:
            yield library[names + name : library.find(b"\0", names + name)].decode(), value


class _Place(ctypes.Structure):
    """Dl_info of <dlfcn.h>."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("at", ctypes.c_void_p),
    )


class _Library:
    def __init__(self, path: str) -> None:
        self.public, place = ctypes.CDLL(path), _Place()
        known = ctypes.cast(self.public.ncclGetVersion, ctypes.c_void_p)
        assert ctypes.CDLL(None).dladdr(known, ctypes.byref(place))
        self._base: int = place.base
        with Path(path).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            wanted = {ALLOC, READ, BUILD, PRINT, LEVEL}
            self._offsets = {name: offset for name, offset in offsets(content) if name in wanted}

    def __call__(self, name: str, *types: type) -> Function:
        return ctypes.CFUNCTYPE(ctypes.c_int, *types)(self._base + self._offsets[name])


def _completed(text: str) -> str:
    """The text with what NCCL adds itself before it builds the system: the host, and the ranks of the GPUs."""
    numbers = count()

    def completed(tag: re.Match[str]) -> str:
        number = next(numbers)
        own = {"dev": number, "rank": number, "gdr": 0}
        lacking = (f' {name}="{value}"' for name, value in own.items() if f"{name}=" not in tag[1])
        return f"<gpu{''.join(lacking)}{tag[1]}"

    return re.sub(r"<gpu([ />][^>]*)", completed, text).replace("<cpu ", f'<cpu host_hash="{_HOST:#x}" ')


def _read(function: _Library, file: Path) -> int:
    completed = file.with_suffix(".completed")
    completed.write_text(_completed(file.read_text(encoding="utf-8")), encoding="utf-8")
    xml, system, pointer = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p
    steps: tuple[Callable[[], int], ...] = (
        lambda: function(ALLOC, pointer, ctypes.c_int)(ctypes.byref(xml), _NODES),
        lambda: function(READ, ctypes.c_char_p, pointer, ctypes.c_int)(os.fsencode(completed), xml, 1),
        lambda: function(BUILD, pointer, pointer, ctypes.c_uint64)(xml, ctypes.byref(system), _HOST),
        lambda: function(PRINT, pointer)(system),
    )
    return next(filter(None, (step() for step in steps)), 0)


def _level(function: _Library, text: str) -> int:
    found = ctypes.c_int(_UNSET)
    os.environ[_VARIABLE.decode()] = text
    types = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
    result = function(LEVEL, *types)(ctypes.byref(found), None, _VARIABLE)
    print(f"\n{_FOUND}{found.value}", flush=True)
    return result


def _version(function: _Library) -> int:
    found = ctypes.c_int()
    result: int = function.public.ncclGetVersion(ctypes.byref(found))
    print(f"{found.value // 10000}.{found.value // 100 % 100}.{found.value % 100}")
    return result


def _main(library: str, what: str, argument: str) -> int:
    function = _Library(library)
    if what == "version":
        return _version(function)
    return _level(function, argument) if what == "level" else _read(function, Path(argument))


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
