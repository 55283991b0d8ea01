"""``gpu-topology agent`` as people and kubelets run it, where no API server answers."""

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.cli.command import gpu_topology
from tests.nvml import machines as played
from tests.nvml.any_driver import AnyMachine
from tests.nvml.machines import Machine, write_machine
from tests.nvml.stub import environment_of, without_library
from tests.programs.agent.looks import nowhere
from tests.programs.server.conftest import NO_TLS, until
from webhook.hardware.topology.document import parse_topology

ROOT = Path(__file__).parents[3]
VARIABLES = ("NODE_NAME", "POD_NAMESPACE", "KUBERNETES_SERVICE_HOST", "HTTPS_PROXY", "HTTP_PROXY")
NO_DRIVER = (
    "libnvidia-ml.so.1 is not here: install the NVIDIA driver or, in a container, use NVIDIA's runtime with the "
    "driver capability utility or, where the GPU Operator's NRI plugin stands in for that runtime, ask it by an "
    "annotation of the pod (nvidia.cdi.k8s.io/container.NAME)"
)


class Computer:
    """A machine with or without a driver, on which the command is run."""

    def __init__(self, library: Path, directory: Path) -> None:
        self._library = library
        self.root = directory / "root"
        self._empty = directory / "no-driver"
        self._empty.mkdir()

    def environment(self, machine: Machine | AnyMachine | None) -> dict[str, str]:
        if machine is None:
            found = environment_of(without_library(self._empty))
        elif isinstance(machine, AnyMachine):
            self.root, found = machine.root, dict(machine.environment)
        else:
            found = environment_of(self._library, write_machine(machine, self.root))
        return {key: value for key, value in found.items() if key not in VARIABLES} | {"COLUMNS": "200"}

    def run(
        self, *arguments: str | Path, machine: Machine | AnyMachine | None, variables: Mapping[str, str] | None = None
    ) -> tuple[int, str, str]:
        """Exit code and what was said."""
        environment = self.environment(machine) | dict(variables or {})
        command = [sys.executable, "-m", "webhook", "agent", "--root", str(self.root), *map(str, arguments)]
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=300, check=False
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout, done.stderr


@pytest.fixture
def computer(nvml_library: Path, tmp_path: Path) -> Computer:
    return Computer(nvml_library, tmp_path)


@pytest.fixture
def kubeconfig(tmp_path: Path, port: int) -> Path:
    """For a server that does not answer."""
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(nowhere(f"https://127.0.0.1:{port}")))
    return path


def test_a_dry_run_of_an_incomplete_picture_takes_names_from_variables_and_says_what_is_missing(
    computer: Computer,
) -> None:
    machine = played.hgx_h100().with_lines("p2p 0 3 1")
    variables = {"NODE_NAME": "node-7", "POD_NAMESPACE": "ns-7"}
    code, out, err = computer.run("--dry-run", machine=machine, variables=variables)
    assert code == 0
    config_map = yaml.safe_load(out)
    metadata = config_map["metadata"]
    assert (metadata["name"], metadata["namespace"]) == ("gpu-topology-node-7", "ns-7")
    problem = parse_topology(config_map["data"]["topology.json"], source="test").problem
    assert problem
    assert err == f"gpu-topology: incomplete: {problem}\n"


def test_a_dry_run_without_a_driver_says_so_and_takes_the_name_of_the_machine(computer: Computer) -> None:
    name = socket.gethostname().lower()
    code, out, err = computer.run("--dry-run", machine=None)
    assert (code, err) == (1, f"gpu-topology: no topology of node {name}: {NO_DRIVER}\n")
    assert out.startswith(f"# Node {name}: label gpu.topology/nvlink=absent\n")
    assert yaml.safe_load(out)["data"].keys() == {"topology.json"}


@pytest.mark.parametrize("node", ["Node_1", "node-", "a..b", "-a", "跳", "n" * 254, "node\n"])
def test_a_name_that_no_node_can_have_is_refused(node: str) -> None:
    for options in (("--dry-run",), ("--once", "--namespace", "ns")):
        done = gpu_topology("agent", *options, "--node", node)
        assert (done.code, done.out) == (2, "")
        said = "Invalid value for --node: expected the name of a Node, a DNS subdomain such as gpu-node-1, found"
        assert said in done.err


def test_a_dry_run_does_not_load_the_client_of_the_cluster() -> None:
    program = (
        "import sys; import webhook.programs.agent.preview, webhook.cli.agent; print([name for name in "
        "('kubernetes', 'urllib3', 'prometheus_client') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--namespace", "ns"), "Invalid value for --node: expected a name, or the variable NODE_NAME"),
        (("--node", "n"), "Invalid value for --namespace: expected a name, or the variable POD_NAMESPACE"),
        (("--node", "n", "--namespace", "ns", "--interval", "0"), "Invalid value for '--interval'"),
        (("--node", "n", "--namespace", "ns", "--interval", "nan"), "Invalid value for '--interval'"),
    ],
)
def test_wrong_usage_is_said(given: tuple[str, ...], said: str) -> None:
    done = gpu_topology("agent", *given)
    assert done.code == 2
    assert said in done.err


