"""``make cluster``: the examples, typed by a person and run by real controllers, until somebody has seen enough."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.control_plane.hami.pods import CUDA
from tests.control_plane.hami.team import annotations_of, cards_of
from tests.go_programs.catalogue import HAMI_SCHEDULERS, KUBERNETES
from tests.go_programs.left_out import GetProgram
from tests.hardware.topology.machines import H20_UUIDS
from tests.programs.server.conftest import until

pytestmark = [pytest.mark.cluster, pytest.mark.long]

ROOT = Path(__file__).parents[3]
COMMAND = [sys.executable, "-m", "tests.control_plane.hami"]
DEADLINE_S = 120.0
TAKEN = """\
deployment.apps/pd-decode
deployment.apps/pd-prefill
deployment.apps/thumbnailer
deployment.apps/upload-api
deployment.apps/vllm
job.batch/distributed-training
pod/experiment
pod/nvlink-test
pod/pd-one-pod
pod/tried-out
service/distributed-training"""
NOT_INSTALLED = ["RayJob", "MPIJob", "PyTorchJob", "Job", "LeaderWorkerSet"]
"""Kinds of other operators, in the order of the examples; the Job is Volcano's."""


@dataclass(frozen=True)
class Offered:
    """What the program says to a person.

    Attributes:
        settings: Lines that a shell needs first.
        advised: The first command for it.
        logs: Directory of everything.
        home: Of the person.
    """

    process: subprocess.Popen[str]
    settings: list[str]
    advised: str
    logs: Path
    home: Path

    def typed(self, command: str) -> subprocess.CompletedProcess[str]:
        """What a person sees who types this in another terminal, after the settings."""
        return subprocess.run(
            ["/bin/sh", "-c", "\n".join([*self.settings, command])],
            cwd=ROOT,
            env={"HOME": str(self.home), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )


@pytest.fixture
def offered(go_program: GetProgram, tmp_path: Path) -> Iterator[Offered]:
    """The program, once it has said what to do."""
    for program in (*KUBERNETES, HAMI_SCHEDULERS["2.9.0"]):
        go_program(program)
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen([*COMMAND, "2.9.0"], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        impatient = threading.Timer(DEADLINE_S, process.kill)
        impatient.start()
        try:
            *settings, advised = lines_until(process.stdout, "kubectl apply ")
            (logs,) = tmp_path.glob("gpu-topology-cluster-*")
            impatient.cancel()
            home = tmp_path / "home"
            home.mkdir()
            yield Offered(process, settings, advised, logs, home)
        finally:
            impatient.cancel()
            process.kill()


def lines_until(said: Any, last: str) -> list[str]:
    """Lines that set something in a shell, up to the one that begins with ``last``."""
    found = []
    for line in map(str.strip, said):
        if line.startswith(("export ", "PATH=", last)):
            found.append(line)
        if line.startswith(last):
            return found
    raise EOFError(f"the program ended after {found}")


def test_the_examples_deployments_run_side_by_side_until_ctrl_c(offered: Offered) -> None:
    applied = offered.typed(offered.advised)
    assert (applied.returncode, applied.stderr) == (0, "")
    assert applied.stdout == "deployment.apps/pd-prefill created\ndeployment.apps/pd-decode created\n"

    def served() -> list[Any]:
        pods = json.loads(offered.typed("kubectl get pods --namespace=inference --output=json").stdout)["items"]
        return [pod for pod in pods if annotations_of(pod).get("hami.io/bind-phase") == "success"]

    until(lambda: len(served()) == 2, "two pods with GPUs")
    pods = served()
    assert {pod["spec"]["nodeName"] for pod in pods} == {"h20-node-1"}
    for pod in pods:
        own = sorted(map(H20_UUIDS.index, cards_of(pod)[0]))
        assert annotations_of(pod)[f"{CUDA}.0"] == ",".join(map(str, own))
    offered.process.send_signal(signal.SIGINT)
    assert offered.process.wait(DEADLINE_S) == 0
    assert not offered.logs.exists()


def test_the_api_server_takes_every_example_whose_kind_it_knows_but_the_refused_one(offered: Offered) -> None:
    said = offered.typed("kubectl apply --dry-run=server --filename=examples/workloads")
    assert sorted(said.stdout.splitlines()) == [f"{name} created (server dry run)" for name in TAKEN.splitlines()]
    assert re.findall('no matches for kind "(.*?)"', said.stderr) == NOT_INSTALLED
    (refused,) = re.findall('error when creating "(.*?)": admission webhook "(.*?)" denied the request', said.stderr)
    assert refused == ("examples/workloads/11-refused.yaml", "pods.gpu.topology")
