"""The table of what was ever run."""

import json
from pathlib import Path

import pytest

from tests.gpu.judge import CLAIMS
from tests.gpu.page import MACHINES, PAGE, PART, RESULTS, page, read_results

FOUND = {
    "apiVersion": "gpu.topology/v1",
    "kind": "AcceptanceResult",
    "version": "0.1.0",
    "at": "2026-11-23T03:29:56Z",
    "machine": {"cards": "8 x NVIDIA H20", "driver": "570.133.20", "cuda": "12.8", "nccl": "2.27.3"},
    "verdicts": [
        {"claim": "topology", "says": "", "verdict": "holds", "why": ""},
        {"claim": "nccl", "says": "", "verdict": "fails", "why": ""},
        {"claim": "training", "says": "", "verdict": "not tried", "why": ""},
    ],
    "steps": [],
    "sha256": {},
}
EMPTY = f"before\n{PART.begin}{PART.end}after\n"


def test_the_page_has_the_table_of_what_was_run() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert page(text, read_results(RESULTS)) == text, "run python -m tests.gpu"


def test_a_result_is_a_row_and_machines_without_one_have_empty_rows(tmp_path: Path) -> None:
    (tmp_path / "h20-2026-11-23.json").write_text(json.dumps(FOUND))
    rows = [line for line in page(EMPTY, read_results(tmp_path)).splitlines() if line.startswith("| ")][2:]
    assert len(rows) == len(MACHINES)
    assert rows[MACHINES.index("H20")] == (
        "| H20 | 8 x NVIDIA H20 | 570.133.20 | 12.8 | 2.27.3 |  | 2026-11-23"
        " | holds |  |  |  | **fails** | not tried |  |  |  |  |  |  |"
    )
    assert rows[0] == "| V100 |" + "  |" * (6 + len(CLAIMS))


def test_a_second_result_is_another_row(tmp_path: Path) -> None:
    for day in ("23", "24"):
        (tmp_path / f"h20-2026-11-{day}.json").write_text(json.dumps(FOUND))
    assert page(EMPTY, read_results(tmp_path)).count("8 x NVIDIA H20") == 2


def test_what_a_stranger_sent_is_no_markup(tmp_path: Path) -> None:
    sent = {**FOUND, "machine": {"cards": "<img src=x> | [a](b)\n| V100"}, "at": "`2026`"}
    (tmp_path / "h20-2026-11-23.json").write_text(json.dumps(sent))
    rows = [line for line in page(EMPTY, read_results(tmp_path)).splitlines() if line.startswith("| ")][2:]
    assert len(rows) == len(MACHINES)
    assert r"| \<img src=x\> \| \[a\](b)\\n\| V100 |" in rows[MACHINES.index("H20")]
    assert r"\`2026\`" in rows[MACHINES.index("H20")]


def test_what_stands_around_the_table_stays() -> None:
    assert page(EMPTY, {}).startswith("before\n")
    assert page(EMPTY, {}).endswith("after\n")


@pytest.mark.parametrize("name", ["rtx-2026-11-23", "h2000-2026-11-23"])
def test_a_file_of_no_machine_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.json").write_text(json.dumps(FOUND))
    with pytest.raises(ValueError, match="expected AcceptanceResult"):
        read_results(tmp_path)
