"""``gpu-topology inject`` and the server give the same patch for the same pod, byte for byte."""

import base64
from pathlib import Path
from tempfile import TemporaryFile

import yaml

from tests.cli.command import gpu_topology
from tests.pods import Manifest
from tests.programs.server.asgi import App, application, post, review
from tests.programs.server.conftest import EXAMPLE_STATE, ROOT
from webhook.cluster.files.state import DirectoryState

EXAMPLES = sorted((ROOT / "examples" / "workloads").glob("*.yaml"))
CASES = sorted((ROOT / "tests" / "cases" / "pods").glob("*/pod.yaml"))

TEAM_A = """\
apiVersion: v1
kind: Namespace
metadata:
  name: team-a
  labels:
    gpu.topology/injection: enabled
    gpu.topology/allow-host-ipc: "true"
    gpu.topology/allow-host-pid: "true"
    gpu.topology/allow-host-network: "true"
    gpu.topology/allow-node-gpus: "true"
"""


def bare_pods(paths: list[Path]) -> list[tuple[str, Manifest]]:
    """The text and the content of each file that is one Pod."""
    texts = [path.read_text() for path in paths]
    found = [(text, list(yaml.safe_load_all(text))) for text in texts]
    return [(text, documents[0]) for text, documents in found if len(documents) == 1 and documents[0]["kind"] == "Pod"]


def ask(app: App, manifest: Manifest, default: str) -> Manifest:
    """The ``response`` of the server."""
    namespace = manifest["metadata"].get("namespace", default)
    answer = post(app, review(manifest, namespace))
    assert answer.status == 200
    return answer.response


def patch_text(response: Manifest) -> str:
    return base64.b64decode(response["patch"], validate=True).decode() if "patch" in response else "[]"


def compare(found: list[tuple[str, Manifest]], state: Path, default: str) -> tuple[int, int]:
    """Compares patches, messages and warnings; returns how many pods were patched and how many refused."""
    with TemporaryFile() as log:
        app = application(DirectoryState(state), log)
        responses = [ask(app, manifest, default) for _, manifest in found]
    allowed = [text for (text, _), response in zip(found, responses, strict=True) if response["allowed"]]
    common: list[str | Path] = ["inject", "--state", state, "-n", default, "-o", "patch", "-f", "-"]
    done = gpu_topology(*common, stdin="\n---\n".join(allowed))
    assert done.code == 0, done.err
    patches = [patch_text(response) for response in responses if response["allowed"]]
    assert done.out.splitlines() == patches
    refused = [one for one in zip(found, responses, strict=True) if not one[1]["allowed"]]
    if refused:
        done = gpu_topology(*common, stdin="\n---\n".join(text for (text, _), _ in refused))
        assert (done.code, done.out) == (1, "")
        for (_, manifest), response in refused:
            said = f"refused: Pod {manifest['metadata']['name']}: {response['status']['message']}\n"
            assert said in done.err
    return sum(patch != "[]" for patch in patches), len(refused)


def test_the_examples_come_out_the_same() -> None:
    found = bare_pods(EXAMPLES)
    assert len(found) >= 3
    patched, _ = compare(found, EXAMPLE_STATE, "default")
    assert patched >= 2


def test_the_cases_come_out_the_same(tmp_path: Path) -> None:
    state = tmp_path / "state"
    (state / "namespaces").mkdir(parents=True)
    (state / "namespaces" / "team-a.yaml").write_text(TEAM_A)
    (state / "cluster.yaml").write_text('{hamiVersion: "2.9.0", kubernetesVersion: "1.33.2"}')
    found = bare_pods(CASES)
    assert len(found) == len(CASES)
    patched, refused = compare(found, state, "team-a")
    assert patched >= 30
    assert refused >= 5
