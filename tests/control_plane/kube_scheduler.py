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


def create_node_for(admin: CoreV1Api, scheduler: str, name: str) -> None:
    """A node that is ready and has no GPUs, with the label ``for`` that pods of the scheduler select."""
    amounts = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    node: Any = {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "for": scheduler}},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [READY]},
    }
    admin.create_node(node)
    untaint(admin, name)
