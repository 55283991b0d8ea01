"""One trial of a machine: step by step, with the archive written anew after each of them."""

import json
import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from tests.gpu import steps
from tests.gpu.archive import TABLE, bundled, collected, write_archive
from tests.gpu.judge import Seen, proved, verdicts
from tests.gpu.machine import machine_of, names_of
from tests.gpu.model import Ran, Step, StepResult, Verdict, Word
from tests.gpu.nccl_of_python import nccl_folder
from tests.gpu.pods import CASES, Cluster, cluster_steps, manifest_of, pod_steps
from tests.gpu.redact import Redactor
from tests.gpu.result import NO_GPU, RESULT, redacted, result, step_result
from tests.gpu.run import run_step, settings
from webhook import __version__
from webhook.hardware.topology.model import Gpu, NodeTopology

UNTRIED, FAILED = 2, 1
_UNKNOWN = NodeTopology(node="", gpus=(Gpu(index=0),), source="nvml")
"""A machine without a GPU, or whose GPUs cannot be seen: its steps are listed, and none is run."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a person asks for."""

    output: Path
    python: str = ""
    """The interpreter that has PyTorch."""
    libraries: str = ""
    """Directories in which the dynamic linker looks first, as LD_LIBRARY_PATH."""
    hami_core: str = ""
    """HAMi-core's library."""
    idle_seconds: float = 60.0
    cluster: Cluster | None = None
    host: str = ""
    minutes: float = 45.0
    """How long all steps together may take."""
    step_seconds: float | None = None
    """How long a step may take that has a longer limit of its own."""


