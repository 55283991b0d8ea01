"""The NCCL that an interpreter has from a wheel, as PyTorch brings it."""

import subprocess
from pathlib import Path

_ASK = "from importlib.util import find_spec; print(*find_spec('nvidia.nccl').submodule_search_locations, sep='\\n')"
_SECONDS = 60.0
_LIBRARY = "libnccl.so.2"


def nccl_folder(python: str) -> str:
    """Returns the folder of NCCL's library in the packages of an interpreter; empty if it has none.

    Args:
        python: The interpreter. This program may be installed apart from it, and then has no NCCL of its own.
    """
    try:
        done = subprocess.run([python, "-c", _ASK], capture_output=True, text=True, check=False, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    folders = [Path(line) / "lib" for line in done.stdout.splitlines() if line] if done.returncode == 0 else []
    return next((str(folder) for folder in folders if (folder / _LIBRARY).is_file()), "")
