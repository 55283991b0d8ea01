"""The pods of the run, and that they are created, looked at and deleted, with a kubectl that notes what it is asked."""

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.decisions.test_detection import deployment
from tests.gpu.pods import CASES, CONTROL, EXCLUSIVE, Cluster, manifest_of

ROOT = Path(__file__).parents[2]
CLUSTER = Cluster(namespace="gpu-trial", image="registry.corp.example/gpu-topology-webhook:0.1.0")
KUBECTL = """#!/bin/sh
echo "$*" >> "$NOTES"
case "$*" in
  "version "*) echo '{"clientVersion": {"gitVersion": "v1.35.0"}, "serverVersion": {"gitVersion": "v1.36.3"}}' ;;
  "get deployments "*) echo "$DEPLOYMENTS" ;;
  *" logs gpu-topology-acceptance-exclusive "*) echo '{"pairs": [{"verdict": "as-expected"}]}' ;;
  *"-peers --container="*) echo '{"outcomes": [{"kind": "cuda-ipc", "verdict": "works"}]}' ;;
  *" logs "*) echo '{"pairs": [{"verdict": "not-nvlink"}]}' ;;
  *" get pod "*) echo '{"spec": {"nodeName": "secret-node.corp"}, "metadata": {"namespace": "gpu-trial"}}' ;;
esac
"""


def test_the_two_pods_differ_in_injection_alone() -> None:
    (one,), (other,) = (manifest_of(case, CLUSTER)["items"] for case in (EXCLUSIVE, CONTROL))
    assert one["spec"] == other["spec"]
    assert one["metadata"]["annotations"] == {"gpu.topology/profile": "exclusive"}
    assert other["metadata"]["labels"] == {"gpu.topology/injection": "disabled"}


HAMI = deployment("projecthami/hami:v2.10.0")


@pytest.mark.parametrize(("deployments", "hami"), [(json.dumps({"items": [HAMI]}), "2.10.0"), ("forbidden", "")])
def test_pods_are_created_looked_at_and_deleted(tmp_path: Path, deployments: str, hami: str) -> None:
    (tmp_path / "kubectl").write_text(KUBECTL)
    (tmp_path / "kubectl").chmod(0o755)
    notes = tmp_path / "notes"
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "NOTES": str(notes),
        "DEPLOYMENTS": deployments,
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "200",
    }
    arguments = ["--namespace", CLUSTER.namespace, "--image", CLUSTER.image, "--output", "found.tar.gz"]
    command = [sys.executable, "-m", "tests.gpu", *arguments]
    done = subprocess.run(command, check=False, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of 1 pairs as expected with injection, and 0 of 1 pairs as expected without" in done.stdout
    asked = [line.removeprefix("--namespace gpu-trial ").split()[0] for line in notes.read_text().splitlines()]
    assert asked == ["version", "get"] + ["create", "wait", "logs", "get", "delete"] * len(CASES)
    with tarfile.open(tmp_path / "found.tar.gz") as archive:
        texts = [file.read().decode() for member in archive.getmembers() if (file := archive.extractfile(member))]
    assert not any(word in text for text in texts for word in ("secret-node", "gpu-trial", "registry.corp"))
    result = json.loads(texts[-1])
    assert result["kind"] == "AcceptanceResult"
    assert (result["machine"]["hami"], result["machine"]["kubernetes"]) == (hami, "1.36.3")


def test_a_namespace_without_an_image_is_wrong_usage() -> None:
    command = [sys.executable, "-m", "tests.gpu", "--namespace", "gpu-trial"]
    done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "give --namespace and --image, or neither" in done.stderr
