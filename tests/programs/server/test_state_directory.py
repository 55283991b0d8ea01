"""The reviews with a state directory: its files are read at the moment of each Binding."""

import base64
import json
from pathlib import Path

from tests.hardware.topology.machines import a100_pcie_bridged
from tests.pods import Manifest
from tests.programs.server.asgi import application, binding_review, post
from tests.programs.server.test_bindings import injected, to_node
from webhook.cluster.files.state import DirectoryState
from webhook.hardware.topology.document import format_topology

FILES = {
    "namespaces/ml-workloads.yaml": "kind: Namespace\n"
    "metadata: {name: ml-workloads, labels: {gpu.topology/injection: enabled}}\n",
    "nodes/a100-pcie.json": format_topology(a100_pcie_bridged()),
}


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def bound(state: Path, pod: str) -> Manifest:
    """The response about a Binding of this pod."""
    write(state, **FILES, **{"pods/train.yaml": pod})
    known = DirectoryState(state)
    with (state / "log").open("wb") as log:
        app = application(known, log, known)
        return post(app, binding_review(to_node()), path="/mutate/bindings").response


def test_a_binding_is_answered_from_the_directory_as_it_is_at_the_moment(tmp_path: Path) -> None:
    first = bound(tmp_path, json.dumps(injected(0, 1)))
    second = bound(tmp_path, json.dumps(injected(1, 2, require_nvlink="true", on_violation="deny")))
    (operation,) = json.loads(base64.b64decode(first["patch"], validate=True))
    assert operation["value"]["gpu.topology/link"] == "NVLink"
    assert (second["allowed"], second["status"]["code"]) == (False, 403)


def test_a_pod_whose_file_cannot_be_read_is_refused_with_the_name_of_the_file(tmp_path: Path) -> None:
    response = bound(tmp_path, "kind: [")
    assert (response["allowed"], response["status"]["code"]) == (False, 503)
    assert f"{tmp_path}/pods/train.yaml line 1: expected YAML" in response["status"]["message"]
