"""The image as it comes out of the Dockerfile: what is in it, and that it runs where Pod Security is ``restricted``."""

import json
import os
import signal
import ssl
import stat
from pathlib import Path

import httpx
import pytest

from tests.image.build import ROOT, Image
from tests.image.container import Container
from tests.ports import free_port
from tests.remap import pods
from tests.server.conftest import until
from webhook import __version__

pytestmark = pytest.mark.image

HOME = "opt/gpu-topology"
OPENSHIFT = "1000650000:0"
"""OpenShift gives each namespace user ids of its own, and group 0."""
REVIEW = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "1",
        "operation": "CREATE",
        "namespace": "video",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "object": {
            "metadata": {"name": "train"},
            "spec": {"containers": [{"name": "train", "resources": {"limits": {"nvidia.com/gpu": 4}}}]},
        },
    },
}
EVERY_MODULE = """
import importlib, pkgutil, sys, certs, webhook
for package in (webhook, certs):
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not found.name.endswith(("__main__", ".kubeconfig")):  # the latter needs the client that is left out
            importlib.import_module(found.name)
print(len([name for name in sys.modules if name.startswith(("webhook", "certs"))]))
"""


@pytest.fixture
def config(image: Image) -> dict[str, object]:
    found: dict[str, object] = json.loads(image.config)["Docker"]["config"]
    return found


def test_it_names_its_version_and_commit(image: Image, config: dict[str, dict[str, str]]) -> None:
    prefix = "org.opencontainers.image."
    labels = {name.removeprefix(prefix): value for name, value in config["Labels"].items() if name.startswith(prefix)}
    assert (labels["title"], labels["version"], labels["revision"]) == ("gpu-topology-webhook", "1.2.3", "abc")
    said = Container(image).entry("--version")
    assert (said.returncode, said.stdout.split()[-1]) == (0, __version__)


def test_every_module_can_be_imported_as_any_user(image: Image) -> None:
    sources = [path for package in ("webhook", "certs") for path in (ROOT / package).rglob("*.py")]
    count = sum(path.stem not in ("__main__", "kubeconfig") for path in sources)
    for user in ("65532:65532", OPENSHIFT):
        done = Container(image, user=user).run(["python", "-W", "error", "-c", EVERY_MODULE])
        assert done.stderr == ""
        assert done.stdout.strip() == str(count)


def test_a_kubeconfig_needs_what_is_left_out_and_the_program_says_so(image: Image) -> None:
    said = Container(image).entry("certs", "show", "--namespace", "x", "--kubeconfig", "/etc/kubeconfig")
    assert said.returncode == 1
    assert "needs the Python package kubernetes, which the image does not have" in said.stderr


def test_nothing_in_it_installs_or_compiles_programs(image: Image) -> None:
    tools = {"pip", "pip3", "cc", "gcc", "c++", "g++", "ld", "make", "git", "curl", "wget", "uv"}
    folders = [image.root / name for name in ("usr/bin", "usr/sbin", "usr/local/bin", f"{HOME}/bin")]
    assert not tools & {path.name for folder in folders for path in folder.iterdir()}
    for module in ("pip", "setuptools", "ensurepip", "wheel"):
        assert Container(image).run(["python", "-c", f"import {module}"]).returncode == 1, module
    assert {path.name for path in (image.root / HOME / "bin").iterdir() if not path.is_symlink()} <= {
        "gpu-topology", "activate", "activate.csh", "activate.fish", "Activate.ps1"
    }  # fmt: skip


def test_the_demo_runs_in_it_with_the_examples_of_the_wheel(image: Image) -> None:
    done = Container(image, user=OPENSHIFT).entry("demo", TMPDIR="/dev/shm")  # noqa: S108 - all that can be written to
    assert (done.returncode, done.stderr) == (0, "")
    assert "20 pods of 16 workloads went through the webhook over TLS." in done.stdout


def test_nobody_but_root_can_change_it(image: Image) -> None:
    for path in (image.root / HOME).rglob("*"):
        found = path.lstat()
        assert (found.st_uid, found.st_gid) == (0, 0), path
        assert path.is_symlink() or not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH | stat.S_ISUID), path
        assert path.is_symlink() or found.st_mode & stat.S_IROTH, path


