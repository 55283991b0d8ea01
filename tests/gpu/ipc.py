"""CUDA IPC between two processes with one GPU: whether peers need the namespaces of the host.

``python -m tests.gpu.ipc`` is one of the two. It prints the handle of its memory; with a handle as its argument it
opens that memory instead. The driver was reported to refuse a handle if both processes have the same PID value (error
201), whatever the namespaces; ``gpu.topology/isolation: isolated`` rests on that.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

from tests.gpu.gpus import ended, opened
from tests.gpu.outcome import Machine, NotTriedError, Outcome, holds_if
from webhook.hardware.measurement.peers import HandleKind
from webhook.programs.verify.library import CallFailed, explained
from webhook.programs.verify.measure import Sharing
from webhook.programs.verify.process import Method, Take

EQUAL_PIDS = 201
"""``CUDA_ERROR_INVALID_CONTEXT``."""
_SIZE = 2 * 1024 * 1024
_OWN_PIDS = (
    "unshare",
    *(() if os.geteuid() == 0 else ("--user", "--map-root-user")),
    "--pid",
    "--fork",
    "--mount-proc",
)
_OWN_IPC = (*_OWN_PIDS, "--ipc")
_LATER_PID = ("sh", "-c", 'for i in 1 2 3 4 5 6 7; do true & done; wait; "$@"; exit $?', "sh")
"""The program after it has a PID above 1, which is that of the shell."""


def same_namespaces(_: Machine) -> Outcome:
    """Exchange memory in the namespaces of this process."""
    return _exchange((), (), expected=0)


def equal_pids(_: Machine) -> Outcome:
    """Exchange memory in two PID namespaces in which both have the PID 1: the driver refuses it."""
    return _exchange(_OWN_PIDS, _OWN_PIDS, expected=EQUAL_PIDS)


def different_pids(_: Machine) -> Outcome:
    """Exchange memory in two PID namespaces with different PIDs."""
    return _exchange(_OWN_PIDS, (*_OWN_PIDS, *_LATER_PID), expected=0)


def own_ipc(_: Machine) -> Outcome:
    """Exchange memory in PID and IPC namespaces of their own, with different PIDs."""
    return _exchange(_OWN_IPC, (*_OWN_IPC, *_LATER_PID), expected=0)


FORMS: dict[str, Callable[[Machine], Outcome]] = {
    "ipc-same": same_namespaces,
    "ipc-equal-pids": equal_pids,
    "ipc-different-pids": different_pids,
    "ipc-own-ipc": own_ipc,
}


def _exchange(offering: Sequence[str], taking: Sequence[str], *, expected: int) -> Outcome:
    if offering:
        tried = subprocess.run([*offering, "true"], capture_output=True, text=True, check=False)
        if tried.returncode:
            raise NotTriedError(f"no namespaces of its own here: {tried.stderr.strip()}")
    program = [sys.executable, "-m", "tests.gpu.ipc"]
    pipe = subprocess.PIPE
    with ended(subprocess.Popen([*offering, *program], stdin=pipe, stdout=pipe, text=True)) as process:
        offered = _document((process.stdout or sys.stdin).readline())
        if "handle" not in offered:
            raise NotTriedError(f"no memory was offered: {offered.get('why', 'the process ended')}")
        done = subprocess.run([*taking, *program, offered["handle"]], capture_output=True, text=True, check=False)
    taken = _document(done.stdout)
    if "code" not in taken:
        raise NotTriedError(f"the memory was not tried: {taken.get('why') or done.stderr.strip()[-200:]}")
    pids = (offered["pid"], taken["pid"])
    if offering and (expected == EQUAL_PIDS) != (pids[0] == pids[1]):
        raise NotTriedError(f"the two have the PIDs {pids[0]} and {pids[1]}, so this shows nothing")
    return holds_if(taken["code"] == expected, f"PIDs {pids[0]} and {pids[1]}: {taken['why']}", code=taken["code"])


def _document(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def main(arguments: Sequence[str]) -> None:
    """Offer memory until standard input ends, or open that of a handle."""
    try:
        cards = opened()
        sharing, uuid = Sharing(cards), cards.cuda.uuids()[0]
        if arguments:
            _print(pid=os.getpid(), **_take(sharing, uuid, arguments[0]))
            return
        handle = sharing.offer(uuid, HandleKind.IPC, _SIZE)
        _print(pid=os.getpid(), handle=handle.hex())
        sys.stdin.read()
    except NotTriedError as reason:
        _print(why=str(reason))
    except CallFailed as error:
        _print(why=explained(error.function, error.code))


def _take(sharing: Sharing, uuid: str, handle: str) -> dict[str, Any]:
    quick = Method(copies=1, samples=1, warm_ups=0)
    request = Take(card=uuid, kind=HandleKind.IPC, handle=handle, size=_SIZE, method=quick)
    try:
        found = sharing.take(request)
    except CallFailed as error:
        return {"code": error.code, "why": explained(error.function, error.code)}
    return {"code": 0, "why": "the memory is read"} if found.intact else {"code": -1, "why": "it holds something else"}


def _print(**document: Any) -> None:
    print(json.dumps(document), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
