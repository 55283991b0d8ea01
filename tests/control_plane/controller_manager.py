"""The controllers of Kubernetes, for a person who tries Deployments and Jobs; tests create what these would create."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.processes import Program, running

WITHOUT_KUBELETS = ("node-lifecycle-controller", "taint-eviction-controller", "node-ipam-controller")
"""They would find that no node ever reports, and evict every pod."""


@contextmanager
def running_controller_manager(
    control_plane: ControlPlane, executable: Path, log: Path, *, only: Sequence[str] = ()
) -> Iterator[Program]:
    """All other controllers, as the administrator; or only those that are named."""
    others = ["*", *(f"-{name}" for name in WITHOUT_KUBELETS)]
    command: list[str | Path] = [
        executable,
        f"--kubeconfig={control_plane.kubeconfig}",
        f"--service-account-private-key-file={control_plane.directory / 'service-accounts.key'}",
        f"--root-ca-file={control_plane.ca_file}",
        f"--controllers={','.join(only or others)}",
        "--leader-elect=false",
        "--secure-port=0",
    ]
    with running("kube-controller-manager", command, log) as program:
        yield program
