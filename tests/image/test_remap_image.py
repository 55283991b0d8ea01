"""The image of the remap container: it runs as the kubelet runs it, and does what the image of the webhook does."""

import json
import os
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.image.build import Image, Images
from tests.image.container import OPENSHIFT, Container
from tests.nvml import machines
from tests.nvml.library import DESCRIPTION
from tests.nvml.machines import write_machine
from tests.nvml.stub import nvml_library
from tests.programs.remap import pods
from webhook.words import names

__all__ = ["nvml_library"]

pytestmark = pytest.mark.image

REPORT = Path(__file__).parents[1] / "programs" / "remap" / "expected" / "report-pod-peers.txt"
SWAPPED = {**pods.POD_PEERS, "GPU_TOPOLOGY_CUDA_VISIBLE_DEVICES_0": "1,2"}
PODS = {
    "exclusive": pods.EXCLUSIVE,
    "pod-peers": pods.POD_PEERS,
    "node-peers": pods.NODE_PEERS,
    "another GPU": SWAPPED,
    "no variables": {},
}
USERS = pytest.mark.parametrize("user", ["65532:65532", OPENSHIFT])


@dataclass(frozen=True)
class Done:
    """How a run ended, and what it wrote."""

    code: int
    out: str
    err: str
    reason: str
    files: dict[str, str]


class Pod:
    """The directory that the containers of a pod share, on a node with eight H20 or without a driver."""

    def __init__(self, directory: Path, library: Path | None) -> None:
        directory.mkdir()
        self._shared = directory / "shared"
        self._shared.mkdir()
        self._shared.chmod(0o777)
        self._termination_log = directory / "log" / "termination-log"
        self._termination_log.parent.mkdir()
        self._termination_log.touch()
        self._termination_log.chmod(0o666)
        self.mounts = {names.FILES_PATH: self._shared, "/run/log": self._termination_log.parent}
        self.environment: dict[str, str] = {}
        if library:
            description = write_machine(machines.h20(), directory / "node")
            self.mounts |= {"/run/nvml": library, "/run/node": directory / "node"}
            self.environment = {"LD_LIBRARY_PATH": "/run/nvml", DESCRIPTION: f"/run/node/{description.name}"}
        self.options = ["--termination-log", "/run/log/termination-log", *(["--root", "/run/node"] if library else [])]

    def remap(self, image: Image, variables: dict[str, str], user: str = "") -> Done:
        """One run of the program, to its end."""
        container = Container(image, user=user, mounts=self.mounts, shm=False)
        done = container.run([*names.REMAP_COMMAND, *self.options], **self.environment, **variables)
        return Done(done.returncode, done.stdout, done.stderr, self._termination_log.read_text(), self.files())

    def files(self) -> dict[str, str]:
        return {path.name: path.read_text(encoding="utf-8") for path in self._shared.iterdir()}

    def owners(self) -> set[tuple[int, int]]:
        return {(path.stat().st_uid, path.stat().st_gid) for path in self._shared.iterdir()}


@pytest.mark.parametrize("with_driver", [True, False], ids=["eight H20", "no driver"])
@pytest.mark.parametrize("pod", PODS)
def test_both_images_do_the_same(
    images: Images, nvml_library: Path, tmp_path: Path, pod: str, with_driver: bool
) -> None:
    library = nvml_library if with_driver else None
    small = Pod(tmp_path / "remap", library).remap(images.remap, PODS[pod])
    assert small == Pod(tmp_path / "webhook", library).remap(images.webhook, PODS[pod])
    assert small.err == ""


@USERS
def test_it_writes_its_files_as_any_user_on_a_root_that_is_read_only(
    remap_image: Image, nvml_library: Path, tmp_path: Path, user: str
) -> None:
    pod = Pod(tmp_path / "pod", nvml_library)
    done = pod.remap(remap_image, {**pods.POD_PEERS, "GPU_TOPOLOGY_REQUIRE_NVLINK": "true"}, user)
    assert (done.code, done.err, done.reason) == (0, "", "")
    assert done.out == done.files["report.txt"] == REPORT.read_text(encoding="utf-8")
    assert done.files.keys() == {"report.txt", "env", "nccl-topo.xml"}
    assert pod.owners() == {tuple(int(part) for part in user.split(":"))}


def test_it_says_why_it_stops_a_pod(remap_image: Image, nvml_library: Path, tmp_path: Path) -> None:
    done = Pod(tmp_path / "pod", nvml_library).remap(remap_image, SWAPPED)
    assert (done.code, done.err) == (12, "")
    assert done.reason.startswith("CUDA_VISIBLE_DEVICES of container prefill is 1,2: 2 is GPU4 ")
    assert done.out.startswith(f"{done.reason}\n")
    assert done.files == {"report.txt": done.out}


@USERS
def test_as_a_sidecar_it_is_process_1_becomes_ready_and_ends_at_sigterm(
    remap_image: Image, nvml_library: Path, tmp_path: Path, user: str
) -> None:
    pod = Pod(tmp_path / "pod", nvml_library)
    container = Container(remap_image, user=user, mounts=pod.mounts, shm=False)
    probe = [*names.REMAP_COMMAND, "--mode", "probe"]
    assert container.run(probe).returncode == 1
    options = ["remap", *pod.options, "--mode", "sidecar"]
    with container.started(*options, **pod.environment, **pods.EXCLUSIVE) as sidecar:
        assert sidecar.line != ""
        status = sidecar.status()
        assert status["Uid"].split() == [user.partition(":")[0]] * 4
        assert (status["CapEff"], status["NoNewPrivs"]) == ("0000000000000000", "1")
        assert status["NSpid"].split()[-1] == "1"
        assert sidecar.run(probe).returncode == 0
        os.kill(sidecar.pid, signal.SIGTERM)
        assert sidecar.wait(10) == 0


def test_it_names_itself_its_version_and_its_commit(remap_image: Image) -> None:
    config = json.loads(remap_image.config)["Docker"]["config"]
    prefix = "org.opencontainers.image."
    labels = {name.removeprefix(prefix): value for name, value in config["Labels"].items() if name.startswith(prefix)}
    assert (labels["title"], labels["version"], labels["revision"]) == ("gpu-topology-remap", "1.2.3", "abc")
    assert Container(remap_image).entry(*config["Cmd"]).stdout.startswith("usage: gpu-topology remap ")


def test_it_says_which_image_has_the_other_commands(remap_image: Image) -> None:
    for command in ("serve", "explain", "--version"):
        said = Container(remap_image).entry(command)
        assert (said.returncode, said.stdout) == (1, "")
        assert "The image gpu-topology-remap has only the command remap" in said.stderr
        assert "Traceback" not in said.stderr