@dataclass
class Trial:
    """The trial, in a folder of its own.

    Args:
        wanted: What a person asks for.
        folder: Where the files of the steps go.
        tell: Called with a line after each step, and before it.
    """

    wanted: Wanted
    folder: Path
    tell: Callable[[str], None]
    _planned: list[Step] = field(default_factory=list)
    _ran: dict[str, Ran] = field(default_factory=dict)
    _late: dict[str, str] = field(default_factory=dict)
    _begun: float = field(default_factory=time.monotonic)

    def look(self) -> None:
        """Run the steps that look at the machine, and plan the others by what they saw."""
        self._planned = self._limited(steps.first_steps())
        for step in self._planned:
            self._run(step)
        self._planned += self._limited(self._others())
        self.write(is_whole=False)

    def planned(self) -> Sequence[Step]:
        """All steps."""
        return self._planned

    def run(self) -> None:
        """Run the steps that are left. A KeyboardInterrupt ends them, and what was seen until then is written."""
        left = [step for step in self._planned if self._can_run(step)]
        is_whole = False
        try:
            for number, step in enumerate(left, 1):
                self.tell(f"{number} of {len(left)}: {step.says} (at most {step.seconds:g} s)")
                self._run_in_time(step)
                self.write(is_whole=False)
            is_whole = not self._late
        except KeyboardInterrupt:
            self.tell("ended before all was tried")
        self.write(is_whole=is_whole)

    def _run_in_time(self, step: Step) -> None:
        """Run a step with what is left of the time. One that is cut short by that proves nothing."""
        left = self.wanted.minutes * 60 - (time.monotonic() - self._begun)
        why = f"the {self.wanted.minutes:g} minutes of the run were over: --minutes"
        if left > 0:
            self._run(msgspec.structs.replace(step, seconds=min(step.seconds, left)))
        if left <= 0 or (left < step.seconds and self._ran[step.name].timed_out):
            self._late[step.name] = why
            self.tell(f"{step.name}: {why}")

    def _can_run(self, step: Step) -> bool:
        is_left = step.name not in self._ran and not step.hindrance
        return is_left and (self._has_gpu or not step.needs_gpu)

    def results(self) -> list[StepResult]:
        """What became of each step."""
        has_gpu = self._has_gpu
        planned = (
            msgspec.structs.replace(step, hindrance=self._late.get(step.name, step.hindrance)) for step in self._planned
        )
        found = [step_result(step, self._ran.get(step.name), has_gpu=has_gpu) for step in planned]
        return proved(found, self._seen)

    def verdicts(self) -> tuple[Verdict, ...]:
        """What the files say of each claim."""
        return verdicts(self._seen)

    def exit_code(self) -> int:
        """0: what could be tried holds; 1: something fails; 2: nothing could be tried."""
        words = {each.verdict for each in self.results()} | {each.verdict for each in self.verdicts()}
        if Word.FAILS in words:
            return FAILED
        return 0 if Word.HOLDS in words else UNTRIED

    def write(self, *, is_whole: bool) -> None:
        """Write the archive as far as the trial has come.

        Raises:
            OSError: it cannot be written.
        """
        seen, judged, results = self._seen, self.verdicts(), self.results()
        redactor = Redactor(names_of(seen, self.wanted.host, self.wanted.cluster))
        files = bundled(redacted(seen.files, redactor))
        files[TABLE] = redactor.text(table(results, judged)).encode()
        files[RESULT] = result(
            version=__version__,
            at=datetime.now(UTC),
            machine=machine_of(seen),
            verdicts=judged,
            ran=list(self._ran.values()),
            results=results,
            is_whole=is_whole,
            files=files,
            redactor=redactor,
        )
        write_archive(self.wanted.output, files)

    @property
    def _seen(self) -> Seen:
        files = collected(self.folder)
        is_blind = not _gpus(Seen(self._ran, files))
        return Seen(self._ran, files, {step.name: self._why_not(step, is_blind=is_blind) for step in self._planned})

    def _why_not(self, step: Step, *, is_blind: bool) -> str:
        return NO_GPU if is_blind and step.needs_gpu else self._late.get(step.name, step.hindrance)

    @property
    def _has_gpu(self) -> bool:
        return bool(_gpus(self._seen))

    def _run(self, step: Step) -> None:
        ran = self._ran[step.name] = run_step(step, self.folder)
        end = ran.problem or f"exit code {ran.exit_code}"
        self.tell(f"{step.name}: {end}, {ran.seconds:.1f} s{f' ({ran.said})' if ran.said else ''}")

    def _limited(self, planned: Sequence[Step]) -> list[Step]:
        most = self.wanted.step_seconds
        if most is None:
            return list(planned)
        return [msgspec.structs.replace(step, seconds=min(step.seconds, most)) for step in planned]

    def _others(self) -> list[Step]:
        topology, wanted = self._seen.topology, self.wanted
        if topology is None or not topology.gpus:
            topology = _UNKNOWN
        libraries = ":".join(filter(None, (wanted.python and nccl_folder(wanted.python), wanted.libraries)))
        found = list(
            steps.steps_for(
                topology,
                str(self.folder),
                wanted.python,
                libraries,
                wanted.hami_core,
                wanted.idle_seconds,
                settings=settings(os.environ),
                has_file=bool(self._seen.files.get(steps.NCCL_FILE)),
            )
        )
        script = self.folder / steps.SCRIPT
        script.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(Path(__file__).with_name("fsdp_step.py"), script)
        return [*found, *self._of_pods(wanted.cluster)]

    def _of_pods(self, cluster: Cluster | None) -> list[Step]:
        if cluster is None:
            return []
        for case in CASES:
            path = self.folder / case.manifest
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(manifest_of(case, cluster), indent=2), encoding="utf-8")
        pods = (step for case in CASES for step in pod_steps(case, cluster, str(self.folder)))
        return [msgspec.structs.replace(step, needs_gpu=False) for step in (*cluster_steps(cluster), *pods)]


def _gpus(seen: Seen) -> Sequence[Gpu]:
    return seen.topology.gpus if seen.topology else ()


def table(results: Sequence[StepResult], judged: Sequence[Verdict]) -> str:
    """One line for each claim and each step: its verdict, its name, and what was seen."""
    rows = [(each.verdict, each.claim, each.why or each.says) for each in judged]
    rows += [(each.verdict, each.step, each.why or each.says) for each in results]
    return "".join(f"{word:<10}{name:<24}{why}\n" for word, name, why in rows)
