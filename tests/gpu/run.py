"""The run: each step in a process of its own, and the archive written anew after each of them."""

import hashlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

from tests.gpu.outcome import ROOT, Machine, NotTriedError, Outcome, Step, Verdict
from tests.gpu.steps import STEPS
from webhook import __version__
from webhook.words.printable import fitted

_GRACE_SECONDS = 5.0
_MOST_BYTES = 8 * 1024 * 1024
"""Of one file in the archive."""
_OWN_SETTINGS = ("NCCL_SOCKET_IFNAME", "NCCL_SOCKET_FAMILY", "NCCL_STUB_LAST_ERROR")
"""Variables of NCCL that the steps may inherit: they change no way between GPUs."""


@dataclass(frozen=True)
class Row:
    """The line of a step in the table."""

    step: str
    purpose: str
    outcome: Outcome
    seconds: float = 0.0


@dataclass
class Run:
    """One run on one machine.

    Args:
        machine: The machine.
        archive: Path of the ``.tar.gz``.
        minutes: After which no step begins or goes on.
    """

    machine: Machine
    archive: Path
    minutes: float
    rows: list[Row] = field(default_factory=list)
    is_whole: bool = False

    def steps(self, steps: Sequence[Step] = STEPS) -> Iterator[Row]:
        """Run the steps in their order, and yield the row of each.

        Raises:
            OSError: the archive cannot be written.
        """
        end = time.monotonic() + self.minutes * 60
        for step in steps:
            begin = time.monotonic()
            outcome = self._tried(step, end - begin)
            row = Row(step.name, step.purpose, outcome, round(time.monotonic() - begin, 1))
            self.rows.append(row)
            self.is_whole = step is steps[-1]
            self.write(steps)
            yield row

    def _tried(self, step: Step, left: float) -> Outcome:
        if left <= 0:
            return Outcome(Verdict.NOT_TRIED, f"the {self.minutes:g} minutes of the run were over")
        if step.gpus > 1 and (count := self._gpu_count()) < step.gpus:
            return Outcome(Verdict.NOT_TRIED, f"it needs {step.gpus} GPUs, {count} found")
        return run_step(step, self.machine, min(step.seconds, left))

    def _gpu_count(self) -> int:
        with suppress(NotTriedError):
            return len(self.machine.topology.gpus)
        return 0

    def table(self) -> str:
        """One line for each step that was reached."""
        return "".join(
            f"{row.outcome.verdict:<10}{row.step:<22}{row.seconds:6.1f} s  {row.outcome.why}\n" for row in self.rows
        )

    def exit_code(self) -> int:
        """0: what was tried holds; 1: something fails; 2: nothing that could hold was tried."""
        verdicts = {row.outcome.verdict for row in self.rows}
        return 1 if Verdict.FAILS in verdicts else 0 if Verdict.HOLDS in verdicts else 2

    def write(self, steps: Sequence[Step] = STEPS) -> None:
        """Write the archive as far as the run has come.

        Raises:
            OSError: it cannot be written.
        """
        reached = {row.step for row in self.rows}
        files = {path.relative_to(self.machine.folder): path for path in sorted(self.machine.folder.rglob("*"))}
        texts = {str(name): _beginning(path) for name, path in files.items() if path.is_file()}
        texts["TABLE.txt"] = self.table()
        result = {
            "version": __version__,
            "at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "isWhole": self.is_whole,
            "steps": [asdict(row) for row in self.rows],
            "notReached": [step.name for step in steps if step.name not in reached],
        }
        hide = Hidden()
        contents = {name: hide.text(text).encode() for name, text in texts.items()}
        result["sha256"] = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
        contents["RESULT.json"] = hide.text(json.dumps(result, indent=2)).encode()
        part = self.archive.with_name(f"{self.archive.name}.part")
        with tarfile.open(part, mode="w:gz") as archive:
            for name, content in contents.items():
                member = tarfile.TarInfo(f"gpu/{name}")
                member.size, member.mode = len(content), 0o644
                archive.addfile(member, io.BytesIO(content))
        part.replace(self.archive)


class Hidden:
    """Hides whose machine it is: the host's name, UUIDs and serial numbers. The same value has the same placeholder."""

    def __init__(self) -> None:
        self._uuids: dict[str, str] = {}
        host = re.escape(os.uname().nodename)
        self._pattern = re.compile(
            rf"(?P<uuid>\b(?:GPU|MIG)-[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}\b)"
            rf"|(?P<serial>(?<=<serial>)[^<]+)|(?P<host>\b{host}\b)"
        )

    def text(self, text: str) -> str:
        """Return the text without them."""
        return self._pattern.sub(self._placeholder, text)

    def _placeholder(self, found: re.Match[str]) -> str:
        if found["uuid"]:
            number = len(self._uuids) + 1
            return self._uuids.setdefault(found["uuid"], f"GPU-00000000-0000-0000-0000-{number:012}")
        return "serial" if found["serial"] else "this-node"


def _beginning(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_MOST_BYTES).decode(errors="replace")


def run_step(step: Step, machine: Machine, seconds: float) -> Outcome:
    """Run a step in a process of its own, and return how it ended. One that hangs fails, and costs no other step."""
    command = [sys.executable, "-m", "tests.gpu", "--step", step.name, "--folder", str(machine.folder)]
    command += ["--agent-seconds", f"{machine.agent_seconds:g}", "--idle-seconds", f"{machine.idle_seconds:g}"]
    command += ["--hami-core", machine.hami_core]
    result = machine.folder / f"{step.name}.json"
    output = machine.folder / f"{step.name}.txt"
    with output.open("wb") as file:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            cwd=machine.folder,
            env=environment(os.environ),
            start_new_session=True,
        )
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            return Outcome(Verdict.FAILS, f"it was not done after {seconds:g} seconds{_last_line(output)}")
        finally:
            _end(process)
    try:
        found = json.loads(result.read_text(encoding="utf-8"))
        return Outcome(Verdict(found["verdict"]), found["why"], found["facts"])
    except (OSError, ValueError):
        end = f"exit code {code}" if code >= 0 else f"it was ended by signal {-code}"
        return Outcome(Verdict.FAILS, f"{end}{_last_line(output)}")


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a step: without a person's settings of NCCL, and with the NCCL of this Python."""
    kept = {name: value for name, value in given.items() if not name.startswith("NCCL_") or name in _OWN_SETTINGS}
    paths = [str(ROOT), *(str(Path(path).absolute()) for path in given.get("PYTHONPATH", "").split(":") if path)]
    # With a file of its own NCCL does not read ~/.nccl.conf: NCCL src/misc/param.cc.
    kept |= {"PYTHONPATH": ":".join(paths), "NCCL_CONF_FILE": os.devnull}
    libraries = [given.get("LD_LIBRARY_PATH", ""), *_nccl_folders()]
    return kept | {"LD_LIBRARY_PATH": ":".join(filter(None, libraries))}


def _nccl_folders() -> Sequence[str]:
    """The folders of NCCL in the wheel that PyTorch brings; none if this Python has none."""
    try:
        found = find_spec("nvidia.nccl")
    except ImportError:
        return ()
    return [f"{folder}/lib" for folder in (found.submodule_search_locations or ())] if found else ()


def _last_line(path: Path) -> str:
    lines = path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return f": {fitted(lines[-1])}" if lines else ""


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End the process and all that it started; a driver may hold some of it up."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, how)
        except ProcessLookupError:
            return
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_SECONDS)
