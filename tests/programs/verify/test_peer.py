"""Two commands, as in two pods, tell each other about memory and use it."""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.command import ROOT, Done, gpu_topology
from tests.cuda.machines import Way
from tests.cuda.stub import PlayBench
from tests.hardware.topology.machines import hgx_h100
from tests.nvml import machines
from tests.programs.verify.test_run import BenchOf, h100, two
from webhook.hardware.measurement.peers import (
    PROTOCOL,
    HandleKind,
    Hello,
    MemoryOffer,
    Offers,
    Outcome,
    PeerVerdict,
    Results,
)
from webhook.programs.verify.peers import MAX_LINE, Channel, PeerLost, Side, connected, listening, offer_all, take_all
from webhook.words.errors import FormatError

HELLO = Hello(protocol=PROTOCOL, sees=["GPU-1"])


def start(*arguments: str, before: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    command = [*before, sys.executable, "-m", "webhook", "verify", "--step-seconds", "60", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT, env=dict(os.environ))


def verify(*arguments: str) -> Done:
    """The command in this process."""
    return gpu_topology("verify", "--step-seconds", "60", *arguments, env=os.environ)


Meeting = Callable[[str, float], AbstractContextManager[Channel]]


@dataclass
class Met:
    """What both sides print, and the exit code of the one that listens and of its peer."""

    offered: str
    taken: str
    codes: tuple[int, int]


def meet(address: str, *, listener: Sequence[str] = (), peer: Sequence[str] = ()) -> Met:
    """A listener in a process of its own and its peer in this one."""
    waiting = start("--listen", address, *listener)
    done = verify("--peer", address, *peer)
    others, trouble = waiting.communicate(timeout=300)
    assert done.err == trouble.decode() == ""
    return Met(others.decode(), done.out, (waiting.returncode, done.code))


def trials(text: str | bytes) -> dict[str, tuple[str, int | None]]:
    """Verdict and error of each kind of handle."""
    return {each["kind"]: (each["verdict"], each["code"]) for each in msgspec.json.decode(text)["outcomes"]}


def tried(address: str, *more: str) -> dict[str, tuple[str, int | None]]:
    """What both sides tell alike."""
    met = meet(address, listener=["-o", "json", *more], peer=["-o", "json", *more])
    assert trials(met.offered) == trials(met.taken)
    return trials(met.taken)


@pytest.fixture
def address(tmp_path: Path) -> str:
    return str(tmp_path / "socket")


@pytest.mark.long
def test_fabric_works_where_the_driver_has_it_and_what_it_does_not_permit_is_refused_with_its_number(
    bench_of: BenchOf, play_bench: PlayBench, address: str
) -> None:
    play_bench(h100(bench_of).with_lines("fabric", "error cuIpcOpenMemHandle_v2 800 0"))
    assert tried(address) == {"cuda-ipc": ("refused", 800), "fabric": ("works", None)}


@pytest.mark.long
def test_pods_may_meet_over_tcp(bench_of: BenchOf, play_bench: PlayBench) -> None:
    play_bench(h100(bench_of))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert tried(f"127.0.0.1:{port}") == {"cuda-ipc": ("works", None), "fabric": ("refused", 801)}


@pytest.mark.long
def test_in_pid_namespaces_of_their_own_both_processes_have_different_pids(
    bench_of: BenchOf, play_bench: PlayBench, address: str
) -> None:
    """Both namespaces give out the same PIDs, and the driver refuses equal ones."""
    apart = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
    if not shutil.which("unshare") or subprocess.run([*apart, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine gives no PID namespace to a process")
    play_bench(h100(bench_of))
    both = [start(option, address, "-o", "json", before=apart) for option in ("--listen", "--peer")]
    offered, taken = (trials(each.communicate(timeout=300)[0]) for each in both)
    assert offered["cuda-ipc"] == taken["cuda-ipc"] == ("works", None)


@pytest.mark.parametrize(
    ("meeting", "address", "sentence"),
    [
        (listening, "no-port", "no-port: the other pod does not come: "),
        (listening, "127.0.0.1:99999", "127.0.0.1:99999: the other pod does not come: "),
        (connected, "/no/such/socket", "/no/such/socket: the other pod is not there: .* No such file or directory"),
    ],
)
def test_an_address_that_cannot_be_had_is_an_error(meeting: Meeting, address: str, sentence: str) -> None:
    with pytest.raises(PeerLost, match=f"^{sentence}"), meeting(address, 0.1):
        pass


def test_a_peer_waits_for_the_pod_that_listens_as_long_as_a_step_may_take(address: str) -> None:
    begun = Event()

    def listen() -> None:
        begun.wait(60)
        with listening(address, 60) as channel:
            channel.tell(HELLO)

    thread = Thread(target=listen)
    thread.start()
    with pytest.raises(PeerLost, match="the other pod is not there"), connected(address, 0.1):
        pass
    begun.set()
    with connected(address, 60) as channel:
        assert channel.hear(Hello) == HELLO
    thread.join()


@pytest.mark.parametrize("option", ["--listen", "--peer"])
def test_cards_that_others_use_are_left_alone(bench_of: BenchOf, play_bench: PlayBench, option: str) -> None:
    busy = two(machines.hgx_h100()).with_lines_of_each_card("processes 1")
    play_bench(h100(bench_of).on(busy))
    done = verify(option, "/no/such/socket")
    said = "gpu-topology: other processes use the GPUs that CUDA sees here. --force uses them all the same\n"
    assert (done.out, done.err) == ("", said)


@pytest.mark.long
def test_cards_that_others_use_are_used_if_that_is_forced(
    bench_of: BenchOf, play_bench: PlayBench, address: str
) -> None:
    busy = two(machines.hgx_h100()).with_lines_of_each_card("processes 1")
    play_bench(h100(bench_of).on(busy))
    assert tried(address, "--force")["cuda-ipc"] == ("works", None)


@pytest.mark.long
def test_of_cards_that_are_used_in_part_the_free_one_is_offered(
    bench_of: BenchOf, play_bench: PlayBench, address: str
) -> None:
    machine = two(machines.hgx_h100())
    play_bench(h100(bench_of).on(machine.with_card(0, lines=("processes 1",))))
    report = msgspec.json.decode(meet(address, listener=["-o", "json"]).offered)
    assert report["card"] == machine.cards[1].uuid
    assert report["offeredCardVisible"] is True


def test_both_sides_print_table_and_verdict(bench_of: BenchOf, play_bench: PlayBench, address: str) -> None:
    play_bench(h100(bench_of))
    options = ["--node", "gpu-1"]
    met = meet(address, listener=options, peer=options)
    assert met.offered == met.taken
    assert met.taken.splitlines() == [
        "Node gpu-1: GPU1 of the pod that listens ==NV18==> GPU0 of its peer",
        "",
        "handle    result                                            GB/s   of expected  verdict",
        "cuda-ipc  works                                             365.7  99%          as-expected",
        "fabric    refused: cuMemCreate returned 801: not supported",
        "",
        "Verdict: as-expected. The pods reach 365.7 GB/s (cuda-ipc), 99% of what NV18 should carry.",
    ]


@pytest.mark.long
def test_pods_that_are_slower_than_their_link_end_with_1(
    bench_of: BenchOf, play_bench: PlayBench, address: str, tmp_path: Path
) -> None:
    """The rate of seed 001: 365 MB/s where NVLink should carry 370.8 GB/s."""
    play_bench(h100(bench_of).with_ways(0, 1, Way(gbps=0.365)))
    met = meet(address, peer=["--save", str(tmp_path / "report.json")])
    assert met.codes == (1, 1)
    assert met.taken.splitlines()[-1] == (
        "Verdict: slower. The pods reach 0.4 GB/s (cuda-ipc), 0% of the 370.8 GB/s that NV18 should carry. Measure the "
        "same GPUs in one container with gpu-topology verify --gpus: if they are slow there too, the links are the "
        "cause and not the pods."
    )
    saved = msgspec.json.decode((tmp_path / "report.json").read_bytes())
    assert saved["verdict"] == "slower"
    first = saved["outcomes"][0]
    assert (first["link"], first["expectedGBps"], first["speed"]) == ("NV18", 370.8, "slower")
    assert first["measuredGBps"] == pytest.approx(0.365, rel=0.01)


@pytest.mark.long
def test_each_side_uses_the_gpus_that_it_is_told(bench_of: BenchOf, play_bench: PlayBench, address: str) -> None:
    """GPU0 and GPU3 of a DGX-1 have two NVLinks, GPU0 and GPU5 have none."""
    play_bench(bench_of(machines.dgx1_v100()))
    for number, link in ((3, "NV2"), (5, "SYS")):
        met = meet(f"{address}-{number}", listener=["--gpus", "0"], peer=["--gpus", str(number), "--node", "n"])
        first = f"Node n: GPU0 of the pod that listens =={link}==> GPU{number} of its peer"
        assert met.taken.splitlines()[0] == first


def test_a_gpu_that_is_not_there_is_told(bench_of: BenchOf, play_bench: PlayBench) -> None:
    play_bench(h100(bench_of))
    done = verify("--peer", "/no/such/socket", "--gpus", "1,7")
    expected = "expected GPUs that CUDA sees here, which are GPU0 and GPU1; found GPU7"
    assert (done.code, done.out, done.err) == (1, "", f"gpu-topology: --gpus: {expected}\n")


def test_a_file_that_is_there_already_stays(bench_of: BenchOf, play_bench: PlayBench, tmp_path: Path) -> None:
    play_bench(h100(bench_of))
    (tmp_path / "precious").write_text("data")
    done = verify("--listen", str(tmp_path / "precious"))
    assert done.code == 1
    assert done.err.startswith(f"gpu-topology: {tmp_path}/precious: the other pod does not come: ")
    assert (tmp_path / "precious").read_text() == "data"


@pytest.fixture
def ends() -> Iterator[tuple[Channel, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Channel(ours, 0.2), theirs


def test_a_line_without_end_is_refused(ends: tuple[Channel, socket.socket]) -> None:
    channel, theirs = ends
    theirs.sendall(b"x" * (2 * MAX_LINE))
    with pytest.raises(FormatError, match=f"expected lines of at most {MAX_LINE} bytes"):
        channel.hear(Hello)


@pytest.mark.parametrize(
    "word",
    [
        {"say": "Results", "results": [{"kind": "cuda-ipc", "verdict": "refused", "reason": "\x9b2J"}]},
        {"say": "Results", "results": [{"kind": "cuda-ipc", "verdict": "works", "takerCard": "GPU-\x9b2J"}]},
        {"say": "Offers", "card": "GPU-1", "offers": [{"kind": "cuda-ipc", "pid": 7, "reason": "\u202e"}]},
        {"say": "Offers", "card": "GPU-1\n", "offers": []},
        {"say": "Hello", "protocol": 2, "sees": ["GPU-1", "\x1b[2J"]},
    ],
    ids=["reason of a result", "card of a result", "reason of no offer", "offered card", "cards of a greeting"],
)
def test_what_would_move_a_terminal_is_no_word(word: dict[str, object], ends: tuple[Channel, socket.socket]) -> None:
    channel, theirs = ends
    theirs.sendall(msgspec.json.encode(word) + b"\n")
    with pytest.raises(
        FormatError, match=r"the other pod: expected a word of the protocol, found .*: Expected `str` matching"
    ):
        channel.hear(Hello)


@pytest.mark.parametrize("handle", ["00", "0" * 127, "G" * 128, "0" * 128 + "\n"])
def test_a_handle_of_another_length_is_no_word(handle: str, ends: tuple[Channel, socket.socket]) -> None:
    channel, theirs = ends
    offer = {"kind": "cuda-ipc", "pid": 7, "handle": handle}
    theirs.sendall(msgspec.json.encode({"say": "Offers", "card": "GPU-1", "offers": [offer]}) + b"\n")
    with pytest.raises(FormatError, match="expected a word of the protocol"):
        channel.hear(Offers)


SIDE = Side(node="n", cards=["GPU-1"], visible=["GPU-1"], topology=hgx_h100(), seconds=60)


def test_a_taker_of_another_protocol_is_offered_nothing(ends: tuple[Channel, socket.socket]) -> None:
    Channel(ends[1], 60).tell(Hello(protocol=1, sees=[]))
    with pytest.raises(FormatError, match='expected protocol 2, found "1"'):
        offer_all(SIDE, ends[0])


def test_results_of_something_else_are_refused(bench_of: BenchOf, play_bench: PlayBench) -> None:
    play_bench(h100(bench_of))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        Channel(theirs, 60).tell(HELLO)
        Channel(theirs, 60).tell(Results(results=[Outcome(kind=HandleKind.FABRIC, verdict=PeerVerdict.WORKS)]))
        with pytest.raises(FormatError, match="expected a result for each offer"):
            offer_all(SIDE, Channel(ours, 60))


def test_without_a_handle_nothing_is_used_and_the_reason_is_told_on(ends: tuple[Channel, socket.socket]) -> None:
    offers = [
        MemoryOffer(kind=HandleKind.IPC, pid=7, reason="step-timed-out"),
        MemoryOffer(kind=HandleKind.FABRIC, pid=7, reason="cuMemCreate returned 801", code=801),
    ]
    theirs = Channel(ends[1], 60)
    theirs.tell(Offers(card="GPU-2", offers=offers))
    report = take_all(SIDE, ends[0])
    assert theirs.hear(Hello) == HELLO
    said = [(each.verdict, each.reason, each.code) for each in theirs.hear(Results).results]
    assert said == [("not-tried", "step-timed-out", None), ("refused", "cuMemCreate returned 801", 801)]
    assert (report.verdict, report.offered_card_visible) == ("no-way", False)


def test_a_message_of_another_kind_is_refused(ends: tuple[Channel, socket.socket]) -> None:
    Channel(ends[1], 60).tell(HELLO)
    with pytest.raises(FormatError, match='expected Results, found "Hello"'):
        ends[0].hear(Results)


def test_a_peer_that_is_silent_is_not_waited_for(ends: tuple[Channel, socket.socket]) -> None:
    with pytest.raises(PeerLost, match=r"^the other pod has not finished within 0\.2 s$"):
        ends[0].hear(Hello)


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
        channel.hear(Hello)
    ended.set()
    thread.join()


def test_words_count_towards_the_limit_and_nothing_is_told_after_it(ends: tuple[Channel, socket.socket]) -> None:
    channel, theirs = ends
    ended = Event()
    thread = dripping(theirs, (msgspec.json.encode(HELLO) + b"\n") * 1000, ended)
    with pytest.raises(PeerLost, match=r"^the other pod has not finished within 0\.2 s$"):
        without_end(lambda: channel.hear(Hello))
    with pytest.raises(PeerLost, match=r"^the other pod has not finished within 0\.2 s$"):
        channel.tell(HELLO)
    ended.set()
    thread.join()


def test_a_peer_that_reads_nothing_is_not_waited_for(ends: tuple[Channel, socket.socket]) -> None:
    hello = Hello(protocol=PROTOCOL, sees=["GPU-1"] * 64)
    with pytest.raises(PeerLost, match=r"^the other pod has not finished within 0\.2 s$"):
        without_end(lambda: ends[0].tell(hello))


def test_a_slow_word_within_the_limit_is_heard() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        thread = dripping(theirs, msgspec.json.encode(HELLO) + b"\n", Event())
        assert Channel(ours, 60).hear(Hello) == HELLO
        thread.join()


def test_a_peer_that_ends_is_lost(ends: tuple[Channel, socket.socket]) -> None:
    ends[1].close()
    with pytest.raises(PeerLost, match="the other pod has ended the connection"):
        ends[0].hear(Hello)


@given(st.binary(max_size=300).filter(lambda data: b"\n" not in data))
def test_whatever_a_peer_says_is_a_word_or_an_error_of_ours(data: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(data + b"\n")
        with pytest.raises(FormatError, match="the other pod: expected a word of the protocol"):
            Channel(ours, 60).hear(Hello)
