"""From results to verdicts and tables, by hand; and that each rule has judges that are there."""

import ast
import re

import pytest

from tests.compatibility.conformance import (
    Checked,
    Found,
    Result,
    Verdict,
    checked,
    doubtful,
    exit_code,
    judges,
    merged,
    report,
    second_try,
    table,
)
from tests.compatibility.page import PAGE
from tests.compatibility.rules import HAMI_TESTS, RULES, Rule
from tests.go_programs.run_apart import ROOT

UPGRADE = f"{HAMI_TESTS}test_upgrade.py::test_hami_counts_the_gpus_of_running_pods_as_the_table_says[2.10.0]"
QUOTA = f"{HAMI_TESTS}test_quota.py::test_hami_counts_the_cards_of_an_injected_pod_before_and_after_its_start[2.10.0-"


def passed(rule: Rule) -> list[Result]:
    return [Result(test=f"{HAMI_TESTS}{each.tests}", part=each.part, outcome="passed") for each in rule.judges]


EVERYTHING = [result for rule in RULES for result in passed(rule)]


def judged(*others: Result) -> Checked:
    """Everything passes but these."""
    tests = {(result.test, result.part) for result in others}
    usual = [result for result in EVERYTHING if (result.test, result.part) not in tests]
    return checked([*usual, *others], name="a branch", release="2.10.0", date="2026-11-26")


def of(found: Checked, name: str) -> Found:
    (it,) = (each for each in found.found if each.rule == name)
    return it


def not_held(found: Checked) -> dict[str, Verdict]:
    return {each.rule: each.verdict for each in found.found if each.verdict is not Verdict.HOLDS}


def test_an_old_pod_that_loses_a_card_breaks_its_rule_and_changes_what_is_counted() -> None:
    lost = Result(test=UPGRADE, part="keeps", about="2.10.0, our sidecar behind", outcome="failed", said="['A', 'B']")
    counted = Result(test=UPGRADE, part="updated", about="2.10.0, our sidecar behind", outcome="failed")
    found = judged(lost, counted)
    assert not_held(found) == {"old-pods": Verdict.BROKE, "counts": Verdict.CHANGED}
    assert of(found, "old-pods").failed == (f"{UPGRADE.removeprefix(HAMI_TESTS)}: 2.10.0, our sidecar behind",)
    assert of(found, "old-pods").said == ("['A', 'B']",)
    assert exit_code(found) == 1


def test_the_longest_id_decides() -> None:
    assert [rule.name for rule, _ in judges(f"{QUOTA}auto]")] == ["quota"]
    assert [rule.name for rule, _ in judges(f"{QUOTA}init]")] == ["faults"]
    assert [rule.name for rule, _ in judges(UPGRADE)] == ["old-pods", "counts", "counts"]
    assert [rule.name for rule, _ in judges(UPGRADE, "keeps")] == ["old-pods"]
    assert judges(f"{HAMI_TESTS}test_leaders.py::test_one_leads[2.10.0]") == []


def test_a_fault_that_is_gone_is_a_change() -> None:
    found = judged(Result(test=f"{QUOTA}init]", outcome="failed"))
    assert not_held(found) == {"faults": Verdict.CHANGED}
    assert exit_code(found) == 0


def test_what_was_left_out_is_not_judged_and_never_holds() -> None:
    left_out = Result(test=f"{QUOTA}auto]", outcome="skipped", said="left out: no root for this test")
    found = judged(left_out)
    assert not_held(found) == {"quota": Verdict.NOT_JUDGED}
    assert exit_code(found) == 2
    assert not_held(checked([], name="", release="", date="")) == dict.fromkeys(
        (rule.name for rule in RULES), Verdict.NOT_JUDGED
    )


def test_what_broke_counts_more_than_what_was_left_out() -> None:
    found = judged(
        Result(test=f"{QUOTA}auto]", outcome="skipped"),
        Result(test=f"{QUOTA}sidecar]", outcome="failed"),
        Result(test=f"{HAMI_TESTS}test_peers.py::test_a[2.10.0]", outcome="skipped"),
    )
    assert not_held(found) == {"quota": Verdict.BROKE, "peers": Verdict.NOT_JUDGED}
    assert exit_code(found) == 1


