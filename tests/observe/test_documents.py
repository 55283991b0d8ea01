"""What the documents say of metrics, alerts and lines of the log is what there is."""

import re
from pathlib import Path

from tests.observe.exposed import Family, exposed
from tests.observe.test_rules import rules
from tests.programs.server.conftest import StartServer
from webhook.programs.remap.verdict import ExitCode

DOCS = Path(__file__).parents[2] / "docs"
OBSERVABILITY = (DOCS / "observability.md").read_text()
TROUBLESHOOTING = (DOCS / "troubleshooting.md").read_text()


def cells(page: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("|")]


def documented() -> set[Family]:
    rows = [row for row in cells(OBSERVABILITY) if row[0].startswith("`gpu_topology_")]
    return {Family(name.strip("`"), kind, frozenset(re.findall(r"`(\w+)`", labels))) for name, kind, labels, _ in rows}


def test_every_metric_is_documented_with_its_type_and_labels_and_no_other() -> None:
    assert documented() == exposed().families


def test_a_server_that_runs_exposes_nothing_else(start_server: StartServer) -> None:
    text = start_server().probe("/metrics").text
    found = set(re.findall(r"^# TYPE (\S+) ", text, flags=re.MULTILINE))
    assert found <= {family.name for family in documented()}
    assert "gpu_topology_certificate_expiry_timestamp_seconds" in found


def test_every_alert_stands_in_the_table_with_its_severity() -> None:
    rows = {row[0].strip("`"): row[1] for row in cells(OBSERVABILITY) if row[0].startswith("`GpuTopology")}
    assert rows == {rule["alert"]: rule["labels"]["severity"] for rule in rules("alert")}


def test_every_exit_code_of_the_remap_program_has_a_remedy() -> None:
    section = TROUBLESHOOTING.split("### The container gpu-topology-remap fails")[1].split("\n### ")[0]
    codes = {int(code) for row in cells(section) if row[0][0].isdigit() for code in row[0].split(", ")}
    # 1 is Python's own: faulthandler ends a program whose driver holds the interpreter.
    assert codes == {code.value for code in ExitCode} - {0, 2} | {1}
