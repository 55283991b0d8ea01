"""Nothing that the tests start outlives them, however they end."""

import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.control_plane.processes import NotRunningError, running
from tests.ports import reserved_port

ROOT = Path(__file__).parents[2]
DEADLINE_S = 30.0
STARTS_A_SLEEPER = """
import sys, time
from pathlib import Path
from tests.control_plane.processes import running
log = Path(sys.argv[1])
command = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]
with running("sleeper", command, log) as sleeper:
    sleeper.wait_until(lambda: b"up" in log.read_bytes())
    print(sleeper.process.pid, flush=True)
    time.sleep(600)
"""


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def test_a_program_is_killed_when_the_tests_are(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTS_A_SLEEPER, str(tmp_path / "log")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as tests:
        assert tests.stdout is not None
        pid = int(tests.stdout.readline())
        assert is_alive(pid)
        tests.kill()
    deadline = time.monotonic() + DEADLINE_S
    while is_alive(pid):
        assert time.monotonic() < deadline, "the program outlives the tests"
        time.sleep(0.01)


def test_a_program_that_ends_too_early_is_named_with_its_last_words(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import sys; sys.exit('no such flag: --wish')"]
    with (
        running("wisher", command, tmp_path / "log") as wisher,
        pytest.raises(NotRunningError, match=r"wisher ended with exit code 1:\nno such flag: --wish"),
    ):
        wisher.wait_until(lambda: False)


@pytest.mark.parametrize("option", [socket.SO_REUSEPORT, socket.SO_REUSEADDR], ids=["port", "address"])
def test_a_reserved_port_is_refused_to_others_and_open_to_those_who_share(option: int) -> None:
    with reserved_port() as port, socket.socket() as other, socket.socket() as sharer:
        with pytest.raises(OSError, match="Address already in use"):
            other.bind(("127.0.0.1", port))
        sharer.setsockopt(socket.SOL_SOCKET, option, 1)
        sharer.bind(("127.0.0.1", port))
        sharer.listen()
        with socket.create_connection(("127.0.0.1", port)) as connection:
            assert connection.getpeername() == ("127.0.0.1", port)
