"""C libraries that stand below the programs that tests start, compiled when a test wants them."""

import os
import shutil
import subprocess
from pathlib import Path

_FLAGS = ("-std=c11", "-O1", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra")


def compile_library(source: Path, library: Path, *, stands_for: str) -> None:
    """Compile a library.

    Args:
        source: In C.
        library: Where to. The loader knows a library that is there already by its name. The directory is made.
        stands_for: What tests have in its place, for the message.

    Raises:
        FileNotFoundError: there is no C compiler.
        subprocess.CalledProcessError: it does not compile.
    """
    compiler = next(filter(None, map(shutil.which, (os.environ.get("CC", "cc"), "cc", "gcc", "clang"))), None)
    if not compiler:
        raise FileNotFoundError(
            f"{source.name} stands in for {stands_for} and needs a C compiler: install gcc or set CC"
        )
    library.parent.mkdir(parents=True, exist_ok=True)
    command = [compiler, *_FLAGS, f"-Wl,-soname,{library.name}", "-o", str(library), str(source)]
    subprocess.run(command, check=True)
