"""The programs of this project on the machine: the remap program, and the agent for a minute."""

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import closing
from pathlib import Path
from socket import socket

from tests.gpu.gpus import ended
from tests.gpu.outcome import Machine, Outcome, holds_if
from webhook.programs.remap.verdict import ExitCode
from webhook.words import names

_NOWHERE = "GPU-ffffffff-ffff-ffff-ffff-ffffffffffff"
_ENOUGH_GPUS = 2
_KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: nowhere
contexts: [{name: nowhere, context: {cluster: nowhere, user: agent}}]
clusters: [{name: nowhere, cluster: {server: "https://127.0.0.1:9"}}]
users: [{name: agent, user: {token: none}}]
"""
"""No API server is there: the agent discovers, samples and serves metrics, and cannot publish."""


def remap_right(machine: Machine) -> Outcome:
    """Run the remap program as the pod would, with GPUs of this machine."""
    uuids = [gpu.uuid for gpu in machine.topology.gpus][:_ENOUGH_GPUS]
    return _remap(machine, uuids, ExitCode.TRUE)


def remap_wrong(machine: Machine) -> Outcome:
    """Run it with a UUID that no GPU here has: it has to stop the pod."""
    uuids = [gpu.uuid for gpu in machine.topology.gpus][:_ENOUGH_GPUS]
    return _remap(machine, [*uuids[:-1], _NOWHERE], ExitCode.GPU_MISSING)


def _remap(machine: Machine, uuids: list[str], expected: ExitCode) -> Outcome:
    environment = os.environ | {
        names.REMAP_PROFILE: "exclusive",
        names.REMAP_CONTAINERS: f"main:{len(uuids)}:",
        names.REMAP_NODE_NAME: "this-node",
        names.REMAP_ALLOCATION: "".join(f"{uuid},NVIDIA,1024,100:" for uuid in uuids) + ";",
        names.REMAP_NODE_TOPOLOGY: names.UNKNOWN_TOPOLOGY,
        names.REMAP_REQUIRE_NVLINK: "false",
    }
    folder = machine.folder / f"remap-{expected.name.lower()}"
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "webhook", "remap", "--directory", str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    print(done.stdout, done.stderr)
    why = f"exit code {done.returncode}, {int(expected)} expected, for {len(uuids)} GPUs"
    return holds_if(done.returncode == expected, why, code=done.returncode)


def agent(machine: Machine) -> Outcome:
    """Run the agent without an API server: its metrics have each GPU; its memory and CPU are measured."""
    kubeconfig = machine.folder / "kubeconfig.yaml"
    kubeconfig.write_text(_KUBECONFIG, encoding="utf-8")
    port = _free_port()
    command = [sys.executable, "-m", "webhook", "agent", "--node", "this-node", "--namespace", "gpu-topology-nodes"]
    command += ["--kubeconfig", str(kubeconfig), "--interval", "10", "--traffic-interval", "5"]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    end = time.monotonic() + machine.agent_seconds
    with ended(subprocess.Popen(command, stdout=sys.stdout, stderr=sys.stdout, text=True)) as process:
        metrics = ""
        missing = [gpu.uuid for gpu in machine.topology.gpus]
        while process.poll() is None and (time.monotonic() < end or (missing and time.monotonic() < end + 20)):
            time.sleep(0.2)
            metrics = _metrics(port)
            missing = [gpu.uuid for gpu in machine.topology.gpus if gpu.uuid not in metrics]
        if process.poll() is not None:
            return holds_if(False, f"the agent ended with exit code {process.returncode}")
        mib, seconds = _memory_mib(process.pid), _cpu_seconds(process.pid)
    (machine.folder / "agent-metrics.txt").write_text(metrics, encoding="utf-8")
    why = f"{mib:.0f} MiB at most, {seconds:.2f} s of CPU in {machine.agent_seconds:g} s"
    if missing:
        why = f"{len(missing)} of {len(machine.topology.gpus)} GPUs are in no metric; {why}"
    return holds_if(not missing, why, mib=mib, cpuSeconds=seconds)


def _metrics(port: int) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            return str(answer.read().decode())
    except (OSError, urllib.error.URLError):
        return ""


def _memory_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _free_port() -> int:
    with closing(socket()) as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])
