"""The webhook as a process, and what a cluster does around it: API server, HAMi's scheduler, kubelet."""

import base64
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from webhook.words import names
from webhook.words.errors import GpuTopologyError, ManifestError

if TYPE_CHECKING:
    import httpx

    from webhook.cli.workload import Injected, Injection
    from webhook.hardware.topology.model import Gpu

Manifest = dict[str, Any]
_START_TIMEOUT_SECONDS = 30.0
_KEPT = ("PATH", "PYTHONPATH", "PYTHONWARNINGS", "LANG", "HOME")


@dataclass(frozen=True, kw_only=True, slots=True)
class Driver:
    """A stand-in for the driver of a node: a directory with ``libnvidia-ml.so.1``, sysfs, and its variables."""

    directory: Path
    environment: Mapping[str, str]

    @classmethod
    def read(cls, directory: Path) -> "Driver":
        """Read the stand-in in this directory; ``python -m tests.nvml`` makes one.

        Raises:
            ManifestError: the directory has none.
        """
        settings = directory / "environment"
        if not settings.is_file():
            raise ManifestError(
                f"--driver {directory}: expected a stand-in for a driver, as 'make demo' makes, found none"
            )
        lines = settings.read_text(encoding="utf-8").splitlines()
        return cls(directory=directory, environment=dict(line.split("=", 1) for line in lines if "=" in line))


@contextmanager
def running_webhook(state: Path) -> "Iterator[httpx.Client]":
    """Run a webhook, and yield a client that trusts it. The webhook is stopped at the end in any case."""
    import httpx

    from certs.context import authority_context

    with tempfile.TemporaryDirectory() as directory:
        authority = Path(directory, "ca.crt")
        port, ops_port = _free_ports(2)
        arguments = ["--state", str(state), "--self-signed", "--ca-file", str(authority), "--host", "127.0.0.1"]
        ports = ["--port", str(port), "--ops-port", str(ops_port)]
        command = [sys.executable, "-m", "webhook", "serve", *arguments, *ports]
        with Path(directory, "log").open("w+b") as log:
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)  # noqa: S603 - ourselves
            try:
                _wait_until_ready(process, f"http://127.0.0.1:{ops_port}/readyz", Path(directory, "log"))
                context = authority_context(authority.read_bytes())
                with httpx.Client(base_url=f"https://127.0.0.1:{port}", verify=context, timeout=10) as client:
                    yield client
            finally:
                process.send_signal(signal.SIGINT)  # SIGTERM would drain first
                process.wait()


def create(client: "httpx.Client", injected: "Injected") -> tuple[bool, bytes]:
    """Return whether the webhook lets a pod be created, and its patch."""
    request = {"resource": {"group": "", "version": "v1", "resource": "pods"}, "object": json.loads(injected.pod)}
    answer = _review(client, "/mutate/pods", request | {"namespace": injected.namespace})
    return answer["allowed"], base64.b64decode(answer.get("patch", ""))


def injected_pods(name: str, injection: "Injection") -> Iterator[Manifest]:
    """Yield the pods of a workload as the API server stores them after the webhook's patch."""
    from webhook.cli.workload import apply_in_place

    for template in injection.templates:
        pod: Manifest = apply_in_place(json.loads(template.pod), template.outcome.operations)
        metadata = pod.setdefault("metadata", {})
        metadata.setdefault("name", f"{name.split('-', 1)[1]}-0")
        metadata |= {"namespace": template.namespace, "uid": str(uuid.uuid4())}
        yield {"apiVersion": "v1", "kind": "Pod"} | pod


