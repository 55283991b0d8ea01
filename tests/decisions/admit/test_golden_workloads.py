"""Each example workload, put through `inject`, equals its hand-written result."""

from pathlib import Path

import pytest
import yaml

from tests.judge import load, policy
from webhook.cli.workload import inject_manifest
from webhook.cluster.files.state import DirectoryState

ROOT = Path(__file__).parents[3]
WORKLOADS = ROOT / "examples" / "workloads"
CASES = ROOT / "tests" / "cases" / "workloads"
NAMES = sorted(path.stem for path in WORKLOADS.glob("*.yaml"))


@pytest.mark.parametrize("name", NAMES)
def test_the_workload_comes_out_as_written_by_hand(name: str) -> None:
    path = WORKLOADS / f"{name}.yaml"
    injection = inject_manifest(path.read_text(), path.name, policy(), DirectoryState(ROOT / "examples" / "state"))
    refused = CASES / f"{name}.refused.yaml"
    if refused.exists():
        wanted = load(refused)
        (template,) = injection.templates
        assert template.outcome.reason == wanted["reason"]
        for fragment in wanted["message"]:
            assert fragment in template.outcome.message
    else:
        assert not injection.refused
        expected = yaml.safe_load_all((CASES / f"{name}.yaml").read_text())
        assert list(yaml.safe_load_all(injection.text)) == list(expected)


def test_there_are_at_least_ten_examples() -> None:
    assert len(NAMES) >= 10