def test_outside_of_a_cluster_a_kubeconfig_is_asked_for() -> None:
    done = gpu_topology("agent", "--node", "n", "--namespace", "ns")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("gpu-topology: expected to run as a pod with a service account: ")
    assert done.err.endswith("Outside of a cluster give --kubeconfig FILE\n")


def ours(err: str) -> list[str]:
    """What we said, but for what is incomplete; a library of others may write there too."""
    lines = [line for line in err.splitlines() if line.startswith("gpu-topology: ")]
    return [line for line in lines if not line.startswith("gpu-topology: incomplete: ")]


@pytest.mark.any_driver
def test_one_round_without_an_api_server_fails_with_the_reason_and_promises_no_retry(
    computer: Computer, kubeconfig: Path, any_machine: AnyMachine
) -> None:
    options = ("--once", "--node", "n", "--namespace", "ns", "--kubeconfig", kubeconfig)
    code, out, err = computer.run(*options, machine=any_machine)
    assert code == 1
    (said,) = ours(err)
    assert said.startswith("gpu-topology: get node n: https://127.0.0.1:")
    assert [json.loads(line)["message"] for line in out.splitlines()] == ["discovered"]
    assert "retrySeconds" not in out


def test_a_port_in_use_is_named(computer: Computer, kubeconfig: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        options = ("--node", "n", "--namespace", "ns", "--kubeconfig", kubeconfig, "--host", "127.0.0.1")
        code, _, err = computer.run(*options, "--port", str(port), machine=None)
    assert code == 1
    assert err == (
        f"gpu-topology: cannot listen on 127.0.0.1 port {port}: Address already in use. "
        "Choose others with --host and --port\n"
    )


class Running:
    """An agent that runs."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, out: Path) -> None:
        self.process, self._port, self._out = process, port, out

    def get(self, path: str) -> httpx.Response:
        return httpx.get(f"http://127.0.0.1:{self._port}{path}", verify=NO_TLS, trust_env=False, timeout=30)

    def metrics(self) -> list[str]:
        try:
            return self.get("/metrics").text.splitlines()
        except httpx.TransportError:
            assert self.process.poll() is None, self._out.read_text()
            return []

    def lines(self) -> list[dict[str, Any]]:
        written = self._out.read_text().splitlines()
        return [json.loads(line) for line in written if line.startswith("{")]  # a library of others may write too


@pytest.fixture
def running(
    computer: Computer, kubeconfig: Path, port: int, tmp_path: Path, any_machine: AnyMachine
) -> Iterator[Running]:
    """An agent whose API server does not answer, after its first round."""
    out = tmp_path / "out"
    command = [sys.executable, "-m", "webhook", "agent", "--node", "n", "--namespace", "ns", "--interval", "600"]
    environment = computer.environment(any_machine)
    command += ["--kubeconfig", str(kubeconfig), "--root", str(computer.root)]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    with out.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, cwd=ROOT, env=environment)
    agent = Running(process, port, out)
    try:
        errors = 'gpu_topology_agent_errors_total{kind="api",node="n"} '
        none = f"{errors}0.0"
        until(lambda: any(line.startswith(errors) and line != none for line in agent.metrics()), "the first round")
        yield agent
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(30)


@pytest.mark.any_driver
def test_metrics_and_probes_are_served_while_the_api_server_is_away(running: Running, any_machine: AnyMachine) -> None:
    metrics = running.metrics()
    states = [f'gpu_topology_health{{node="n",state="{state}"}} 1.0' for state in any_machine.health]
    assert len(set(states) & set(metrics)) == 1
    assert 'gpu_topology_publication_in_step{node="n"} 0.0' in metrics
    assert running.get("/healthz").json() == {"status": "ok"}
    ready = running.get("/readyz")
    assert ready.status_code == 503
    assert ready.json()["status"].startswith("get node n: https://127.0.0.1:")
    assert running.get("/").status_code == 404
    port = ready.url.port
    assert port is not None
    for request in (b"", b"GET /metrics HTTP/1.1\r\n", b"nonsense\r\n\r\n", b"POST /metrics HTTP/1.0\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(request)
    assert running.get("/healthz").status_code == 200
    lines = running.lines()
    assert {line["message"] for line in lines} <= {"started", "discovered", "failed", "library"}
    said = {line["text"] for line in lines if line["message"] == "library"}
    assert said <= {"Invalid HTTP request received."}, "a client that hangs up is not worth a line"
    assert {line["node"] for line in lines} == {"n"}


@pytest.mark.any_driver
@pytest.mark.parametrize("how", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)])
def test_a_signal_ends_the_program(running: Running, how: signal.Signals) -> None:
    running.process.send_signal(how)
    assert running.process.wait(30) == 0
    lines = running.lines()
    assert lines[0]["message"] == "started"
    assert lines[-1].items() >= {"level": "info", "message": "stopping", "node": "n", "signal": how.name}.items()
