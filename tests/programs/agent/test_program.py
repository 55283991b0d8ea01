"""``gpu-topology agent`` as people and kubelets run it, where no API server answers."""

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.nvml import machines as played
from tests.nvml.any_driver import AnyMachine
from tests.nvml.machines import Machine, description_of, write_machine
from tests.nvml.stub import environment_of, without_library
from tests.programs.agent.looks import nowhere
from tests.programs.server.conftest import until
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

    def plays(self, machine: Machine) -> None:
        """From now on the driver says this; its description may be read meanwhile, so it is replaced as a whole."""
        described = self.root / "nvml.new"
        described.write_text("".join(f"{line}\n" for line in description_of(machine)))
        described.rename(self.root / "nvml.txt")

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


def test_a_dry_run_prints_what_would_be_published(computer: Computer) -> None:
    code, out, err = computer.run("--dry-run", "--node", "node-1", "--namespace", "ns", machine=played.hgx_h100())
    assert (code, err) == (0, "")
    assert out.splitlines()[:2] == [
        "# Node node-1: label gpu.topology/nvlink=healthy",
        "# ConfigMap, owned by Node node-1:",
    ]
    config_map = yaml.safe_load(out)
    assert {key: config_map[key] for key in ("apiVersion", "kind", "metadata")} == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "gpu-topology-node-1",
            "namespace": "ns",
            "labels": {"gpu.topology/node": "node-1"},
        },
    }
    topology = parse_topology(config_map["data"]["topology.json"], source="test")
    assert (topology.node, len(topology.gpus), topology.gpus[0].active_links) == ("node-1", 8, 18)
    assert config_map["data"]["nccl-topo.xml"].startswith('<system version="1">\n')


def test_a_dry_run_says_what_is_wrong(computer: Computer) -> None:
    machine = played.hgx_h100().with_links_down(3, 0, 1)
    code, out, err = computer.run("--dry-run", "--once", "--node", "node-1", machine=machine)
    assert (code, err) == (0, "")
    head = [line for line in out.splitlines() if line.startswith("#")]
    assert head[0] == "# Node node-1: label gpu.topology/nvlink=degraded"
    assert head[1].startswith("# Finding: GPU3 has ")
    assert head[2].startswith("# Event Warning NVLinkDown: GT701: NVLinks are down: GPU3 GPU-")
    assert head[2].endswith(": 16 of 18 links up")


def test_links_that_an_a100_does_not_have_are_not_down(computer: Computer) -> None:
    code, out, err = computer.run("--dry-run", "--once", "--node", "n", machine=played.hgx_a100().with_slots(18))
    assert (code, err) == (0, "")
    assert [line for line in out.splitlines() if line.startswith("#")] == [
        "# Node n: label gpu.topology/nvlink=healthy",
        "# ConfigMap, owned by Node n:",
    ]


def test_a_link_of_an_a100_that_is_down_is_told_beside_those_that_it_does_not_have(computer: Computer) -> None:
    machine = played.hgx_a100().with_slots(18).with_links_down(3, 1)
    code, out, err = computer.run("--dry-run", "--once", "--node", "n", machine=machine)
    assert (code, err) == (0, "")
    assert [line for line in out.splitlines() if line.startswith("#")] == [
        "# Node n: label gpu.topology/nvlink=degraded",
        "# Finding: GPU3 has links down: 1 of 12 to nvswitch",
        (
            "# Event Warning NVLinkDown: GT701: NVLinks are down: "
            "GPU3 GPU-00000000-0000-0000-0000-000000000003: 11 of 12 links up"
        ),
        "# ConfigMap, owned by Node n:",
    ]


def test_an_old_driver_that_does_not_count_its_links_is_believed_in_what_it_answers(computer: Computer) -> None:
    machine = played.hgx_a100().with_slots(18).without_link_count()
    code, out, err = computer.run("--dry-run", "--once", "--node", "n", machine=machine)
    assert (code, err) == (0, "")
    assert "# Node n: label gpu.topology/nvlink=degraded" in out
    assert "# Finding: GPU0 has links down: 6 of 18 to nvswitch" in out


def test_a_dry_run_with_a_cordon_shows_what_the_first_round_would_write_at_the_node(computer: Computer) -> None:
    machine = played.hgx_h100().with_links_down(3, 0, 1)
    code, out, err = computer.run("--dry-run", "--cordon", "--node", "node-1", machine=machine)
    assert (code, err) == (0, "")
    uuid = "GPU-00000000-0000-0000-0000-000000000003"
    head = [line for line in out.splitlines() if line.startswith("#")]
    assert head[:3] == [
        "# Node node-1: label gpu.topology/nvlink=degraded",
        f"# Node node-1: annotation hami.io/device-cordon={uuid}",
        f"# Node node-1: annotation gpu.topology/cordoned={uuid}=links",
    ]
    assert f"# Event Warning GpuCordoned: GT708: HAMi allocates no more of these GPUs: {uuid}" in head


