"""One run of the program: read the inputs and the machine, verify, write the files for the other containers."""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from webhook.decisions.resolve.resolve import Resolution
from webhook.hardware.discovery.machine import discover
from webhook.programs.remap.environment_file import EnvFormat, environment_values, format_environment
from webhook.programs.remap.files import ENVIRONMENT, NCCL_SETTINGS, REPORT, TOPOLOGY, Files, NotWrittenError
from webhook.programs.remap.inputs import Environment, Inputs, read_inputs
from webhook.programs.remap.nccl_settings import format_nccl_settings
from webhook.programs.remap.process_ids import begin_apart, beginning_of
from webhook.programs.remap.regular_file import read_regular
from webhook.programs.remap.report import format_report, one_line
from webhook.programs.remap.topology_file import format_first
from webhook.programs.remap.verdict import CheckResult, ExitCode, Verdict, ok, warning
from webhook.programs.remap.verify import LIBRARY, MachineState, published_here, verify
from webhook.words.errors import FormatError

_TEXT_LIMIT = 1024 * 1024
"""The most bytes read of a file. The image has no preload file of its own; a line of maps is one part of a library."""


@dataclass(frozen=True, slots=True)
class End:
    """The end of a run."""

    code: ExitCode
    reason: str
    """The reason, in one line."""
    report: str
    """The report, whose first line is the reason."""


def run(*, directory: str, root: str, env_format: str, stays: bool, begins: Callable[[str], None]) -> End:
    """Verifies the pod that the environment variables describe, and writes its files.

    Args:
        directory: The directory of the files.
        root: The directory that has ``/sys``, ``/proc`` and ``/etc``.
        env_format: The format of the file ``env``: ``1.35`` or ``1.34``.
        stays: Whether the program keeps running after success, so that a probe can check the mark of readiness.
        begins: Called with the name of each step before it, to name a step that never returns.
    """
    begins(f"opening {directory}")
    try:
        with Files(Path(directory)) as files:
            files.clear()
            end = _judged(files, Path(root), EnvFormat(env_format), begins)
            if stays and end.code is ExitCode.TRUE:
                files.mark_ready()
    except NotWrittenError as error:
        return _ended(ExitCode.NOT_WRITTEN, str(error))
    return end


def _judged(files: Files, root: Path, env_format: EnvFormat, begins: Callable[[str], None]) -> End:
    try:
        inputs = read_inputs(os.environ)
        begins("waiting for the NVIDIA driver (does nvidia-smi answer on this node?)")
        machine = look(inputs.node, root)
        begins("comparing, and writing its files")
        verdict = verify(inputs, machine)
        if verdict.code is ExitCode.TRUE:
            if inputs.is_isolated:
                begins("going through process IDs")
                verdict = replace(verdict, findings=(*verdict.findings, _isolated(verdict.resolution)))
            return _fulfilled(inputs, verdict, files, env_format)
    except FormatError as error:
        return _stopped(_ended(ExitCode.BAD_VARIABLE, str(error)), files)
    return _stopped(_ended(verdict.code, verdict.reason, format_report(inputs, verdict)), files)


def _isolated(resolution: Resolution | None) -> CheckResult:
    """Gives the processes that start from now on other IDs than those of pods with other GPUs of the node."""
    numbers = [number for given in resolution.containers for number in given.cuda_indices] if resolution else []
    if not numbers:
        return warning("the process IDs may be those of peers: the GPUs of the pod are not known")
    problem = begin_apart(min(numbers))
    if problem:
        return warning(problem)
    return ok(f"process IDs of the pod begin at {beginning_of(min(numbers))}, by its first GPU, {min(numbers)}")


def look(node: str, root: Path) -> MachineState:
    """Reads the state of the machine.

    Args:
        node: The name of the node.
        root: The directory that has ``/sys``, ``/proc`` and ``/etc``.
    """
    return MachineState(
        topology=discover(node=node, root=root),
        preload=_read(root / "etc/ld.so.preload"),
        mapped=LIBRARY in _read(root / "proc/self/maps"),
    )


def _read(path: Path) -> str:
    try:
        return read_regular(path, _TEXT_LIMIT, follow=True).decode(errors="replace")
    except OSError:
        return ""


def _fulfilled(inputs: Inputs, verdict: Verdict, files: Files, env_format: EnvFormat) -> End:
    """Writes the files that the other containers read.

    Raises:
        FormatError: the containers read the file ``env``, and it cannot hold a value.
    """
    warnings = [
        *_write_topology(inputs, verdict, files),
        *_write_nccl_settings(verdict, files),
        *_write_environment(inputs, verdict, files, env_format),
    ]
    report = format_report(inputs, verdict, warnings=warnings)
    files.write(REPORT, report)
    return _ended(ExitCode.TRUE, verdict.reason, report)


def _write_topology(inputs: Inputs, verdict: Verdict, files: Files) -> list[str]:
    best = [verdict.node.topology] if verdict.node else []
    published = published_here(inputs)
    known = best if published is None or published in best else [*best, published]
    text, problem = format_first(known, host_indices=inputs.demand.sees_others)
    if text:
        files.write(TOPOLOGY, text)
        return []
    return [f"no {TOPOLOGY}, so that NCCL looks for itself: {problem}"]


def _write_nccl_settings(verdict: Verdict, files: Files) -> list[str]:
    values = verdict.resolution.nccl_file if verdict.resolution else ()
    if values:
        try:
            files.write(NCCL_SETTINGS, format_nccl_settings(values))
        except FormatError as error:
            return [f"no {NCCL_SETTINGS}, so that NCCL's own defaults hold: {error}"]
    return []


def _write_environment(inputs: Inputs, verdict: Verdict, files: Files, env_format: EnvFormat) -> list[str]:
    try:
        text = format_environment(environment_values(inputs, verdict.resolution), env_format)
    except FormatError as error:
        if inputs.environment is Environment.FILE:
            raise
        return [f"no {ENVIRONMENT}, which no container of this pod reads: {error}"]
    files.write(ENVIRONMENT, text)
    return []


def _stopped(end: End, files: Files) -> End:
    """Writes the report of a failed run. A failure of this write does not replace the reason."""
    try:
        files.write(REPORT, end.report)
    except NotWrittenError as error:
        with suppress(OSError, AttributeError):  # standard error is closed
            sys.stderr.write(f"gpu-topology remap: {one_line(str(error))}\n")
    return end


def _ended(code: ExitCode, reason: str, report: str = "") -> End:
    line = one_line(reason)
    return End(code, line, report or f"{line}\n")
