"""``make cluster``: the examples' Deployments, by real controllers, until somebody has seen enough."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.client import AppsV1Api, Configuration, CoreV1Api
from kubernetes.client.api_client import ApiClient
from kubernetes.config import load_kube_config

from tests.cluster.hami.pods import CUDA
from tests.cluster.hami.team import annotations_of, cards_of
from tests.programs.catalogue import ETCD, HAMI_SCHEDULERS, KUBE_APISERVER, KUBE_CONTROLLER_MANAGER, KUBE_SCHEDULER
from tests.programs.left_out import GetProgram
from tests.server.conftest import until
from tests.topology.machines import H20_UUIDS

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[3]
COMMAND = [sys.executable, "-m", "tests.cluster.hami"]
DEADLINE_S = 120.0


@dataclass(frozen=True)
class Offered:
    """What the program says to a person."""

    process: subprocess.Popen[str]
    kubeconfig: Path
    logs: Path


@pytest.fixture
def offered(go_program: GetProgram, tmp_path: Path) -> Iterator[Offered]:
    """The program, once it has said where the kubeconfig is."""
    for program in (ETCD, KUBE_APISERVER, KUBE_SCHEDULER, KUBE_CONTROLLER_MANAGER, HAMI_SCHEDULERS["2.9.0"]):
        go_program(program)
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen([*COMMAND, "2.9.0"], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        impatient = threading.Timer(DEADLINE_S, process.kill)
        impatient.start()
        try:
            (kubeconfig,) = (line.split("=", 1)[1].strip() for line in first_lines(process.stdout, "KUBECONFIG="))
            (logs,) = tmp_path.glob("gpu-topology-cluster-*")
            impatient.cancel()
            yield Offered(process, Path(kubeconfig), logs)
        finally:
            impatient.cancel()
            process.kill()


def first_lines(said: Any, wanted: str) -> list[str]:
    """The first line with ``wanted`` in it; none if the program ends before."""
    for line in said:
        if wanted in line:
            return [line]
    return []


def test_the_examples_deployments_run_side_by_side_until_ctrl_c(offered: Offered) -> None:
    configuration = Configuration()
    load_kube_config(  # type: ignore[no-untyped-call]  # kubernetes.config has no annotations
        str(offered.kubeconfig), client_configuration=configuration
    )
    configuration.proxy = None
    with ApiClient(configuration) as client:
        core = CoreV1Api(client)
        for example in ("03-pd-prefill", "04-pd-decode"):
            text = (ROOT / "examples" / "workloads" / f"{example}.yaml").read_text()
            (manifest,) = (one for one in yaml.safe_load_all(text) if one["kind"] == "Deployment")
            AppsV1Api(client).create_namespaced_deployment("inference", manifest)

        def served() -> list[Any]:
            answer: Any = core.list_namespaced_pod("inference", _preload_content=False)
            pods = json.loads(answer.data)["items"]
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


def test_a_release_that_is_not_there_is_named_with_those_that_are() -> None:
    done = subprocess.run([*COMMAND, "2.5.0"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "expected a release of HAMi, one of 2.9.0, 2.10.0\n")