def test_only_what_would_break_something_is_run_once_more() -> None:
    failed = [
        Result(test=f"{QUOTA}auto]", outcome="failed"),
        Result(test=f"{QUOTA}init]", outcome="failed"),
        Result(test=f"{QUOTA}sidecar]", outcome="passed"),
        Result(test=UPGRADE, part="updated", outcome="failed"),
    ]
    assert doubtful(failed) == [f"{QUOTA}auto]"]
    assert doubtful([Result(test=UPGRADE, part="keeps", outcome="failed"), *failed]) == [f"{QUOTA}auto]", UPGRADE]


def test_the_report_says_what_broke_with_the_page_and_the_reason() -> None:
    lines = list(report(judged(Result(test=f"{QUOTA}auto]", outcome="failed", said="assert 201 == 403"))))
    assert lines[0] == f"HAMi a branch, in place of 2.10.0: {len(RULES) - 1} holds, 1 broke"
    at = lines.index(
        "  BROKE       HAMi's quota counts the cards of an injected pod before and after its start"
        "  (docs/annotations.md#opt-in)"
    )
    assert lines[at + 1].strip() == f"{QUOTA.removeprefix(HAMI_TESTS)}auto]: assert 201 == 403"
    assert (
        "  HOLDS       The allocation of a pod stays as it was at the Binding  (docs/compatibility.md#numa-refit)"
        in lines
    )


def test_the_table_has_a_column_for_each_hami_and_names_what_broke() -> None:
    good = judged()
    bad = judged(Result(test=f"{QUOTA}auto]", outcome="failed", said="somewhere on this machine"))
    known = merged((), Checked(name="2.10.0", release=good.release, date=good.date, found=good.found))
    lines = table(merged(known, bad))
    assert lines[0] == "| what must hold | 2.10.0 | a branch |"
    assert (
        "| HAMi's quota counts the cards of an injected pod before and after its start"
        " ([more](annotations.md#opt-in)) | holds | **broke** |"
    ) in lines
    assert lines[-1] == (
        "a branch, broke: HAMi's quota counts the cards of an injected pod before and after its start. By "
        "`test_quota.py::test_hami_counts_the_cards_of_an_injected_pod_before_and_after_its_start[2.10.0-auto]`."
    )
    assert "this machine" not in "".join(lines)


def test_releases_stand_first_in_the_order_of_their_numbers() -> None:
    known: tuple[Checked, ...] = ()
    for name in ("pull request 2", "2.10.0", "2.11.0 at 1a2b3c4", "2.9.0"):
        known = merged(known, Checked(name=name, release="2.9.0", date="", found=()))
    assert [each.name for each in known] == ["2.9.0", "2.10.0", "2.11.0 at 1a2b3c4", "pull request 2"]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_the_judges_of_a_rule_are_there(rule: Rule) -> None:
    for judge in rule.judges:
        file, _, function = judge.tests.partition("::")
        source = (ROOT / HAMI_TESTS / file).read_text(encoding="utf-8")
        functions = [each.name for each in ast.parse(source).body if isinstance(each, ast.FunctionDef)]
        named = function.partition("[")[0]
        assert [each for each in functions if each.startswith("test_") and each.startswith(named)], judge
        if judge.part:
            assert f"subtests.test({judge.part}=" in source


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_the_link_of_a_rule_leads_to_a_heading(rule: Rule) -> None:
    page, _, anchor = rule.link.partition("#")
    text = (PAGE.parent / page if page else PAGE).read_text(encoding="utf-8")
    headings = {
        re.sub(r"[^\w -]", "", line.lstrip("#").strip().lower()).replace(" ", "-")
        for line in text.splitlines()
        if line.startswith("#")
    }
    assert not anchor or anchor in headings


def test_only_what_fails_twice_has_failed() -> None:
    steady, once, twice = (Result(test=name, outcome="passed") for name in ("a", "b", "c"))
    failed = [Result(test=name, outcome="failed") for name in ("b", "c")]
    assert second_try([steady, *failed], [once, failed[1]]) == (steady, once, failed[1])
    assert second_try([steady, *failed], [once, twice]) == (steady, once, twice)
