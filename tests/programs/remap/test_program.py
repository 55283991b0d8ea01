"""``gpu-topology remap`` as the kubelet runs it."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread

import pytest

from tests.hardware.topology import machines as topologies
from tests.hardware.topology.nccl_rules import faults
from tests.nvml.machines import Machine, a100_pcie_bridged, h20
from tests.programs.remap.planted import PLANTED, Plant
from tests.programs.remap.pods import DECODE, EXCLUSIVE, H20, NODE_PEERS, NOT_BOUND, POD_PEERS, allocated
from tests.programs.remap.processes import PATIENCE_SECONDS, REMAP, ROOT, Node, terminated
from webhook.hardware.topology.document import format_topology

EXPECTED = Path(__file__).parent / "expected"
OnNode = Callable[[Machine | None], Node]


@pytest.fixture
def on(nvml_library: Path, tmp_path: Path) -> OnNode:
    return lambda machine: Node(nvml_library, tmp_path, machine)


@pytest.fixture
def node(on: OnNode) -> Node:
    """The machine of the example, with eight H20."""
    return on(h20())


def variables(base: dict[str, str], **changes: str) -> dict[str, str]:
    return base | {f"GPU_TOPOLOGY_{name}": value for name, value in changes.items()}


def test_prefill_and_decode_get_their_files(node: Node) -> None:
    done = node.remap(variables(POD_PEERS, REQUIRE_NVLINK="true"))
    assert (done.code, done.err, done.reason) == (0, "", "")
    assert node.files() == ["env", "nccl-topo.xml", "report.txt"]
    assert done.out == node.read("report.txt") == (EXPECTED / "report-pod-peers.txt").read_text()
    assert node.read("env") == (EXPECTED / "env-1.35").read_text().replace("NCCL_ALGO='NVLS'\n", "")


def test_variables_of_some_link_classes_stand_in_a_file_of_nccls(on: OnNode) -> None:
    tables = '{"variables":{"NCCL_MIN_NCHANNELS":{"nvlink":"16","nvswitch":"32"},"NCCL_PROTO":{"pcie":"Simple"}}}'
    node = on(h20())
    assert node.remap(variables(EXCLUSIVE, NCCL=tables)).code == 0
    assert node.files() == ["env", "nccl-topo.xml", "nccl.conf", "report.txt"]
    assert node.read("nccl.conf") == "NCCL_MIN_NCHANNELS=32\n"
    assert "NCCL_MIN_NCHANNELS" not in node.read("env")


def test_there_is_no_file_of_nccls_where_nothing_is_to_be_said(node: Node) -> None:
    tables = '{"variables":{"NCCL_PROTO":{"pcie":"Simple"}}}'
    assert node.remap(variables(EXCLUSIVE, NCCL=tables)).code == 0
    assert node.files() == ["env", "nccl-topo.xml", "report.txt"]


def test_the_format_of_kubernetes_1_34_is_written_if_asked_for(node: Node) -> None:
    assert node.remap(POD_PEERS, "--env-format", "1.34").code == 0
    assert node.read("env") == (EXPECTED / "env-1.34").read_text().replace("NCCL_ALGO=NVLS\n", "")


def test_the_topology_file_names_host_indices_where_ranks_are_in_several_containers(node: Node) -> None:
    node.remap(NODE_PEERS)
    text = node.read("nccl-topo.xml")
    assert faults(text) == []
    assert '<gpu dev="4" sm="90">' in text


def test_the_topology_file_names_none_where_they_share_one(node: Node) -> None:
    node.remap(EXCLUSIVE)
    assert '<gpu sm="90">' in node.read("nccl-topo.xml")
    assert "dev=" not in node.read("nccl-topo.xml")


BRIDGED = {
    "GPU_TOPOLOGY_PROFILE": "exclusive",
    "GPU_TOPOLOGY_CONTAINERS": "train:2:",
    "GPU_TOPOLOGY_REQUIRE_NVLINK": "true",
    "GPU_TOPOLOGY_ON_VIOLATION": "deny",
    "GPU_TOPOLOGY_NODE_NAME": "a100-pcie",
    "GPU_TOPOLOGY_ALLOCATION": allocated((topologies.uuid(0), topologies.uuid(2))),
    "GPU_TOPOLOGY_NODE_TOPOLOGY": format_topology(topologies.a100_pcie_bridged()),
}


def seeing(machine: Machine, *indices: int) -> Machine:
    """What NVML shows in a container with these GPUs only."""
    return replace(machine, cards=tuple(machine.cards[index] for index in indices))


@pytest.mark.parametrize(
    ("code", "machine", "told", "reason"),
    [
        (10, h20(), POD_PEERS | NOT_BOUND, "the binding webhook did not run: annotation gpu.topology/cuda-visible-"),
        (11, h20().with_lost(4), POD_PEERS, "GPU-f055d080-1808-96f1-1c87-70fad19d9040 "),
        (12, h20(), variables(NODE_PEERS, CUDA_VISIBLE_DEVICES_0="0,7"), "CUDA_VISIBLE_DEVICES of container prefill "),
        (13, h20().with_mig(6), POD_PEERS, "GPU6 GPU-83d5b1f0-c264-97ea-2b3c-0e9f4a61d7b8 of node h20-node-1 is "),
        (15, a100_pcie_bridged(), BRIDGED, "a requirement is not met: require-nvlink: GPU0 and GPU2 have 10.0 GB/s"),
        (16, None, variables(NODE_PEERS, NODE_TOPOLOGY="{}"), "nothing to verify with: libnvidia-ml.so.1 is not "),
        (17, h20(), variables(NODE_PEERS, PROFILE="all"), "variable GPU_TOPOLOGY_PROFILE: expected exclusive or "),
        (19, seeing(h20(), 0, 1, 4, 6), NODE_PEERS, "GPU2 GPU-4650fca3-dbba-f168-d6bd-338a4ba8f044, GPU3 "),
    ],
)  # fmt: skip
def test_each_way_to_fail_has_its_code_and_a_reason_in_one_line(
    on: OnNode, code: int, machine: Machine | None, told: dict[str, str], reason: str
) -> None:
    node = on(machine)
    done = node.remap(told)
    assert (done.code, done.err) == (code, "")
    assert done.reason.startswith(reason)
    assert "\n" not in done.reason
    assert done.out.splitlines()[0] == done.reason
    assert node.files() == ["report.txt"]


def test_a_preloaded_library_has_the_code_14(node: Node) -> None:
    (node.root / "etc").mkdir()
    (node.root / "etc/ld.so.preload").write_text("/usr/local/vgpu/libvgpu.so\n")
    done = node.remap(EXCLUSIVE)
    assert done.code == 14
    assert done.reason.startswith("HAMi's interception library is preloaded here: /etc/ld.so.preload names libvgpu.")


def test_a_library_among_those_of_the_process_has_the_code_14_too(node: Node) -> None:
    (node.root / "proc/self").mkdir()
    (node.root / "proc/self/maps").write_text("7f00-7f01 r-xp 0 00:00 0   /usr/local/vgpu/libvgpu.so\n")
    assert node.remap(EXCLUSIVE).reason.startswith(
        "HAMi's interception library is preloaded here: libvgpu is part of this process."
    )


def test_wrong_usage_has_the_code_2(node: Node) -> None:
    done = node.remap(EXCLUSIVE, "--mode", "daemon")
    assert done.code == 2
    assert "usage: gpu-topology remap" in done.err
    assert "invalid choice: 'daemon'" in done.err
    assert node.files() == []


@pytest.mark.parametrize(
    ("directory", "what"),
    [("/proc", "/proc/nccl-topo.xml cannot be written"), ("/nowhere/at/all", "/nowhere/at/all cannot be opened")],
)
def test_a_directory_in_which_nothing_can_be_made_has_the_code_18(node: Node, directory: str, what: str) -> None:
    done = node.remap(EXCLUSIVE, "--directory", directory)
    assert (done.code, done.err) == (18, "")
    assert done.reason == f"{what}: No such file or directory. Is a volume mounted there, and is it full?"


def test_a_full_volume_has_the_code_18_and_leaves_nothing_behind(node: Node) -> None:
    command = [*REMAP, *node.options()]
    done = subprocess.run(
        ["bash", "-c", 'ulimit -f 1; exec "$@"', "bash", *command],  # noqa: S607 - blocks of 1 KiB
        env={"LD_LIBRARY_PATH": node.environment["LD_LIBRARY_PATH"], "PATH": node.environment["PATH"], **EXCLUSIVE},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 18
    assert done.stdout.endswith(
        "nccl-topo.xml cannot be written: File too large. Is a volume mounted there, and is it full?\n"
    )
    assert node.files() == []


def test_that_the_report_cannot_be_written_does_not_hide_why_the_pod_stops(node: Node) -> None:
    done = node.remap(variables(NODE_PEERS, CUDA_VISIBLE_DEVICES_0="0,7"), "--directory", "/proc")
    assert done.code == 12
    assert done.reason.startswith("CUDA_VISIBLE_DEVICES of container prefill is 0,7: ")
    assert done.err.startswith("gpu-topology remap: /proc/report.txt cannot be written: ")


def test_a_termination_log_that_is_not_there_does_not_hide_the_result(node: Node) -> None:
    node.termination_log.unlink()
    done = node.remap(POD_PEERS | NOT_BOUND)
    assert (done.code, done.err) == (10, "")
    assert not node.termination_log.exists()


def test_a_long_reason_is_cut_to_what_the_kubelet_takes(node: Node) -> None:
    done = node.remap(variables(EXCLUSIVE, ALLOCATION=allocated(("GPU-" + "x" * 5000, H20[0]), DECODE)))
    assert done.code == 11
    assert len(done.reason) == 4096


def test_a_bug_has_the_code_20_a_line_and_a_traceback(node: Node) -> None:
    program = (
        "import sys\n"
        "import webhook.programs.remap.run as run\n"
        "from webhook.programs.remap.program import main\n"
        "def explode(*_):\n"
        "    raise ZeroDivisionError('one\\ntwo')\n"
        "run.verify = explode\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            program,
            "--directory",
            str(node.shared),
            "--termination-log",
            str(node.termination_log),
        ],
        env={**node.environment, **EXCLUSIVE},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 20
    assert "Traceback" in done.stderr
    assert node.termination_log.read_text() == (
        "a bug in gpu-topology remap, the log has the traceback: ZeroDivisionError('one\\ntwo')"
    )


def test_standard_output_that_nobody_reads_changes_nothing(node: Node) -> None:
    command = [*REMAP, *node.options()]
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            command, env={**node.environment, **EXCLUSIVE}, cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, check=False
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")
    assert "report.txt" in node.files()


def test_without_a_driver_the_published_topology_stands_in_for_all_files(on: OnNode) -> None:
    node = on(None)
    done = node.remap(NODE_PEERS)
    assert done.code == 0
    assert "  warning  the GPUs cannot be seen from here: libnvidia-ml.so.1 is not here: " in done.out
    assert "where the GPU Operator's NRI plugin stands in for that runtime, ask it by an annotation" in done.out
    assert "CUDA_VISIBLE_DEVICES_1='4,6'\n" in node.read("env")
    assert '<gpu dev="4" sm="90">' in node.read("nccl-topo.xml")


def test_an_exclusive_pod_runs_without_driver_and_topology_but_has_no_topology_file(on: OnNode) -> None:
    node = on(None)
    done = node.remap(variables(EXCLUSIVE, NODE_TOPOLOGY="{}"))
    assert done.code == 0
    assert node.files() == ["env", "report.txt"]
    assert node.read("env") == "NCCL_P2P_LEVEL='auto'\nNCCL_NVLS_ENABLE='2'\n"
    assert "  warning  no nccl-topo.xml, so that NCCL looks for itself: nothing is known of the node\n" in done.out


def test_a_topology_file_that_cannot_be_written_from_here_comes_from_the_published_topology(on: OnNode) -> None:
    node = on(replace(h20(), devices=(), nics=(), numa_nodes=(), cpuinfo=""))
    assert node.remap(EXCLUSIVE).code == 0
    assert 'vendor="GenuineIntel"' in node.read("nccl-topo.xml")


def test_a_file_of_an_earlier_run_does_not_outlive_one_that_fails(node: Node) -> None:
    node.remap(POD_PEERS)
    node.remap(variables(POD_PEERS, CUDA_VISIBLE_DEVICES_0="0,2"))
    assert node.files() == ["report.txt"]


def test_a_value_that_the_env_file_cannot_hold_stops_a_pod_that_reads_it(node: Node) -> None:
    tables = '{"variables":{"NCCL_ALGO":{"nvlink":"","nvswitch":"","pcie":""}}}'
    done = node.remap(variables(EXCLUSIVE, NCCL=tables))
    assert done.code == 0
    assert "  warning  no env, which no container of this pod reads: env file for Kubernetes 1.35: " in done.out
    done = node.remap(variables(EXCLUSIVE, NCCL=tables, ENVIRONMENT="file"))
    assert done.code == 17
    assert done.reason.startswith("env file for Kubernetes 1.35: NCCL_ALGO: expected 1 to 32768 printable characters")


def test_a_sidecar_is_ready_once_it_has_verified_and_ends_at_once_when_told(node: Node) -> None:
    assert not node.is_ready()
    with node.started(POD_PEERS, "--mode", "sidecar") as sidecar:
        node.wait_until_ready(sidecar)
        assert node.files() == ["env", "nccl-topo.xml", "ready", "report.txt"]
        assert terminated(sidecar) == 143
    assert not node.is_ready()


def test_a_sidecar_that_starts_again_is_ready_again(node: Node) -> None:
    for _ in range(2):
        with node.started(POD_PEERS, "--mode", "sidecar") as sidecar:
            node.wait_until_ready(sidecar)
            assert terminated(sidecar) == 143


def test_a_sidecar_of_a_pod_with_wrong_values_ends_and_is_never_ready(node: Node) -> None:
    done = node.remap(variables(NODE_PEERS, CUDA_VISIBLE_DEVICES_0="0,2"), "--mode", "sidecar")
    assert done.code == 12
    assert node.files() == ["report.txt"]
    assert not node.is_ready()


HANGS = "nvmlDeviceGetCount_v2"


@pytest.fixture
def stuck(on: OnNode) -> Node:
    """A machine whose driver does not answer."""
    return on(h20().with_lines(f"hang {HANGS}"))


@pytest.mark.parametrize(("mode", "code"), [("sidecar", 143), ("init", 143)])
def test_a_run_that_waits_for_the_driver_ends_at_once_when_told(stuck: Node, mode: str, code: int) -> None:
    with stuck.started(POD_PEERS, "--mode", mode) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == f"nvml_stub: {HANGS} hangs\n"
        assert terminated(process) == code


TIME_IS_OVER_AT_THE_DRIVER = """
import signal, sys, threading
import webhook.programs.remap.run as run
from webhook.programs.remap.program import main
is_there, look = threading.Event(), run.look
def look_then(*given):
    is_there.set()
    return look(*given)
