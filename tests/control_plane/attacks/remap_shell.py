"""A shell in the remap container. There is no kubelet here, so the program runs as a process of this machine."""

import os
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.control_plane.attacks.replay import Found
from tests.control_plane.attacks.stage import Stage
from tests.control_plane.hami.team import variables_of
from tests.control_plane.registration import gpu_container, gpu_pod
from tests.nvml.machines import h20
from tests.programs.remap.pods import EXCLUSIVE
from tests.programs.remap.processes import PATIENCE_SECONDS, Node
from webhook.words.names import ENV_NVIDIA_VISIBLE_DEVICES, REMAP_CONTAINER

WRITTEN = ("nccl-topo.xml", "env", "report.txt")
READY = "ready"
"""Written by a sidecar alone, for its own probe."""
PLANTED = b"planted by a shell"


def run(stage: Stage) -> Found:
    """What the container sees, by the pod that is stored; and what it does about things in its way."""
    said, faults = [], []
    for carrier in ("init", "sidecar"):
        seen = _sees(stage, carrier)
        said.append(f"{carrier} sees {seen}")
        if seen == "all":
            faults.append(f"the container of carrier {carrier} sees every GPU of the node")
    for what, plant in (("FIFO", os.mkfifo), ("file", _plant_file), ("link", _plant_link)):
        fault = _run_among(stage, plant)
        said.append(f"{what} in its way: {fault or 'written past it'}")
        faults += [f"a {what} in its way: {fault}"] if fault else []
    return Found("; ".join(said), tuple(faults))


def _sees(stage: Stage, carrier: str) -> str:
    """The list of GPUs of the container, in a namespace without permissions."""
    pod = gpu_pod(f"shell-{carrier}", {"gpu.topology/remap": carrier}, gpu_container())
    answer = stage.creator.creates(stage.team, pod, dry_run=True)
    if answer.status != 201:
        return answer.short
    (ours,) = (one for one in answer.body["spec"]["initContainers"] if one["name"] == REMAP_CONTAINER)
    return str(variables_of(ours).get(ENV_NVIDIA_VISIBLE_DEVICES, "none"))


def _run_among(stage: Stage, plant: Callable[[Path], None]) -> str:
    """What goes wrong where something is planted at each path, again and again, while the program runs."""
    with tempfile.TemporaryDirectory() as directory:
        node = Node(stage.nvml, Path(directory), h20())
        with _planting(node.shared, plant), node.started(EXCLUSIVE) as process:
            try:
                process.communicate(timeout=PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                return "the program hangs, and the shell keeps every card"
        link_target = Path(directory) / "elsewhere"
        if link_target.exists() and link_target.read_bytes() != PLANTED:
            return "what a link leads to was overwritten"
        if process.returncode != 0:
            return ""  # then the pod does not start
        planted = [name for name in WRITTEN if PLANTED in _content(node.shared / name)]
        return f"{planted[0]} has what was planted" if planted else ""


@contextmanager
def _planting(shared: Path, plant: Callable[[Path], None]) -> Iterator[None]:
    """At the names of the files, and at those under which they were once written before they got their own."""
    ending = threading.Event()

    def go() -> None:
        while not ending.is_set():
            for name in (*WRITTEN, READY):
                for path in (shared / name, shared / f".{name}.new"):
                    with suppress(OSError):
                        plant(path)

    thread = threading.Thread(target=go)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()


def _plant_file(path: Path) -> None:
    """One that stays open: whatever is written there later can be changed from then on."""
    with path.open("xb") as file:
        file.write(PLANTED)


def _plant_link(path: Path) -> None:
    target = path.parent.parent / "elsewhere"
    if not target.exists():
        target.write_bytes(PLANTED)
    path.symlink_to(target)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes() if path.is_file() else b""
    except FileNotFoundError:
        return b""
