"""Kubeconfig files mean the same to the real kubectl and to us."""

import base64
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.api.kubeconfigs import SHAPES, Shape
from tests.go_programs.catalogue import KUBECTL
from tests.go_programs.left_out import GetProgram
from webhook.cluster.api.contexts import Context
from webhook.cluster.api.kubeconfig_files import read_context
from webhook.words.errors import GpuTopologyError

pytestmark = pytest.mark.cluster


def said_by_kubectl(kubectl: Path, shape: Shape, directory: Path) -> dict[str, Any] | None:
    """The context with what files hold written out; None if kubectl cannot use it."""
    named = os.pathsep.join(map(str, shape.write(directory)))
    options = ["--context", shape.context] if shape.context else []
    done = subprocess.run(
        [kubectl, "config", "view", "--minify", "--flatten", "--raw", "-o", "json", *options],
        env={"HOME": str(directory), "KUBECONFIG": named},
        cwd=directory,
        capture_output=True,
        check=False,
        timeout=60,
    )
    return json.loads(done.stdout) if done.returncode == 0 else None


def said_by_us(shape: Shape, directory: Path) -> dict[str, Any] | None:
    """The same from our reading."""
    try:
        found = read_context(Context(tuple(shape.write(directory)), shape.context))
    except GpuTopologyError:
        return None
    for entry in (found["clusters"][0]["cluster"], found["users"][0]["user"]):
        for member in ("certificate-authority", "client-certificate", "client-key"):
            if member in entry:
                entry[f"{member}-data"] = base64.b64encode(Path(entry.pop(member)).read_bytes()).decode()
    return found


def entries(document: dict[str, Any] | None) -> list[Any] | None:
    """Cluster, user and namespace; a user that is not named is one without credentials."""
    if document is None:
        return None
    users = document["users"] or [{"user": {}}]
    namespace = document["contexts"][0]["context"].get("namespace")
    return [document["current-context"], document["clusters"][0], users[0]["user"], namespace]


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_context_is_what_kubectl_makes_of_it(shape: Shape, go_program: GetProgram, tmp_path: Path) -> None:
    expected = said_by_kubectl(go_program(KUBECTL), shape, tmp_path)
    assert (expected is not None) is shape.usable
    assert entries(said_by_us(shape, tmp_path)) == entries(expected)