def allocate(pod: Manifest, node: str, free: list["Gpu"]) -> None:
    """Give the pod GPUs from ``free``, and annotate it as HAMi does: in the order in which HAMi picks them."""
    from webhook.decisions.allocation.hami import DIALECT
    from webhook.decisions.allocation.model import WHOLE, Allocation, Device

    segments = []
    for container in pod["spec"]["containers"]:
        count = int(container.get("resources", {}).get("limits", {}).get("nvidia.com/gpu", 0))
        taken = [free.pop(0) for _ in range(count)]
        devices = [Device(uuid=gpu.uuid, memory_mib=gpu.memory_mib, cores=WHOLE) for gpu in reversed(taken)]
        segments.append(tuple(devices))
    allocation = Allocation(segments=tuple(segments))
    pod["metadata"]["annotations"] |= {DIALECT.key: DIALECT.format(allocation), DIALECT.node_key: node}


def bind(client: "httpx.Client", pod: Manifest, node: str) -> None:
    """Bind the pod, with the annotations that the webhook puts onto the Binding.

    Raises:
        GpuTopologyError: the webhook refuses the Binding.
    """
    import jsonpatch

    metadata = pod["metadata"]
    named = {"name": metadata["name"], "namespace": metadata["namespace"]}
    binding: Manifest = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": named | {"uid": metadata["uid"]},
        "target": {"kind": "Node", "name": node},
    }
    of_pods = {"group": "", "version": "v1", "resource": "pods"}
    request = {"resource": of_pods, "subResource": "binding", "object": binding}
    answer = _review(client, "/mutate/bindings", request | named)
    if not answer["allowed"]:
        raise GpuTopologyError(f"the Binding was refused: {answer['status']['message']}")
    bound = jsonpatch.apply_patch(binding, json.loads(base64.b64decode(answer.get("patch", b"W10="))))
    metadata["annotations"] |= bound["metadata"].get("annotations", {})
    pod["spec"]["nodeName"] = node


def environment_of(container: Manifest, pod: Manifest) -> dict[str, str]:
    """Return the variables of a container as the kubelet sets them. A missing annotation gives an empty one."""
    found = {}
    for entry in container.get("env", []):
        path = entry.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", "")
        key = path.removeprefix("metadata.annotations['").removesuffix("']")
        annotation = str(pod["metadata"]["annotations"].get(key, ""))
        value = str(pod["spec"]["nodeName"]) if path == "spec.nodeName" else annotation
        found[entry["name"]] = value if path else entry.get("value", "")
    return found


def start(pod: Manifest, driver: Driver | None) -> tuple[int, str]:
    """Run the remap program of a pod as a process, and return its exit code and its termination message."""
    containers = pod["spec"]["initContainers"]
    (remap,) = (container for container in containers if container["name"] == names.REMAP_CONTAINER)
    environment = {name: value for name in _KEPT if (value := os.environ.get(name))} | environment_of(remap, pod)
    root: list[str] = []
    if driver:
        environment |= {"LD_LIBRARY_PATH": str(driver.directory), **driver.environment}
        root = ["--root", str(driver.directory / "root")]
    with tempfile.TemporaryDirectory() as directory:
        files, log = Path(directory, "files"), Path(directory, "termination-log")
        files.mkdir()
        log.touch()  # as the kubelet does
        arguments = ["--mode", "init", "--directory", str(files), "--termination-log", str(log), *root]
        command = [sys.executable, "-m", "webhook", *remap["command"][1:], *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, check=False, text=True)  # noqa: S603
        return done.returncode, log.read_text(encoding="utf-8").strip() or done.stderr.strip()


def _review(client: "httpx.Client", path: str, request: Manifest) -> Manifest:
    """Return the ``response`` of the webhook to a review with this ``request``."""
    made = {"uid": str(uuid.uuid4()), "operation": "CREATE", **request}
    reply = client.post(path, json={"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": made})
    reply.raise_for_status()
    response: Manifest = reply.json()["response"]
    return response


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in sockets]
    for listener in sockets:
        listener.close()
    return ports


def _wait_until_ready(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    import httpx

    deadline = time.monotonic() + _START_TIMEOUT_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            if httpx.get(url).is_success:
                return
        except httpx.TransportError:
            time.sleep(0.02)
    raise GpuTopologyError(f"the webhook did not start:\n{log.read_text(errors='replace')}")