def test_without_a_cordon_a_dry_run_shows_no_annotation(computer: Computer) -> None:
    _, out, _ = computer.run("--dry-run", "--node", "node-1", machine=played.hgx_h100().with_links_down(3, 0, 1))
    assert "annotation" not in out
    assert "GpuCordoned" not in out


@pytest.mark.any_driver
def test_a_dry_run_shows_what_is_known_of_the_node_and_ends_well(computer: Computer, any_machine: AnyMachine) -> None:
    code, out, err = computer.run("--dry-run", "--once", "--node", "node-1", machine=any_machine)
    assert code == 0
    assert ours(err) == []
    assert out.splitlines()[0] in [f"# Node node-1: label gpu.topology/nvlink={state}" for state in any_machine.health]
    topology = parse_topology(yaml.safe_load(out)["data"]["topology.json"], source="test")
    assert [gpu.index for gpu in topology.lost] == list(any_machine.lost)


def ours(err: str) -> list[str]:
    """What we said, but for what is incomplete; a library of others may write there too."""
    lines = [line for line in err.splitlines() if line.startswith("gpu-topology: ")]
    return [line for line in lines if not line.startswith("gpu-topology: incomplete: ")]


def test_a_dry_run_with_a_cordon_of_a_sound_node_cordons_nothing(computer: Computer) -> None:
    _, out, _ = computer.run("--dry-run", "--cordon", "--node", "node-1", machine=played.hgx_h100())
    assert "annotation" not in out


def test_a_dry_run_with_taints_shows_them_and_writes_no_annotation(computer: Computer) -> None:
    machine = played.hgx_h100().with_links_down(3, 0, 1)
    code, out, err = computer.run("--dry-run", "--taint-devices", "--node", "node-1", machine=machine)
    assert (code, err) == (0, "")
    uuid = "GPU-00000000-0000-0000-0000-000000000003"
    assert f"# Taint of the devices of {uuid}: gpu.topology/nvlink-down=2:NoSchedule" in out.splitlines()
    assert "annotation" not in out


def test_without_taints_a_dry_run_shows_none(computer: Computer) -> None:
    machine = played.hgx_h100().with_links_down(3, 0, 1)
    code, out, err = computer.run("--dry-run", "--node", "node-1", machine=machine)
    assert (code, err) == (0, "")
    assert "# Node node-1: label gpu.topology/nvlink=degraded" in out.splitlines()
    assert "Taint" not in out


@pytest.mark.parametrize("node", ["Node_1", "node-", "a..b", "-a", "跳", "n" * 254, "node\n"])
@pytest.mark.parametrize("options", [("--dry-run",), ("--once", "--namespace", "ns")])
def test_a_name_that_no_node_can_have_is_refused(computer: Computer, node: str, options: tuple[str, ...]) -> None:
    code, out, err = computer.run(*options, "--node", node, machine=None)
    assert (code, out) == (2, "")
    assert "Invalid value for --node: expected the name of a Node, a DNS subdomain such as gpu-node-1, found" in err


def test_a_dry_run_tells_of_a_lost_gpu_and_goes_on(computer: Computer) -> None:
    code, out, _ = computer.run("--dry-run", "--node", "node-1", machine=played.hgx_h100().with_lost(2))
    assert code == 0
    assert "# Event Warning GpuLost: GT703: GPUs are lost: GPU2" in out
    topology = parse_topology(yaml.safe_load(out)["data"]["topology.json"], source="test")
    assert (len(topology.gpus), len(topology.lost)) == (7, 1)


def test_a_dry_run_of_an_incomplete_picture_says_what_is_missing(computer: Computer) -> None:
    machine = played.hgx_h100().with_lines("p2p 0 3 1")
    code, out, err = computer.run("--dry-run", "--node", "node-1", machine=machine)
    assert code == 0
    assert err.startswith("gpu-topology: incomplete: ")
    problem = parse_topology(yaml.safe_load(out)["data"]["topology.json"], source="test").problem
    assert err == f"gpu-topology: incomplete: {problem}\n"


@pytest.mark.parametrize("options", [("--dry-run",), ("--dry-run", "--once")])
def test_a_dry_run_without_a_driver_says_so(computer: Computer, options: tuple[str, ...]) -> None:
    code, out, err = computer.run(*options, "--node", "node-1", machine=None)
    assert (code, err) == (1, f"gpu-topology: no topology of node node-1: {NO_DRIVER}\n")
    assert "label gpu.topology/nvlink=absent" in out
    assert yaml.safe_load(out)["data"].keys() == {"topology.json"}


@pytest.mark.any_driver
def test_a_dry_run_takes_the_name_of_the_machine_if_it_is_told_none(
    computer: Computer, any_machine: AnyMachine
) -> None:
    _, out, _ = computer.run("--dry-run", machine=any_machine)
    assert out.startswith(f"# Node {socket.gethostname().lower()}: ")


