"""What a pod is counted as, and what is known after a run."""

from typing import Any

import pytest

from tests.compatibility.cells import Cell, Run, Seen, cell_of, merged
from tests.compatibility.page import CONFORMANCE, PAGE, PART, Known, after, page, read_known

WHERE = {"hami": "2.10.0", "kubernetes": "1.36.3", "strategy": "envvar"}


def pod(mark: str | None = "0.1.0 exclusive", *init: dict[str, str]) -> dict[str, Any]:
    annotations = {} if mark is None else {"gpu.topology/injected": mark}
    return {"metadata": {"annotations": annotations}, "spec": {"initContainers": list(init)}}


def seen(profile: str = "exclusive", date: str = "2026-11-23", failed: int = 0, **where: str) -> Seen:
    cell = Cell(profile=profile, carrier="sidecar", **(WHERE | where))
    return Seen(cell=cell, date=date, judges=("a 1",), passed=3, failed=failed)


REMAP = {"name": "gpu-topology-remap"}


@pytest.mark.parametrize(
    ("init", "carrier"),
    [
        ((), "binding"),
        (({"name": "mine"},), "binding"),
        ((REMAP, {"name": "mine", "restartPolicy": "Always"}), "init"),
        ((REMAP | {"restartPolicy": "Always"},), "sidecar"),
    ],
)
def test_the_carrier_is_read_from_the_pod(init: tuple[dict[str, str], ...], carrier: str) -> None:
    found = cell_of(pod("0.1.0 pod-peers", *init), **WHERE)
    assert found == Cell(profile="pod-peers", carrier=carrier, **WHERE)


def test_a_pod_that_was_not_prepared_is_no_cell() -> None:
    assert cell_of(pod(None), **WHERE) is None


def test_a_run_replaces_what_it_has_seen_and_leaves_the_rest() -> None:
    old, other = seen(date="2026-01-01"), seen("pod-peers", date="2026-01-01")
    run = Run(date="2026-11-23", cells=(seen(failed=1),), left_out={})
    assert merged([old, other], run) == (seen(failed=1), other)


def test_a_run_without_a_judge_leaves_its_cells_as_they_were() -> None:
    known = Known(cells=(seen(hami="2.9.0", date="2026-01-01"),), date="2026-01-01")
    found = after(known, Run(date="2026-11-23", cells=(), left_out={"hami-scheduler-2.9.0": 90}))
    assert found.cells == known.cells
    text = page(PART.begin + PART.end + CONFORMANCE.begin + CONFORMANCE.end, found)
    assert "90 tests without `hami-scheduler-2.9.0`" in text
    assert "| 3 passed | 2026-01-01 |" in text


def test_the_page_says_what_is_known() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert page(text, read_known()) == text, "run python -m tests.compatibility"
