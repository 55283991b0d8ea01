"""Two commands, as in two pods, tell each other about memory and use it."""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.command import ROOT
from tests.cuda.machines import Way
from tests.cuda.stub import PlayBench
from tests.nvml import machines
from tests.programs.verify.test_run import BenchOf, h100, two
from webhook.hardware.measurement.messages import HandleKind
from webhook.programs.verify.peer.channel import Channel, PeerLost
from webhook.programs.verify.peer.exchange import check_handle
from webhook.programs.verify.peer.words import MAX_LINE, Done, Hello, Trial
from webhook.words.errors import FormatError


def start(*arguments: str, before: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    command = [*before, sys.executable, "-m", "webhook", "verify", "--step-seconds", "5", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT, env=dict(os.environ))


def meet(
    address: str, ready: Path | None = None, before: Sequence[str] = (), *, force: bool = False
) -> tuple[dict[str, tuple[str, int | None]], ...]:
    """Verdict and error of each trial, as both sides tell it."""
    more = ["-o", "json", *(["--force"] if force else [])]
    return tuple(trials(text) for text in both(address, ready, before, listener=more, peer=more))


def both(
    address: str,
    ready: Path | None = None,
    before: Sequence[str] = (),
    *,
    listener: Sequence[str] = (),
    peer: Sequence[str] = (),
) -> tuple[bytes, bytes]:
    """What both sides print: the one that listens, then its peer."""
    waiting = start("--listen", address, *listener, before=before)
    while ready is not None and not ready.exists():
        assert waiting.poll() is None, waiting.communicate()
    said, complained = start("--peer", address, *peer, before=before).communicate(timeout=60)
    others, trouble = waiting.communicate(timeout=60)
    assert b"Traceback" not in complained + trouble, complained + trouble
    return others, said


def trials(text: bytes) -> dict[str, tuple[str, int | None]]:
    return {
        f"{trial['kind']} {'equal' if trial['pidsEqual'] else 'different'}": (trial["verdict"], trial["code"])
        for trial in msgspec.json.decode(text)["outcomes"]
    }


def test_with_different_pids_two_of_three_handles_work_without_fabric(
    bench_of: BenchOf, play_bench: PlayBench, tmp_path: Path
) -> None:
    play_bench(h100(bench_of))
    address = tmp_path / "socket"
    offered, taken = meet(str(address), address)
    assert offered == taken
    assert taken["cuda-ipc different"] == ("works", None)
    assert taken["posix-fd different"] == ("works", None)
    assert taken["fabric different"] == ("refused", 801)


def test_fabric_works_where_the_driver_has_it(bench_of: BenchOf, play_bench: PlayBench, tmp_path: Path) -> None:
    play_bench(h100(bench_of).with_lines("fabric"))
    address = tmp_path / "socket"
    assert meet(str(address), address)[1]["fabric different"] == ("works", None)


def test_in_one_pid_namespace_equal_pids_cannot_be_tried(
    bench_of: BenchOf, play_bench: PlayBench, tmp_path: Path
) -> None:
    play_bench(h100(bench_of))
    address = tmp_path / "socket"
    assert meet(str(address), address)[0]["cuda-ipc equal"] == ("not-tried", None)


def test_a_handle_that_the_driver_does_not_permit_is_refused_with_its_number(
    bench_of: BenchOf, play_bench: PlayBench, tmp_path: Path
) -> None:
    play_bench(h100(bench_of).with_lines("error cuIpcOpenMemHandle_v2 800 0"))
    address = tmp_path / "socket"
    assert meet(str(address), address)[0]["cuda-ipc different"] == ("refused", 800)


def test_over_tcp_no_file_can_be_handed_on(bench_of: BenchOf, play_bench: PlayBench) -> None:
    play_bench(h100(bench_of))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    offered, taken = meet(f"127.0.0.1:{port}")
    assert offered == taken
    assert taken["posix-fd different"] == ("not-tried", None)
    assert taken["cuda-ipc different"] == ("works", None)


@pytest.mark.parametrize(
    ("option", "address", "sentence"),
    [
        ("--listen", "127.0.0.1:99999", "127.0.0.1:99999: the other pod does not come: "),
        ("--listen", "no-port", "no-port: the other pod does not come: "),
        ("--peer", "/no/such/socket", "/no/such/socket: the other pod is not there: .* No such file or directory"),
    ],
)
def test_an_address_that_cannot_be_had_is_an_error(
    bench_of: BenchOf, play_bench: PlayBench, option: str, address: str, sentence: str
) -> None:
    play_bench(h100(bench_of))
    process = start(option, address, "--step-seconds", "4")
    said, complained = process.communicate(timeout=60)
    assert (process.returncode, said) == (1, b"")
    assert re.match(f"gpu-topology: {sentence}", complained.decode())


def test_of_two_pods_either_may_start_first(bench_of: BenchOf, play_bench: PlayBench, tmp_path: Path) -> None:
    play_bench(h100(bench_of))
    address = str(tmp_path / "socket")
    peer = start("--peer", address, "-o", "json")
    time.sleep(3)  # it looks for the other meanwhile
    assert peer.poll() is None
    listener = start("--listen", address)
    said, complained = peer.communicate(timeout=60)
    assert (listener.wait(60), peer.returncode, complained) == (0, 0, b"")
    assert trials(said)["cuda-ipc different"] == ("works", None)
    listener.communicate()


@pytest.mark.parametrize("option", ["--listen", "--peer"])
def test_cards_that_others_use_are_left_alone(bench_of: BenchOf, play_bench: PlayBench, option: str) -> None:
    busy = two(machines.hgx_h100()).with_lines_of_each_card("processes 1")
    play_bench(h100(bench_of).on(busy))
    said, complained = start(option, "/no/such/socket").communicate(timeout=60)
    assert (said, complained.decode()) == (
        b"",
        "gpu-topology: other processes use the GPUs that CUDA sees here. --force uses them all the same\n",
    )


def test_of_cards_that_are_used_in_part_the_free_one_is_offered(
    bench_of: BenchOf, play_bench: PlayBench, tmp_path: Path
) -> None:
    machine = two(machines.hgx_h100())
    play_bench(h100(bench_of).on(machine.with_card(0, lines=("processes 1",))))
    address = tmp_path / "socket"
    said, _ = both(str(address), address, listener=["-o", "json"])
    report = msgspec.json.decode(said)
    assert report["card"] == machine.cards[1].uuid
    assert report["offeredCardVisible"] is True


def test_both_sides_print_table_bars_and_verdict(bench_of: BenchOf, play_bench: PlayBench, tmp_path: Path) -> None:
    play_bench(h100(bench_of))
    address = tmp_path / "socket"
    options = ["--node", "gpu-1"]
    offered, taken = both(str(address), address, listener=options, peer=options)
    assert offered == taken
    # Whether a process gets the PID of another one is left to chance.
    assert [line for line in taken.decode().splitlines() if "  equal  " not in line] == [
        "Node gpu-1: GPU1 of the pod that listens ==NV18==> GPU0 of its peer",
        "",
        "handle    PIDs       result                                            GB/s   of expected  verdict",
        "cuda-ipc  different  works                                             365.7  99%          as-expected",
        "posix-fd  different  works                                             365.7  99%          as-expected",
        "fabric    different  refused: cuMemCreate returned 801: not supported",
        "",
        "expected  ######################################## 370.8 GB/s",
        "cuda-ipc  #######################################  365.7 GB/s",
        "posix-fd  #######################################  365.7 GB/s",
        "",
        "Verdict: as-expected. The pods reach 365.7 GB/s (cuda-ipc), 99% of what NV18 should carry.",
    ]


def test_pods_that_are_slower_than_their_link_end_with_1(
    bench_of: BenchOf, play_bench: PlayBench, tmp_path: Path
) -> None:
    """The rate of seed 001: 365 MB/s where NVLink should carry 370.8 GB/s."""
    play_bench(h100(bench_of).with_ways(0, 1, Way(gbps=0.365)))
    address = str(tmp_path / "socket")
    listener = start("--listen", address)
    peer = start("--peer", address, "--save", str(tmp_path / "report.json"))
    said, _ = peer.communicate(timeout=60)
    listener.communicate(timeout=60)
    assert (listener.returncode, peer.returncode) == (1, 1)
    assert said.decode().splitlines()[-1] == (
        "Verdict: slower. The pods reach 0.4 GB/s (cuda-ipc), 0% of the 370.8 GB/s that NV18 should carry. Measure the "
        "same GPUs in one container with gpu-topology verify --gpus: if they are slow there too, the links are the "
        "cause and not the pods."
    )
    saved = msgspec.json.decode((tmp_path / "report.json").read_bytes())
    assert saved["verdict"] == "slower"
    first = saved["outcomes"][0]
    assert (first["link"], first["expectedGBps"], first["speed"]) == ("NV18", 370.8, "slower")
    assert first["measuredGBps"] == pytest.approx(0.365, rel=0.01)


def test_each_side_uses_the_gpus_that_it_is_told(bench_of: BenchOf, play_bench: PlayBench, tmp_path: Path) -> None:
    """GPU0 and GPU3 of a DGX-1 have two NVLinks, GPU0 and GPU5 have none."""
    play_bench(bench_of(machines.dgx1_v100()))
    for number, link in ((3, "NV2"), (5, "SYS")):
        address = tmp_path / f"socket-{number}"
        printed = both(str(address), address, listener=["--gpus", "0"], peer=["--gpus", str(number), "--node", "n"])
        first = f"Node n: GPU0 of the pod that listens =={link}==> GPU{number} of its peer"
        assert printed[1].decode().splitlines()[0] == first


def test_a_gpu_that_is_not_there_is_told(bench_of: BenchOf, play_bench: PlayBench) -> None:
    play_bench(h100(bench_of))
    process = start("--peer", "/no/such/socket", "--gpus", "1,7")
    said, complained = process.communicate(timeout=60)
    assert (process.returncode, said) == (1, b"")
    expected = "expected GPUs that CUDA sees here, which are GPU0 and GPU1; found GPU7"
    assert complained.decode() == f"gpu-topology: --gpus: {expected}\n"


def test_on_one_gpu_no_link_is_measured(bench_of: BenchOf, play_bench: PlayBench, tmp_path: Path) -> None:
    play_bench(h100(bench_of))
    address = tmp_path / "socket"
    one = ["--gpus", "0"]
    _, taken = both(str(address), address, listener=one, peer=one)
    assert (
        taken.decode()
        .splitlines()[-1]
        .endswith("Both used the same GPU, so no link was measured. Name another one with --gpus on one side.")
    )


def test_cards_that_others_use_are_used_if_that_is_forced(
    bench_of: BenchOf, play_bench: PlayBench, tmp_path: Path
) -> None:
    busy = two(machines.hgx_h100()).with_lines_of_each_card("processes 1")
    play_bench(h100(bench_of).on(busy))
    address = tmp_path / "socket"
    assert meet(str(address), address, force=True)[0]["cuda-ipc different"] == ("works", None)


def test_a_file_that_is_there_already_stays(bench_of: BenchOf, play_bench: PlayBench, tmp_path: Path) -> None:
    play_bench(h100(bench_of))
    (tmp_path / "precious").write_text("data")
    process = start("--listen", str(tmp_path / "precious"))
    process.communicate(timeout=60)
    assert process.returncode == 1
    assert (tmp_path / "precious").read_text() == "data"


@pytest.fixture
def ends() -> Iterator[tuple[Channel, socket.socket]]:
    ours, theirs = socket.socketpair()
    channel = Channel(ours, 0.2)
    yield channel, theirs
    channel.close()
    theirs.close()


def test_a_line_without_end_is_refused(ends: tuple[Channel, socket.socket]) -> None:
    channel, theirs = ends
    theirs.sendall(b"x" * (2 * MAX_LINE))
    with pytest.raises(FormatError, match=f"expected lines of at most {MAX_LINE} bytes"):
        channel.hear()


@pytest.mark.parametrize(
    "word",
    [
        {"say": "Result", "pid": 7, "reason": "\x9b2J"},
        {"say": "NoTrial", "kind": "cuda-ipc", "pids_equal": False, "reason": "\u202e"},
        {"say": "Trial", "kind": "cuda-ipc", "pids_equal": False, "pid": 7, "card": "GPU-\x9b2J", "handle": ""},
        {"say": "Hello", "protocol": 1, "pid": 7, "cards": ["GPU-1", "\x1b[2J"]},
    ],
    ids=["reason of a result", "reason of no trial", "card of a trial", "cards of a greeting"],
)
def test_what_would_move_a_terminal_is_no_word(word: dict[str, object], ends: tuple[Channel, socket.socket]) -> None:
    channel, theirs = ends
    theirs.sendall(msgspec.json.encode(word) + b"\n")
    with pytest.raises(
        FormatError, match=r"the other pod: expected a word of the protocol, found .*: Expected `str` matching"
    ):
        channel.hear()


@pytest.mark.parametrize(
    ("kind", "handle", "expected"),
    [
        ("cuda-ipc", "", "a handle of 64 bytes"),
        ("fabric", "", "a handle of 64 bytes"),
        ("posix-fd", "0" * 128, "no handle"),
    ],
)
def test_a_handle_that_is_none_of_its_kind_is_refused(kind: str, handle: str, expected: str) -> None:
    trial = Trial(kind=HandleKind(kind), pids_equal=False, pid=7, card="GPU-1", handle=handle)
    with pytest.raises(FormatError, match=f"the other pod: expected {expected} for {kind}"):
        check_handle(trial)


def test_a_peer_that_is_silent_is_not_waited_for(ends: tuple[Channel, socket.socket]) -> None:
    with pytest.raises(PeerLost, match=r"^the other pod has not finished within 0\.2 s$"):
        ends[0].hear()


def dripping(connection: socket.socket, data: bytes, ended: Event) -> Thread:
    """Sends one byte after the other, each well within the limit of the conversation."""

    def drip() -> None:
        with suppress(OSError):
            for byte in data:
                connection.sendall(bytes([byte]))
                if ended.wait(0.01):
                    return

    thread = Thread(target=drip)
    thread.start()
    return thread


def without_end(act: Callable[[], object]) -> None:
    while True:
        act()


def test_the_limit_is_that_of_the_whole_conversation(ends: tuple[Channel, socket.socket]) -> None:
    """Every byte comes within the limit. A limit of each read would hear all of them, and then find no word."""
    channel, theirs = ends
    ended = Event()
    thread = dripping(theirs, b" " * 1000, ended)
    with pytest.raises(PeerLost, match=r"^the other pod has not finished within 0\.2 s$"):
        channel.hear()
    ended.set()
    thread.join()


def test_words_count_towards_the_limit_and_nothing_is_told_after_it(ends: tuple[Channel, socket.socket]) -> None:
    channel, theirs = ends
    ended = Event()
    thread = dripping(theirs, b'{"say":"Done"}\n' * 1000, ended)
    with pytest.raises(PeerLost, match=r"^the other pod has not finished within 0\.2 s$"):
        without_end(channel.hear)
    with pytest.raises(PeerLost, match=r"^the other pod has not finished within 0\.2 s$"):
        channel.tell(Done())
    ended.set()
    thread.join()


def test_a_peer_that_reads_nothing_is_not_waited_for(ends: tuple[Channel, socket.socket]) -> None:
    hello = Hello(protocol=1, pid=7, cards=["GPU-1"] * 64)
    with pytest.raises(PeerLost, match=r"^the other pod has not finished within 0\.2 s$"):
        without_end(lambda: ends[0].tell(hello))


def test_a_slow_word_within_the_limit_is_heard() -> None:
    ours, far = socket.socketpair()
    channel = Channel(ours, 60)
    thread = dripping(far, b'{"say":"Done"}\n', Event())
    assert channel.hear() == Done()
    thread.join()
    channel.close()
    far.close()


def test_a_peer_that_ends_is_lost(ends: tuple[Channel, socket.socket]) -> None:
    ends[1].close()
    with pytest.raises(PeerLost, match="the other pod has ended the connection"):
        ends[0].hear()


def test_of_many_files_one_is_kept_and_none_is_left_open(ends: tuple[Channel, socket.socket], tmp_path: Path) -> None:
    channel, theirs = ends
    (tmp_path / "file").touch()
    before = len(list(Path("/proc/self/fd").iterdir()))
    with (tmp_path / "file").open() as file:
        for _ in range(5):
            socket.send_fds(theirs, [b" "], [file.fileno()])
        theirs.sendall(b"\n")
        with pytest.raises(FormatError, match="expected a word of the protocol"):
            channel.hear()
    kept = channel.file()
    assert kept is not None
    os.close(kept)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@given(st.binary(max_size=300).filter(lambda data: b"\n" not in data))
def test_whatever_a_peer_says_is_a_word_or_an_error_of_ours(data: bytes) -> None:
    ours, theirs = socket.socketpair()
    channel = Channel(ours, 60)
    with theirs:
        theirs.sendall(data + b"\n")
        with pytest.raises(FormatError, match="the other pod: expected a word of the protocol"):
            channel.hear()
    channel.close()


def test_a_word_arrives_as_it_was_told(ends: tuple[Channel, socket.socket]) -> None:
    channel, theirs = ends
    hello = Hello(protocol=1, pid=7, cards=["GPU-1"])
    Channel(theirs, 60).tell(hello)
    assert channel.hear() == hello


def become(pid: int) -> subprocess.CompletedProcess[bytes]:
    imports = "import os, sys; from webhook.programs.verify.peer.pid import become"
    program = f"{imports}; become(int(sys.argv[1])); print(os.getpid())"
    return subprocess.run([sys.executable, "-c", program, str(pid)], capture_output=True, check=False, cwd=ROOT)


def test_a_pid_that_has_gone_by_is_not_reached() -> None:
    done = become(1)
    assert (done.returncode, done.stdout) == (3, b"")


def test_in_pid_namespaces_of_their_own_equal_pids_are_refused_and_different_ones_work(
    bench_of: BenchOf, play_bench: PlayBench, tmp_path: Path
) -> None:
    apart = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
    if not shutil.which("unshare") or subprocess.run([*apart, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine gives no PID namespace to a process")
    play_bench(h100(bench_of))
    address = tmp_path / "socket"
    outcomes = meet(str(address), address, before=apart)
    assert outcomes[0] == outcomes[1]
    assert outcomes[0]["cuda-ipc different"] == ("works", None)
    assert outcomes[0]["cuda-ipc equal"] == ("refused", 201)
    assert outcomes[0]["posix-fd equal"] == ("works", None)