run.look = look_then
signal.sigtimedwait = lambda *_: None if is_there.wait() else None
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("mode", ["init", "sidecar"])
def test_a_run_that_waits_for_the_driver_ends_when_its_time_is_over(stuck: Node, mode: str) -> None:
    stuck.command = (sys.executable, "-c", TIME_IS_OVER_AT_THE_DRIVER)
    done = stuck.remap(POD_PEERS, "--mode", mode, "--deadline", "60")
    assert done.code == 21
    assert done.reason == (
        "not done after 60 seconds: it was still waiting for the NVIDIA driver (does nvidia-smi answer on this node?)"
    )
    assert stuck.files() == []
    stuck.command = REMAP
    assert not stuck.is_ready()


def test_a_call_that_keeps_even_the_watch_from_running_ends_with_a_traceback(node: Node) -> None:
    program = (
        "import ctypes, sys\n"
        "import webhook.programs.remap.run as run\n"
        "import webhook.programs.remap.watch as watch\n"
        "from webhook.programs.remap.program import main\n"
        "watch._GRACE = 0.1\n"
        "run.look = lambda *_: ctypes.PyDLL(None).pause()\n"  # it keeps Python's lock
        "sys.exit(main([*sys.argv[1:], '--deadline', '0.1']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *node.options()],
        env={**node.environment, **EXCLUSIVE},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == 1
    assert "Timeout" in done.stderr
    assert "in _judged" in done.stderr


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "1e9", "soon"])
def test_a_deadline_that_is_none_is_wrong_usage(node: Node, seconds: str) -> None:
    done = node.remap(EXCLUSIVE, f"--deadline={seconds}")
    assert done.code == 2
    assert "argument --deadline: invalid" in done.err


