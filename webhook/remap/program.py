"""``gpu-topology remap``: arguments, signals, and how the program ends (docs/binding.md, section 7).

As process 1 of a container it is sent no signal that it does not wait for, so it waits for SIGTERM before it does
anything else. Modules are loaded where they are used: the probe runs once a second and needs hardly any.
"""

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING

from webhook.model import names

if TYPE_CHECKING:
    from argparse import Namespace

INIT, SIDECAR, PROBE = "init", "sidecar", "probe"
REASON_LIMIT = 4096
"""Bytes of a termination message: k8s.io/kubernetes pkg/kubelet/container/runtime.go."""
_STDOUT = 1
_NOT_READY = 1
_BUG = 20


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; gives its exit code, and in mode ``sidecar`` only if it failed.

    Args:
        arguments: Those behind ``gpu-topology remap``; those of this process if absent.
    """
    given = list(sys.argv[2:] if arguments is None else arguments)
    waiting = _end_when_told(0 if SIDECAR in given else 128 + signal.SIGTERM)
    options = _parse(given)
    if options.mode == PROBE:
        return _probe(options)
    code, reason, report = _run(options)
    _print(report)
    if code:
        _leave_reason(options.termination_log, reason)
    elif options.mode == SIDECAR:
        waiting.join()
    return code


def _end_when_told(code: int) -> Thread:
    """End with ``code`` at SIGTERM, whatever the program is doing then, even waiting for the driver."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # of all threads: they inherit it
    waiting = Thread(target=_wait_for_end, args=(code,), daemon=True)
    waiting.start()
    return waiting


def _wait_for_end(code: int) -> None:
    signal.sigwait({signal.SIGTERM})
    os._exit(code)


def _parse(given: list[str]) -> "Namespace":
    from argparse import ArgumentParser

    parser = ArgumentParser(
        prog="gpu-topology remap",
        description="Verify that a pod has the GPUs that it was told it has, and write files for its containers.",
        epilog=f"It runs in injected pods and reads variables that begin with {names.REMAP_ENV_PREFIX}.",
        allow_abbrev=False,
    )
    parser.add_argument("--mode", choices=(INIT, SIDECAR, PROBE), default=INIT, help="How it ends (default: init).")
    parser.add_argument(
        "--env-format", choices=("1.35", "1.34"), default="1.35", help="Kubernetes that reads env (default: 1.35)."
    )
    parser.add_argument("--directory", default=names.FILES_PATH, help=f"For the files (default: {names.FILES_PATH}).")
    parser.add_argument("--termination-log", default="/dev/termination-log", help="For the reason when it fails.")
    parser.add_argument("--root", default="/", help="Where /sys, /proc and /etc are (default: /).")
    return parser.parse_args(given)


def _probe(options: "Namespace") -> int:
    from pathlib import Path

    from webhook.remap.files import Files

    return 0 if Files(Path(options.directory)).is_ready() else _NOT_READY


def _run(options: "Namespace") -> tuple[int, str, str]:
    """Exit code, reason in one line, and what to print."""
    try:
        from webhook.remap.run import run

        end = run(
            directory=options.directory,
            root=options.root,
            env_format=options.env_format,
            stays=options.mode == SIDECAR,
        )
    except Exception as error:
        sys.excepthook(type(error), error, error.__traceback__)
        reason = f"a bug in gpu-topology remap, the log has the traceback: {error!a}"
        return _BUG, reason, f"{reason}\n"
    return end.code, end.reason, end.report


def _print(text: str) -> None:
    """To standard output. Its reader may be gone, which changes nothing."""
    rest = text.encode()
    with suppress(OSError):
        while rest:
            rest = rest[os.write(_STDOUT, rest) :]


def _leave_reason(path: str, reason: str) -> None:
    """Where the kubelet looks for it. The file is there in every container; elsewhere none is made."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            file.write(reason.encode()[:REASON_LIMIT])
