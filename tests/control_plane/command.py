"""What the commands have in common that try the webhook at a control plane of their own."""

import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.control_plane.control_plane import Binaries
from tests.control_plane.processes import NotRunningError
from tests.go_programs.build import required
from tests.go_programs.catalogue import ETCD, KUBE_APISERVER


def run_command(name: str, work: Callable[[Binaries, Path], int]) -> int:
    """Returns the exit code of ``work``, or 1 with a line on standard error if a program is missing or fails.

    Args:
        name: Of the command; its directory is called after it.
        work: Takes the programs of a control plane, and a directory that is there only so long.
    """
    directory = Path(tempfile.mkdtemp(prefix=f"gpu-topology-{name}-"))
    try:
        return work(Binaries(etcd=required(ETCD), kube_apiserver=required(KUBE_APISERVER)), directory)
    except (LookupError, NotRunningError) as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(directory)
