"""The process IDs of isolated pods, in PID namespaces of their own.

Each pod is a real PID namespace with a first process that only waits, as the pause container does where a pod has
``shareProcessNamespace``. Its containers start one after the other: the remap container, then the application.
"""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.nvml.machines import h20
from tests.programs.remap.pods import H20, NODE_PEERS, allocated
from tests.programs.remap.processes import PATIENCE_SECONDS, Node

_APART = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
_POD = """
import json, signal, subprocess, sys
remap, runs = json.loads(sys.argv[1])
codes = []
for _ in range(runs):
    done = subprocess.run(remap, capture_output=True, text=True)
    codes.append(done.returncode)
app = subprocess.Popen([sys.executable, "-c", sys.argv[2]], stdout=subprocess.PIPE, text=True)
process, worker = map(int, app.stdout.readline().split())
app.send_signal(signal.SIGTERM)
print(json.dumps({"codes": codes, "report": done.stdout, "pids": [process, worker], "end": app.wait()}))
"""
_APP = """
import os, time
worker = os.fork()
if worker:
    print(os.getpid(), worker, flush=True)
time.sleep(30)
"""


@pytest.fixture
def pod(nvml_library: Path, tmp_path: Path) -> Any:
    """Runs a pod with the cards of these indices; returns what became of it."""
    if not shutil.which("unshare") or subprocess.run([*_APART, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine gives no PID namespace to a process")

    def start(*cards: int, isolation: str = "isolated", runs: int = 1) -> Any:
        directory = tmp_path / f"pod-{'-'.join(map(str, cards))}-{isolation}-{runs}"
        directory.mkdir()
        node = Node(nvml_library, directory, h20())
        told = {
            "GPU_TOPOLOGY_CONTAINERS": f"serve:{len(cards)}:0",
            "GPU_TOPOLOGY_ALLOCATION": allocated([H20[card] for card in cards]),
            "GPU_TOPOLOGY_CUDA_VISIBLE_DEVICES_0": ",".join(map(str, sorted(cards))),
            "GPU_TOPOLOGY_ISOLATION": isolation,
        }
        remap = json.dumps([[*node.command, *node.options()], runs])
        done = subprocess.run(
            [*_APART, "--kill-child", sys.executable, "-c", _POD, remap, _APP],
            env={**node.environment, **NODE_PEERS, **told},
            cwd=node.tree,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=True,
        )
        return json.loads(done.stdout)

    return start


def test_two_equal_pods_have_equal_ids_and_isolated_ones_have_not(pod: Any) -> None:
    plain = [pod(card, isolation="host") for card in (0, 1)]
    isolated = [pod(card) for card in (0, 1)]
    assert [each["codes"] for each in (*plain, *isolated)] == [[0]] * 4
    assert plain[0]["pids"] == plain[1]["pids"]
    assert max(plain[0]["pids"]) < 2000
    assert 2000 < min(isolated[0]["pids"]) < max(isolated[0]["pids"]) < 4000 < min(isolated[1]["pids"]) < 6000
    assert "process IDs of the pod begin at 4000, by its first GPU, 1" in isolated[1]["report"]
    assert "process IDs" not in plain[1]["report"]


def test_the_first_of_several_gpus_counts_in_whatever_order_they_were_given(pod: Any) -> None:
    assert 4000 < min(pod(5, 1)["pids"]) < 6000


def test_an_application_ends_at_a_signal_as_no_first_process_of_a_namespace_does(pod: Any) -> None:
    assert pod(0)["end"] == -signal.SIGTERM


def test_a_second_run_of_the_remap_container_goes_through_no_further_numbers(pod: Any) -> None:
    found = pod(0, runs=2)
    assert found["codes"] == [0, 0]
    assert 2000 < min(found["pids"]) < 4000


def test_a_container_with_a_pid_namespace_of_its_own_says_that_it_can_do_nothing(
    nvml_library: Path, tmp_path: Path, pod: Any
) -> None:
    assert pod(0)["codes"] == [0]
    node = Node(nvml_library, tmp_path, h20())
    done = subprocess.run(
        [*_APART, *node.command, *node.options()],
        env={**node.environment, **NODE_PEERS, "GPU_TOPOLOGY_ISOLATION": "isolated"},
        cwd=node.tree,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0
    assert (
        "this container has a PID namespace of its own, so that its pod has the process IDs of its peers" in done.stdout
    )
