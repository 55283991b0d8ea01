"""``gpu-topology namespace`` at a real API server: a change with its question, and the way back."""

import subprocess
import sys
from pathlib import Path

import pytest
from kubernetes.client import CoreV1Api, V1ObjectMeta

from tests.cli.command import ROOT
from tests.control_plane.accounts import namespace_for_pods, permitted
from tests.control_plane.control_plane import ControlPlane
from webhook.cluster.api.namespace_change import change_namespace
from webhook.cluster.api.permissions import NAMESPACE_CHANGE, READER
from webhook.words.errors import GpuTopologyError

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("without_proxy")]


@pytest.fixture
def person(admin: CoreV1Api, control_plane: ControlPlane) -> Path:
    """One who may read what the reader may, and change namespaces, and whose account is elsewhere."""
    home = namespace_for_pods(admin, V1ObjectMeta(generate_name="people-"))
    return permitted(admin, control_plane, home, "person", (*READER, *NAMESPACE_CHANGE))


def metadata(admin: CoreV1Api, namespace: str) -> tuple[dict[str, str], dict[str, str]]:
    found = admin.read_namespace(namespace).metadata
    assert found is not None
    return dict(found.labels or {}), dict(found.annotations or {})


def answered(answer: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "webhook", "namespace", *map(str, arguments)]
    return subprocess.run(command, input=answer, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT)


def test_a_change_is_written_after_a_question_and_the_way_back_undoes_it(
    admin: CoreV1Api, namespace: str, person: Path
) -> None:
    hostile = "a\nb $(id) '\x1b[2J"
    admin.patch_namespace(namespace, {"metadata": {"annotations": {"gpu.topology/env.NCCL_X": hostile, "own": "1"}}})
    before = metadata(admin, namespace)
    options = (namespace, "--set", "profile=node-peers", "--set", "env.NCCL_X=b", "--apply", "--kubeconfig", person)
    refused = answered("n\n", *options)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert f"Write this to namespace {namespace}? [y/N]:" in refused.stderr
    assert metadata(admin, namespace) == before

    done = answered("y\n", *options)
    assert done.returncode == 0, done.stderr
    labels, annotations = metadata(admin, namespace)
    given = dict.fromkeys(("allow-host-ipc", "allow-host-pid", "allow-node-gpus"), "true") | {"injection": "enabled"}
    assert labels == before[0] | {f"gpu.topology/{key}": value for key, value in given.items()}
    assert annotations == {"gpu.topology/profile": "node-peers", "gpu.topology/env.NCCL_X": "b", "own": "1"}

    commands = [line for line in done.stdout.splitlines() if not line.startswith("#")]
    assert [line.split()[3] for line in commands] == ["label", "annotate"]
    script = f"kubectl() {{ shift 2; printf '%s\\0' \"$@\"; }}\n{done.stdout}"
    ran = subprocess.run(["/bin/bash", "-c", script], capture_output=True, check=True, text=True)
    words = ran.stdout.split("\0")
    assert f"gpu.topology/env.NCCL_X={hostile}" in words
    assert "gpu.topology/profile-" in words


def test_a_namespace_that_was_changed_meanwhile_is_left_as_it_is(
    admin: CoreV1Api, namespace: str, person: Path
) -> None:
    found = admin.read_namespace(namespace).metadata
    assert found is not None
    version = {"uid": str(found.uid), "resourceVersion": str(found.resource_version)}
    admin.patch_namespace(namespace, {"metadata": {"labels": {"team": "b"}}})
    before = metadata(admin, namespace)
    with pytest.raises(GpuTopologyError, match=f"namespace {namespace} was changed meanwhile, so nothing was written"):
        change_namespace(person, namespace, version, {"gpu.topology/injection": "enabled"}, {})
    assert metadata(admin, namespace) == before
