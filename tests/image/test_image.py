"""The image of the webhook as it comes out of the Dockerfile, which runs where Pod Security is ``restricted``."""

import json
import os
import signal
import ssl
from pathlib import Path

import httpx
import pytest

from tests.image.build import ROOT, Image
from tests.image.container import OPENSHIFT, Container
from tests.ports import free_port
from tests.programs.server.conftest import until
from webhook import __version__

pytestmark = pytest.mark.image

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


def test_the_demo_runs_in_it_with_the_examples_of_the_wheel(image: Image) -> None:
    done = Container(image, user=OPENSHIFT).entry("demo", TMPDIR="/dev/shm")  # noqa: S108 - all that can be written to
    assert (done.returncode, done.stderr) == (0, "")
    assert "20 pods of 16 workloads went through the webhook over TLS." in done.stdout


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