@pytest.mark.any_driver
def test_a_dry_run_takes_names_from_variables(computer: Computer, any_machine: AnyMachine) -> None:
    variables = {"NODE_NAME": "node-7", "POD_NAMESPACE": "ns-7"}
    _, out, _ = computer.run("--dry-run", machine=any_machine, variables=variables)
    metadata = yaml.safe_load(out)["metadata"]
    assert (metadata["name"], metadata["namespace"]) == ("gpu-topology-node-7", "ns-7")


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
def test_wrong_usage_is_said(computer: Computer, given: tuple[str, ...], said: str) -> None:
    code, _, err = computer.run(*given, machine=None)
    assert code == 2
    assert said in err


def test_outside_of_a_cluster_a_kubeconfig_is_asked_for(computer: Computer) -> None:
    code, out, err = computer.run("--node", "n", "--namespace", "ns", machine=None)
    assert (code, out) == (1, "")
    assert err.startswith("gpu-topology: expected to run as a pod with a service account: ")
    assert err.endswith("Outside of a cluster give --kubeconfig FILE\n")


@pytest.mark.any_driver
def test_one_round_without_an_api_server_fails_with_the_reason(
    computer: Computer, kubeconfig: Path, any_machine: AnyMachine
) -> None:
    options = ("--once", "--node", "n", "--namespace", "ns", "--kubeconfig", kubeconfig)
    code, _, err = computer.run(*options, machine=any_machine)
    assert code == 1
    (said,) = ours(err)
    assert said.startswith("gpu-topology: get node n: https://127.0.0.1:")


@pytest.mark.any_driver
def test_one_round_tells_its_error_once_and_promises_no_retry(
    computer: Computer, kubeconfig: Path, any_machine: AnyMachine
) -> None:
    options = ("--once", "--node", "n", "--namespace", "ns", "--kubeconfig", kubeconfig)
    _, out, _ = computer.run(*options, machine=any_machine)
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
        return httpx.get(f"http://127.0.0.1:{self._port}{path}", trust_env=False, timeout=30)

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
    command += ["--host", "127.0.0.1", "--port", str(port), "--traffic-interval", "1"]
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
def test_metrics_are_served_while_the_api_server_is_away(running: Running, any_machine: AnyMachine) -> None:
    metrics = running.metrics()
    states = [f'gpu_topology_health{{node="n",state="{state}"}} 1.0' for state in any_machine.health]
    assert len(set(states) & set(metrics)) == 1
    assert 'gpu_topology_publication_in_step{node="n"} 0.0' in metrics
    assert running.get("/healthz").json() == {"status": "ok"}
    ready = running.get("/readyz")
    assert ready.status_code == 503
    assert ready.json()["status"].startswith("get node n: https://127.0.0.1:")
    assert running.get("/").status_code == 404


def test_counters_of_the_driver_become_totals_that_never_fall(running: Running, computer: Computer) -> None:
    uuid = played.hgx_h100().cards[0].uuid
    labels = f'{{direction="tx",gpu="0",node="n",uuid="{uuid}"}}'
    totals = [f"gpu_topology_{name}_bytes_total{labels} " for name in ("nvlink", "pcie")]

    def shown() -> list[float]:
        return [float(line.rpartition(" ")[2]) for total in totals for line in running.metrics() if total in line]

    assert shown() == []
    link = 18 * 1024
    script = [
        ((1000, 5000), [0, 0], "first seen"),
        ((1010, 6000), [10 * link, 1000], "grown"),
        ((3, 7), [10 * link, 1000], "the driver was loaded anew"),
        ((4, 9), [11 * link, 1002], "grown again"),
    ]
    for (kib, pcie), expected, what in script:
        computer.plays(played.hgx_h100().with_counters(0, nvlink_kib=(kib, kib), pcie=(pcie, pcie), busy=50))
        until(lambda expected=expected: shown() == expected, what)  # type: ignore[misc]  # mypy knows no defaults of it
        time.sleep(1.1)  # what is shown is that of this step, and not of the one before
    computer.plays(played.hgx_h100())
    until(lambda: shown() == [], "what is not told any more is absent")


@pytest.mark.any_driver
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_program(running: Running, how: signal.Signals) -> None:
    running.process.send_signal(how)
    assert running.process.wait(30) == 0
    lines = running.lines()
    assert lines[0]["message"] == "started"
    assert lines[-1].items() >= {"level": "info", "message": "stopping", "node": "n", "signal": how.name}.items()


@pytest.mark.any_driver
def test_a_client_that_hangs_up_is_not_worth_a_line(running: Running) -> None:
    port = running.get("/healthz").url.port
    assert port is not None
    for request in (b"", b"GET /metrics HTTP/1.1\r\n", b"nonsense\r\n\r\n", b"POST /metrics HTTP/1.0\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(request)
    assert running.get("/healthz").status_code == 200
    assert {line["message"] for line in running.lines()} <= {"started", "discovered", "failed"}


@pytest.mark.any_driver
def test_every_line_of_the_log_names_the_node(running: Running) -> None:
    assert {line["node"] for line in running.lines()} == {"n"}
