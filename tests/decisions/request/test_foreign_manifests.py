"""Forty manifests of public projects: those that exchange GPU memory over CUDA IPC are recognised, and no others."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from tests.pods import Manifest, container, pod
from webhook.decisions.request.exchange import signs
from webhook.objects.manifest.pods import to_json
from webhook.objects.pod import Pod

FOREIGN: list[dict[str, Any]] = yaml.safe_load(
    Path(__file__).with_name("foreign_manifests.yaml").read_text(encoding="utf-8")
)
WORKLOADS = Path(__file__).parents[3] / "examples" / "workloads"


def manifest_of(given: dict[str, Any]) -> Manifest:
    """A pod with the container of a row."""
    by_field = {"fieldRef": {"fieldPath": "status.podIP"}}
    env = [{"name": name, "value": value} for name, value in given.get("env", {}).items()]
    env += [{"name": name, "valueFrom": by_field} for name in given.get("from_field", ())]
    main: Manifest = {**container(), "args": given.get("args", []), "env": env}
    return pod(main, hostIPC=given.get("hostIPC", False))


def told(manifest: Manifest) -> list[str]:
    spec = msgspec.json.decode(to_json(manifest), type=Pod).spec
    assert spec is not None
    return [str(sign) for sign in signs(spec, spec.containers or ())]


def test_each_is_recognised_or_has_a_reason(subtests: pytest.Subtests) -> None:
    for given in FOREIGN:
        with subtests.test(given["from"]):
            assert told(manifest_of(given)) == given.get("signs", [])
            assert bool(given.get("signs")) != bool(given.get("why"))


def test_there_are_forty_of_them_and_each_once() -> None:
    assert len({given["from"] for given in FOREIGN}) == len(FOREIGN) == 40
    assert sum(bool(given.get("signs")) for given in FOREIGN) == 15
    assert sum(bool(given.get("missed")) for given in FOREIGN) == 3


def test_no_example_without_peers_has_a_sign() -> None:
    with_signs = {path.name for path in WORKLOADS.glob("*.yaml") if any(map(told, _pods(path)))}
    assert with_signs <= {"03-pd-prefill.yaml", "04-pd-decode.yaml", "08-pd-one-pod.yaml"}


def _pods(path: Path) -> list[Manifest]:
    """Pods of the specs in the documents of an example."""
    found, waiting = [], list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            if isinstance(node.get("containers"), list):
                found.append({**pod(), "spec": node})
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node
    return found