def test_a_run_that_is_over_has_no_deadline() -> None:
    program = (
        "import signal, time\n"
        "from webhook.programs.remap.watch import Watch, hold_back_sigterm\n"
        "runs = []\n"
        "def time_is_over(*_):\n"
        "    while not (runs and runs[0]._is_over):\n"
        "        time.sleep(0.01)\n"
        "    print('over', flush=True)\n"
        "signal.sigtimedwait = time_is_over\n"
        "hold_back_sigterm()\n"
        "runs.append(Watch(told=7, late=21, seconds=1000, leave=print))\n"
        "runs[0].wait_for_sigterm()\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "over\n"
        assert terminated(process) == 7


def test_somebody_who_plants_fifos_all_the_while_holds_nothing_up(node: Node) -> None:
    over = Event()

    def plant() -> None:
        while not over.is_set():
            for name in ("env", "nccl-topo.xml", "report.txt", ".env.new", ".nccl-topo.xml.new", ".report.txt.new"):
                with suppress(FileExistsError):
                    os.mkfifo(node.shared / name)

    planter = Thread(target=plant)
    planter.start()
    try:
        done = node.remap(POD_PEERS)
    finally:
        over.set()
        planter.join()
    assert (done.code, done.err) == (0, "")
    assert all((node.shared / name).is_file() for name in ("env", "nccl-topo.xml", "report.txt"))


@pytest.mark.parametrize("plant", PLANTED.values(), ids=PLANTED)
def test_what_is_planted_in_the_place_of_the_termination_log_hides_nothing(node: Node, plant: Plant) -> None:
    victim = node.shared / "victim"
    victim.write_text("theirs")
    node.termination_log.unlink()
    plant(node.termination_log, victim)
    with node.started(POD_PEERS | NOT_BOUND) as process:
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, err) == (10, "")
    assert out.startswith("the binding webhook did not run: ")
    if plant is not PLANTED["a hard link"]:  # a file like any other, which nobody but the kubelet can make there
        assert victim.read_text() == "theirs"


