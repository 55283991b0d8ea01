"""Each folder of tests/cases/recipes is a recipe, and what must come of it at each step; written by hand.

``expected.yaml`` has ``notes`` (of ``inject``, a piece of each) and, for the pods of each owner, ``admission`` (the
reason), ``bind`` (reason, annotations, warnings), ``start`` (the exit code of the remap program, and the file for NCCL)
and ``explain`` (reach, the conditions that fail, verdicts of others, a piece of the advice).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.judge import load
from tests.nvml import machines
from tests.nvml.stub import nvml_library
from tests.programs.remap.processes import Node
from tests.recipes.recipe import Recipe
from webhook.insight.explain.findings import Finding, Report
from webhook.objects.binding import BindOutcome
from webhook.programs.remap.verdict import ExitCode
from webhook.words import names

__all__ = ["nvml_library"]

CASES = Path(__file__).parents[1] / "cases" / "recipes"
NAMES = sorted(path.name for path in CASES.iterdir())


def wanted(name: str) -> Any:
    return load(CASES / name / "expected.yaml")


def steps(name: str, step: str) -> dict[str, Any]:
    """What is written of a step, by the owners of the pods."""
    pods = wanted(name).get("pods", {})
    return {owner: written[step] for owner, written in pods.items() if step in written}


def is_said(pieces: list[str], texts: list[str]) -> bool:
    """Whether each piece is in the text at its place, and there is no other text."""
    return len(pieces) == len(texts) and all(piece in text for piece, text in zip(pieces, texts, strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_the_manifest_comes_out_as_written_by_hand(name: str) -> None:
    injection = Recipe(CASES / name).injection
    after = CASES / name / "after.yaml"
    if after.exists():
        assert list(yaml.safe_load_all(injection.text)) == list(yaml.safe_load_all(after.read_text()))
    else:
        assert injection.text == (CASES / name / "manifest.yaml").read_text()
    notes = list(injection.notes())
    assert is_said(wanted(name).get("notes", []), notes), notes


@pytest.mark.parametrize("name", NAMES)
def test_admission_binding_and_explain_decide_as_written_by_hand(name: str) -> None:
    recipe = Recipe(CASES / name)
    for owner, reason in steps(name, "admission").items():
        assert recipe.one(owner).outcome.reason == reason, owner
    for owner, step in steps(name, "bind").items():
        check_binding(recipe.binding(owner), step)
    for owner, step in steps(name, "explain").items():
        check_report(recipe.report(owner), step)


def check_binding(outcome: BindOutcome, step: Mapping[str, Any]) -> None:
    assert outcome.reason == step["reason"]
    assert outcome.allowed == step.get("allowed", True)
    written = {key: value for key, value in outcome.annotations.items() if key != names.NODE_TOPOLOGY}
    assert written == step.get("annotations", {})
    assert is_said(step.get("warnings", []), outcome.warnings), outcome.warnings


def check_report(report: Report, step: Mapping[str, Any]) -> None:
    assert report.reach == step["reach"], report.conclusion
    assert [finding.condition for finding in report.findings if finding.fails] == step.get("fails", [])
    for condition, verdict in step.get("verdicts", {}).items():
        assert {str(finding.verdict) for finding in found(report, condition)} == {verdict}, condition
    for condition, piece in step.get("advice", {}).items():
        assert any(piece in finding.remedy for finding in found(report, condition)), found(report, condition)


def found(report: Report, condition: str) -> list[Finding]:
    return [finding for finding in report.findings if finding.condition == condition]


@pytest.mark.long  # the demo starts pods in make test
@pytest.mark.parametrize("name", [name for name in NAMES if steps(name, "start")])
def test_the_remap_program_ends_as_written_by_hand(name: str, nvml_library: Path, tmp_path: Path) -> None:
    machine = load(CASES / name / "situation.yaml").get("machine", "h20")
    for owner, step in steps(name, "start").items():
        folder = tmp_path / owner.replace("/", "-")
        folder.mkdir()
        node = Node(nvml_library, folder, getattr(machines, machine)())
        done = node.remap(Recipe(CASES / name).variables(owner))
        assert done.code == ExitCode[step["code"]], done.out
        files = {"nccl.conf": node.read("nccl.conf")} if "nccl.conf" in node.files() else {}
        assert files == ({"nccl.conf": step["nccl.conf"]} if "nccl.conf" in step else {})


def test_there_are_recipes() -> None:
    assert len(NAMES) >= 15