def test_each_module_has_bytecode_that_python_takes_without_looking_at_the_source(image: Image) -> None:
    packages = image.root / HOME / "lib" / "python3.11" / "site-packages"
    sources = [path for path in packages.rglob("*.py") if "tests" not in path.parts]
    assert len(sources) > 1000
    for source in sources:
        compiled = source.parent / "__pycache__" / f"{source.stem}.cpython-311.pyc"
        assert compiled.read_bytes()[4:8] == b"\x01\x00\x00\x00", source  # PEP 552: by hash, and that not checked
    said = Container(image).run(["python", "-v", "-c", "import webhook.entry"]).stderr
    assert "code object from '/opt/gpu-topology/lib/python3.11/site-packages/webhook/__pycache__/entry" in said


def test_it_is_small(image: Image, capsys: pytest.CaptureFixture[str]) -> None:
    whole, ours = (_mebibytes(path) for path in (image.root, image.root / HOME))
    with capsys.disabled():
        print(f"\nimage: {whole} MiB = base {image.base_mib} + Python {whole - ours - image.base_mib} + ours {ours}")
    assert ours < 160
    assert whole < 280


@pytest.mark.parametrize("user", ["65532:65532", OPENSHIFT])
def test_serve_answers_reviews_on_a_root_that_is_read_only_and_ends_at_sigterm(
    image: Image, user: str, tmp_path: Path
) -> None:
    tmp_path.chmod(0o777)
    settings = tmp_path / "config.yaml"
    settings.write_text("server: {drainSeconds: 0.1}\n", encoding="utf-8")
    port, ops = free_port(), free_port()
    container = Container(image, user=user, mounts={"/run/state": ROOT / "examples" / "state", "/run/out": tmp_path})
    options = [
        "--state",
        "/run/state",
        "--self-signed",
        "--ca-file",
        "/run/out/ca.crt",
        "--config",
        "/run/out/config.yaml",
    ]
    with container.started("serve", *options, "--port", str(port), "--ops-port", str(ops)) as serve:
        assert json.loads(serve.line)["reviews"] == f"https://0.0.0.0:{port}"
        until(lambda: is_ready(ops), "the webhook to be ready")
        status = serve.status()
        assert status["Uid"].split() == [user.partition(":")[0]] * 4
        assert (status["CapEff"], status["NoNewPrivs"]) == ("0000000000000000", "1")
        assert status["NSpid"].split()[-1] == "1"
        trust = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
        answer = httpx.post(f"https://localhost:{port}/mutate/pods", json=REVIEW, verify=trust, trust_env=False)
        response = answer.json()["response"]
        assert response["allowed"]
        assert response["auditAnnotations"]["outcome"] == "patch"

        check = [word.replace(":8080/", f":{ops}/") for word in container.config["Healthcheck"]["Test"]]
        assert check[0] == "CMD"
        assert container.run(check[1:]).returncode == 0
        os.kill(serve.pid, signal.SIGTERM)
        assert serve.wait(10) == 0
        assert container.run(check[1:]).returncode == 1


def test_remap_writes_its_files_and_says_why_it_stops_a_pod(image: Image, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    container = Container(image, mounts={"/run/gpu-topology": tmp_path}, shm=False)
    assert container.entry("remap", **pods.EXCLUSIVE).returncode == 0
    assert {path.name for path in tmp_path.iterdir()} == {"report.txt", "env", "nccl-topo.xml"}
    assert {path.stat().st_uid for path in tmp_path.iterdir()} == {65532}
    other = {**pods.POD_PEERS, "GPU_TOPOLOGY_CUDA_VISIBLE_DEVICES_0": "1,2"}
    stopped = container.entry("remap", **other)
    assert (stopped.returncode, stopped.stderr) == (12, "")
    assert stopped.stdout.startswith("CUDA_VISIBLE_DEVICES of container prefill is 1,2: 2 is GPU4 ")


def test_the_agent_says_what_it_needs_on_a_machine_without_a_driver(image: Image) -> None:
    done = Container(image).entry("agent", "--dry-run", "--node", "n", "--namespace", "gpu-topology")
    assert done.returncode == 1
    assert "name: gpu-topology-n" in done.stdout
    assert "no topology of node n: libnvidia-ml.so.1 is not here" in done.stderr


def is_ready(ops_port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{ops_port}/readyz", trust_env=False).is_success
    except httpx.TransportError:
        return False


def _mebibytes(directory: Path) -> int:
    found = [path.lstat() for path in directory.rglob("*")]
    files = {(one.st_dev, one.st_ino): one.st_size for one in found if not stat.S_ISDIR(one.st_mode)}
    return sum(files.values()) // 2**20
