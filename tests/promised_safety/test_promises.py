"""What is listed as a promise stands in its page, and what is listed as its attack is a test."""

import re

import pytest

from tests.docs.test_docs import ROOT, text
from tests.promised_safety.table import Promise, promises_table, read_promises

PROMISES = [(page, promise) for page, promises in read_promises().items() for promise in promises]
ATTACKS = sorted({attack for _, promise in PROMISES for attack in promise.attacks})


def is_test(attack: str) -> bool:
    """Whether there is a test of that path and name."""
    path, _, name = attack.partition("::")
    file = ROOT / "tests" / path
    return file.is_file() and bool(re.search(rf"^def {name}\(", file.read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.parametrize("page", read_promises())
def test_what_is_quoted_stands_in_its_page(page: str) -> None:
    said = text(f"docs/{page}")
    assert [promise.promise for promise in read_promises()[page] if promise.promise not in said] == []


def test_every_attack_is_a_test() -> None:
    assert [attack for attack in ATTACKS if not is_test(attack)] == []


def test_a_test_that_is_not_there_would_be_found() -> None:
    assert is_test("promised_safety/test_promises.py::test_every_attack_is_a_test")
    assert not is_test("promised_safety/test_promises.py::test_of_another_name")
    assert not is_test("promised_safety/test_elsewhere.py::test_every_attack_is_a_test")


@pytest.mark.parametrize(("page", "promise"), PROMISES, ids=[f"{page}-{n}" for n, (page, _) in enumerate(PROMISES)])
def test_a_promise_has_an_attack_or_the_reason_why_it_has_none(page: str, promise: Promise) -> None:
    assert bool(promise.attacks) != bool(promise.untried), page
    assert not promise.untried or promise.untried.endswith(".")


def test_no_promise_is_listed_twice() -> None:
    said = [promise.promise for _, promise in PROMISES]
    assert sorted(set(said)) == sorted(said)


def test_a_row_has_the_words_the_attacks_and_the_day_of_the_first() -> None:
    rows = promises_table("security.md")
    (listed,) = [line for line in rows if line.startswith("| set a list of GPUs: refused without")]
    assert "`decisions/admit/test_own_gpu_lists.py::test_a_list_that_may_show_a_gpu_refuses_the_pod_in_any" in listed
    assert re.search(r"\| 2026-11-\d\d \|  \|$", listed)
    (untried,) = [line for line in rows if line.startswith("| the kubelet deletes one")]
    assert "| none: " in untried
    (measured,) = [line for line in rows if line.startswith("| reviews have limits")]
    assert re.search(r"ms of CPU.* \|$", measured)


def test_every_table_has_four_columns() -> None:
    for page in read_promises():
        assert {line.count(" | ") for line in promises_table(page)[2:]} == {3}, page
