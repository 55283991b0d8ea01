"""``gpu-topology remap``: arguments, and how the program ends (docs/injection.md, section 12).

Modules are loaded where they are used: the probe runs once a second and needs hardly any.
"""

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from webhook.programs.remap.regular_file import replace_text
from webhook.programs.remap.watch import Watch, hold_back_sigterm
from webhook.words import names

if TYPE_CHECKING:
    from argparse import Namespace

INIT, SIDECAR, PROBE = "init", "sidecar", "probe"
REASON_LIMIT = 4096
"""Bytes of a termination message: k8s.io/kubernetes pkg/kubelet/container/runtime.go."""
DEADLINE = 50.0
"""Seconds for a run; the startup probe of the sidecar gives up after 60, and would end it without a reason."""
_PROBE_DEADLINE = 4.0
"""Seconds; the kubelet waits for 5."""
_STDOUT = 1
_NOT_READY = 1
_BUG, _LATE = 20, 21


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; gives its exit code, and in mode ``sidecar`` only if it failed.

    Args:
        arguments: Those behind ``gpu-topology remap``; those of this process if absent.
    """
    options = _parse(list(sys.argv[2:] if arguments is None else arguments))  # which ends the process for --help
    hold_back_sigterm()
    watch = _watch(options)
    if options.mode == PROBE:
        return _probe(options)
    code, reason, report = _run(options, watch)
    watch.begins("writing its report to standard output")
    _print(report)
    if code:
        _leave_reason(options.termination_log, reason)
    elif options.mode == SIDECAR:
        watch.wait_for_sigterm()
    return code


def _watch(options: "Namespace") -> Watch:
    if options.mode == PROBE:
        return Watch(told=128 + signal.SIGTERM, late=_NOT_READY, seconds=_PROBE_DEADLINE, leave=lambda _: None)
    return Watch(
        told=0 if options.mode == SIDECAR else 128 + signal.SIGTERM,
        late=_LATE,
        seconds=options.deadline,
        leave=lambda reason: _leave_reason(options.termination_log, reason),
    )


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
    parser.add_argument(
        "--directory", metavar="DIR", default=names.FILES_PATH, help=f"For the files (default: {names.FILES_PATH})."
    )
    parser.add_argument(
        "--termination-log", metavar="FILE", default="/dev/termination-log", help="For the reason when it fails."
    )
    parser.add_argument(
        "--deadline",
        metavar="SECONDS",
        type=_seconds,
        default=DEADLINE,
        help=f"How long the run may take (default: {DEADLINE:g}).",
    )
    parser.add_argument("--root", metavar="DIR", default="/", help="Where /sys, /proc and /etc are (default: /).")
    return parser.parse_args(given)


def _seconds(text: str) -> float:
    """A number of seconds that the kernel can wait; ``ValueError`` for anything else."""
    value = float(text)
    if not 0 < value <= 86400:
        raise ValueError(text)
    return value


def _probe(options: "Namespace") -> int:
    from webhook.programs.remap.files import is_ready

    return 0 if is_ready(Path(options.directory)) else _NOT_READY


def _run(options: "Namespace", watch: Watch) -> tuple[int, str, str]:
    """Exit code, reason in one line, and what to print."""
    try:
        from webhook.programs.remap.run import run

        end = run(
            directory=options.directory,
            root=options.root,
            env_format=options.env_format,
            stays=options.mode == SIDECAR,
            begins=watch.begins,
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
        replace_text(Path(path), reason.encode()[:REASON_LIMIT])
