"""Karpenter beside a cluster with HAMi, with the provider of its own tests: its decisions are real, no node comes."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import yaml

from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.hami.planning import is_ready
from tests.control_plane.manifests import applied, request
from tests.control_plane.processes import Program, running
from tests.ports import reserved_port
from tests.programs.server.conftest import until

CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
MACHINE = "eight-cards"
"""The only type of machine."""
RESOURCES = {"cpu": "192", "memory": "2Ti", "pods": "110", "nvidia.com/gpu": "8"}
WORDS = {"nvidia.com/gpucores": "800", "nvidia.com/gpumem-percentage": "800"}
"""What HAMi counts beside the cards, which no node has."""
NEVER = "100h"


@dataclass(frozen=True)
class Karpenter:
    """One that runs."""

    program: Program
    control_plane: ControlPlane

    def claims(self) -> list[dict[str, Any]]:
        """The machines that it has asked for."""
        found: list[dict[str, Any]] = request(self.control_plane, "GET", CLAIMS).json()["items"]
        return found


@contextmanager
def running_karpenter(
    control_plane: ControlPlane, executable: Path, sources: Path, directory: Path, resources: Mapping[str, str]
) -> Iterator[Karpenter]:
    """Karpenter, as the administrator, which may ask for machines with these resources; it forgets them in the end."""
    offering = {
        "Price": 1.0,
        "Available": True,
        "Requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-a"]},
        ],
    }
    machine = {"name": MACHINE, "architecture": "amd64", "operatingSystems": ["linux"]}
    types = directory / "types.json"
    types.write_text(json.dumps([machine | {"offerings": [offering], "resources": dict(resources)}]), encoding="utf-8")
    with ExitStack() as stack:
        metrics, health = stack.enter_context(reserved_port()), stack.enter_context(reserved_port())
        _install(control_plane, sources)
        environment = {
            **os.environ,
            "KUBECONFIG": str(control_plane.kubeconfig),
            "SYSTEM_NAMESPACE": "kube-system",
            "DISABLE_LEADER_ELECTION": "true",
            "METRICS_PORT": str(metrics),
            "HEALTH_PROBE_PORT": str(health),
            "INSTANCE_TYPES_FILE_PATH": str(types),
        }
        stack.callback(_forget, control_plane)
        program = stack.enter_context(running("karpenter", [executable], directory / "karpenter.log", environment))
        program.wait_until(lambda: is_ready(health))
        yield Karpenter(program, control_plane)


def _install(control_plane: ControlPlane, sources: Path) -> None:
    """Its kinds, and one pool of machines that are launched and never register."""
    for folder in (sources / "pkg" / "apis" / "crds", sources / "kwok" / "apis" / "crds"):
        for file in sorted(folder.glob("karpenter*.yaml")):
            applied(control_plane, yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader))
    group, kind, name = "karpenter.kwok.sh", "KWOKNodeClass", "default"
    late = {"nodeRegistrationDelay": NEVER}
    applied(
        control_plane,
        {"apiVersion": f"{group}/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": late},
    )
    template = {"spec": {"nodeClassRef": {"group": group, "kind": kind, "name": name}, "requirements": []}}
    pool = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "cards"}}
    applied(control_plane, pool | {"spec": {"template": template}})


def _forget(control_plane: ControlPlane) -> None:
    """Nothing is left of its machines: with Karpenter gone, no one else ends them."""
    for claim in request(control_plane, "GET", CLAIMS).json()["items"]:
        path = f"{CLAIMS}/{claim['metadata']['name']}"
        merge = {"Content-Type": "application/merge-patch+json"}
        body = json.dumps({"metadata": {"finalizers": None}})
        assert request(control_plane, "PATCH", path, headers=merge, content=body).status_code == HTTPStatus.OK
        request(control_plane, "DELETE", path)
    until(lambda: not request(control_plane, "GET", CLAIMS).json()["items"], "no machine of Karpenter")
