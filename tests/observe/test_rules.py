"""Recording rules and alerts: judged by Prometheus's own engine, and by the metrics that there are."""

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.go_programs.catalogue import PROMTOOL
from tests.go_programs.left_out import GetProgram
from tests.observe.exposed import exposed
from tests.observe.expressions import Recorded, labels_left, mistakes

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "chart" / "files" / "rules.yaml"
UNIT_TESTS = Path(__file__).with_name("rules_test.yaml")
TROUBLESHOOTING = ROOT / "docs" / "troubleshooting.md"


@cache
def rules(kind: str) -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"] if kind in rule]


@cache
def recorded() -> Recorded:
    return {rule["record"]: labels_left(rule["expr"], exposed(), {}) for rule in rules("record")}


@pytest.fixture(scope="session")
def promtool(go_program: GetProgram) -> Path:
    return go_program(PROMTOOL)


@pytest.mark.cluster
@pytest.mark.long
def test_prometheus_accepts_the_rules(promtool: Path) -> None:
    command: list[str | Path] = [promtool, "check", "rules", "--lint=all", "--lint-fatal", RULES]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.cluster
@pytest.mark.long
def test_prometheus_fires_each_alert_when_it_should_and_not_before(promtool: Path, tmp_path: Path) -> None:
    for path in (RULES, UNIT_TESTS):
        shutil.copy(path, tmp_path)
    command: list[str | Path] = [promtool, "test", "rules", UNIT_TESTS.name]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_series_label_and_value_of_a_rule_exists() -> None:
    for rule in (*rules("alert"), *rules("record")):
        assert mistakes(rule["expr"], exposed(), recorded()) == [], rule


def test_a_rule_with_a_mistake_would_be_found() -> None:
    wrong = 'sum by (nodes) (rate(gpu_topology_health{state="ill", gpu="0"}[5m])) / no_such_total'
    assert mistakes(wrong, exposed(), {}) == [
        'no such value: gpu_topology_health state="ill"',
        "no label gpu of gpu_topology_health",
        "no series no_such_total",
        "no label nodes to aggregate by",
    ]


def test_every_alert_waits_and_says_how_bad_it_is_what_it_is_and_what_to_do() -> None:
    for rule in rules("alert"):
        assert rule["for"], rule
        assert rule["labels"].keys() == {"severity"}, rule
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}, rule
        assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}, rule
        assert len(rule["annotations"]["summary"]) < 120, rule


def test_every_label_in_the_text_of_an_alert_is_one_that_it_has() -> None:
    for rule in rules("alert"):
        left = labels_left(rule["expr"], exposed(), recorded())
        named = set(re.findall(r"\$labels\.(\w+)", "".join(rule["annotations"].values())))
        assert named <= left, rule


def test_the_runbook_of_every_alert_is_a_heading_that_names_it() -> None:
    sections = re.split(r"^#+ (.+)$", TROUBLESHOOTING.read_text(), flags=re.MULTILINE)
    anchors = {
        heading.lower().replace(" ", "-"): text for heading, text in zip(sections[1::2], sections[2::2], strict=True)
    }
    for rule in rules("alert"):
        page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        assert page.endswith("/docs/troubleshooting.md"), rule
        assert f"`{rule['alert']}`" in anchors[anchor], rule


def test_every_alert_has_a_unit_test_that_lets_it_fire_and_is_quiet_in_an_empty_cluster() -> None:
    tests = yaml.safe_load(UNIT_TESTS.read_text())["tests"]
    names = {rule["alert"] for rule in rules("alert")}
    (empty,) = [test for test in tests if test["input_series"] == []]
    assert {case["alertname"] for case in empty["alert_rule_test"] if not case.get("exp_alerts")} == names
    cases = [case for test in tests for case in test["alert_rule_test"]]
    assert {case["alertname"] for case in cases if case.get("exp_alerts")} == names
