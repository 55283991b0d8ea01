"""A real kube-scheduler that looks at the pods of one name only, and nodes for these pods."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kubernetes.client import CoreV1Api

from tests.control_plane.hami.nodes import READY, untaint
from tests.control_plane.processes import running


@contextmanager
def running_kube_scheduler(
    program: Path,
    kubeconfig: Path,
    directory: Path,
    *,
    name: str,
    extenders: Sequence[dict[str, Any]] = (),
    options: Sequence[str] = (),
) -> Iterator[None]:
    """From its start to the end of the block.

    Args:
        program: The executable file.
        kubeconfig: As whom it asks the API server.
        directory: Takes its configuration and its log.
        name: The ``schedulerName`` of its pods.
        extenders: Which it asks about nodes.
        options: More options, such as feature gates.
    """
    settings = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": name}],
        "extenders": list(extenders),
    }
    config = directory / "kube-scheduler.yaml"
    config.write_text(json.dumps(settings), encoding="utf-8")
    command: list[str | Path] = [program, f"--config={config}", "--secure-port=0", *options]
    with running("kube-scheduler", command, directory / "kube-scheduler.log"):
        yield


def make_ready(admin: CoreV1Api, name: str) -> None:
    """The node takes pods, and has no GPUs."""
    amounts = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    status: Any = {"status": {"capacity": amounts, "allocatable": amounts, "conditions": [READY]}}
    admin.patch_node_status(name, status)
    untaint(admin, name)