def test_a_sidecar_needs_no_cpu_while_it_waits(node: Node) -> None:
    with node.started(POD_PEERS, "--mode", "sidecar") as sidecar:
        assert sidecar.stdout is not None
        assert sidecar.stdout.readline() == "ok: the 4 GPUs of this pod are those it was given\n"
        stat = Path(f"/proc/{sidecar.pid}/stat")
        deadline = time.monotonic() + PATIENCE_SECONDS
        while stat.read_text().rpartition(")")[2].split()[0] != "S":
            assert time.monotonic() < deadline
        before = stat.read_text().rpartition(")")[2].split()[11:13]
        time.sleep(0.3)
        assert stat.read_text().rpartition(")")[2].split()[11:13] == before


def test_as_process_1_it_still_obeys(node: Node) -> None:
    probe = subprocess.run(["unshare", "-Urp", "--fork", "true"], capture_output=True, check=False)  # noqa: S607
    if probe.returncode:
        pytest.skip("this machine lends no PID namespaces")
    command = [
        "unshare",
        "-Urp",
        "--fork",
        "--kill-child",
        sys.executable,
        "-m",
        "webhook",
        "remap",
        "--mode",
        "sidecar",
    ]
    options = node.options()
    with subprocess.Popen(
        [*command, *options], env={**node.environment, **POD_PEERS}, cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as parent:
        try:
            assert parent.stdout is not None
            assert parent.stdout.readline() == "ok: the 4 GPUs of this pod are those it was given\n"
            children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
            os.kill(int(children[0]), 15)
            assert parent.wait(PATIENCE_SECONDS) == 143
        finally:
            parent.kill()


def test_the_program_loads_nothing_that_it_does_not_need(node: Node) -> None:
    program = (
        "import sys\n"
        "sys.argv[1:1] = ['remap']\n"
        "from webhook.entry import main\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as end:\n"
        "    code = end.code\n"
        "print(code, *sorted({name.partition('.')[0] for name in sys.modules} - set(sys.stdlib_module_names)))\n"
    )
    options = node.options()
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = {[str(ROOT), *site()]!r}\n{program}", *options],
        env={**node.environment, **POD_PEERS},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "0 __main__ pynvml webhook"


def site() -> list[str]:
    return [path for path in sys.path if path.endswith("site-packages")]


def test_the_list_of_commands_has_it_and_its_help_is_its_own(node: Node) -> None:
    command = [sys.executable, "-m", "webhook"]
    listed = subprocess.run([*command, "--help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "Verify a pod's GPUs when it starts; runs in injected pods." in listed.stdout
    helped = subprocess.run([*command, "remap", "--help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert helped.stdout.startswith("usage: gpu-topology remap [-h] [--mode {init,sidecar,probe}]")
    assert node.files() == []


def test_the_command_line_passes_its_arguments_on(node: Node) -> None:
    program = "import sys; from webhook.cli.main import main; sys.argv[0] = 'gpu-topology'; main()"
    arguments = ["remap", *node.options(), "--env-format", "1.34"]
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**node.environment, **POD_PEERS},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "CUDA_VISIBLE_DEVICES_0=0,1\n" in node.read("env")
