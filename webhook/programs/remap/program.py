"""The arguments and the end of ``gpu-topology remap`` (docs/injection.md, section 12).

Modules are imported where they are used, because the probe runs once a second and needs few of them.
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
"""The most bytes of a termination message (k8s.io/kubernetes pkg/kubelet/container/runtime.go)."""
DEADLINE = 50.0
"""The seconds for a run. The startup probe of the sidecar gives up after 60 and would end it without a reason."""
_PROBE_DEADLINE = 4.0
"""The seconds for a probe; the kubelet waits for 5."""
_STDOUT = 1
_NOT_READY = 1
_BUG, _LATE = 20, 21


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the program and returns its exit code. In mode ``sidecar`` it returns only after a failure.

    Args:
        arguments: The arguments after ``gpu-topology remap``; if None, those of this process.
    """
    options = _parse(list(sys.argv[2:] if arguments is None else arguments))  # ends the process for --help
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
        # Never 0: the kubelet restarts a sidecar whose probe fails, and HAMi 2.10.0 takes an end with 0 for the end of
        # an init container, and gives the pod's cards away.
        told=128 + signal.SIGTERM,
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
    """Parses a number of seconds that the kernel can wait.

    Raises:
        ValueError: the text is no such number.
    """
    value = float(text)
    if not 0 < value <= 86400:
        raise ValueError(text)
    return value


def _probe(options: "Namespace") -> int:
    from webhook.programs.remap.files import is_ready

    return 0 if is_ready(Path(options.directory)) else _NOT_READY


def _run(options: "Namespace", watch: Watch) -> tuple[int, str, str]:
    """Returns the exit code, the reason in one line, and the report to print."""
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
    """Writes to standard output. A reader that is gone is no error."""
    rest = text.encode()
    with suppress(OSError):
        while rest:
            rest = rest[os.write(_STDOUT, rest) :]


def _leave_reason(path: str, reason: str) -> None:
    """Writes the reason to the file that the kubelet reads. Each container has that file; a missing one is not made."""
    with suppress(OSError):
        replace_text(Path(path), reason.encode()[:REASON_LIMIT])
