"""The table of facts is whole: judges and modules exist, and what the code cites has an entry."""

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.facts.citations import MODULES, ROOT, citations
from tests.facts.table import Fact, every_fact
from tests.hardware.topology.nccl_facts import FACTS as NCCL_FACTS

FACTS = dict(every_fact())
RUNNERS = ("tests/control_plane/",)
"""Where tests run programs of other projects. Elsewhere a test says what it is left out without."""


@cache
def collected(path: Path) -> frozenset[str]:
    """The names of the tests of a module, as pytest collects them."""
    return frozenset(
        node.name
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    )


def faults(judge: str) -> list[str]:
    """What is wrong with the name of a judge."""
    path, _, test = judge.partition("::")
    module = ROOT / path
    if not (path.startswith("tests/") and module.name.startswith("test_") and module.is_file()):
        return [f"{path} is no module of tests"]
    if test not in collected(module):
        return [f"{path} has no test {test}"]
    if not path.startswith(RUNNERS) and "leave_out" not in module.read_text(encoding="utf-8"):
        return [f"{path} runs nothing of another project"]
    return []


def missing(module: str, source: str, facts: dict[str, Fact]) -> list[str]:
    """The citations of a module that no entry for it has."""
    texts = [" ".join(fact.sources) for fact in facts.values() if module in fact.code]
    return sorted(cited for cited in citations(source) if not any(cited in text for text in texts))


def test_every_fact_has_a_judge_that_exists_or_says_why_it_has_none() -> None:
    assert {name: fact for name, fact in FACTS.items() if bool(fact.judges) == bool(fact.no_judge)} == {}
    found = {name: [fault for judge in fact.judges for fault in faults(judge)] for name, fact in FACTS.items()}
    assert {name: each for name, each in found.items() if each} == {}


def test_every_fact_has_versions_and_sources_and_modules_that_exist() -> None:
    for name, fact in FACTS.items():
        assert bool(fact.versions) != bool(fact.nccl), name
        assert fact.sources, name
        assert fact.code, name
        assert [module for module in fact.code if not (ROOT / module).is_file()] == [], name
        assert not fact.says.endswith("."), name


def test_what_the_code_cites_is_in_the_table() -> None:
    """A new citation needs an entry, or its module in the ``code`` of one."""
    found = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in MODULES}
    lacking = {module: missing(module, source, FACTS) for module, source in found.items()}
    assert {module: each for module, each in lacking.items() if each} == {}


def test_every_fact_of_nccl_s_releases_is_in_the_table() -> None:
    assert {name for fact in FACTS.values() for name in fact.nccl} == {fact.what for fact in NCCL_FACTS}


def test_no_fact_stands_twice() -> None:
    said = [fact.says for fact in FACTS.values()]
    assert len(said) == len(set(said))


@pytest.mark.parametrize(
    ("judge", "fault"),
    [
        ("tests/facts/test_gone.py::test_a", "is no module of tests"),
        ("tests/facts/table.py::test_a", "is no module of tests"),
        ("tests/control_plane/test_cdi.py::test_gone", "has no test test_gone"),
        ("tests/control_plane/test_cdi.py::nodes", "has no test nodes"),
        ("tests/test_house.py::test_the_version_is_one", "runs nothing of another project"),
    ],
)
def test_a_judge_that_judges_nothing_would_be_found(judge: str, fault: str) -> None:
    (found,) = faults(judge)
    assert found.endswith(fault)


SOURCE = '''
"""HAMi pkg/device/devices.go. The RFC 6902 is none, nor is webhook/words/names.py."""
# Kubernetes (KEP-3521), and
# pkg/kubelet/util/env.
X = 1  # HAMi issues 2641 and more
Y = "src/graph/xml.cc"  # not in text that the program uses
'''


def test_citations_are_found_in_comments_and_docstrings_alone() -> None:
    assert citations(SOURCE) == {"pkg/device/devices.go", "KEP-3521", "pkg/kubelet/util/env", "issue 2641"}


def test_a_citation_without_an_entry_for_its_module_would_be_found() -> None:
    fact = Fact(says="A fact", versions="1", sources=("HAMi pkg/device/devices.go",), code=("webhook/a.py",))
    assert missing("webhook/a.py", '"""HAMi pkg/device/devices.go."""', {"a": fact}) == []
    assert missing("webhook/b.py", '"""HAMi pkg/device/devices.go."""', {"a": fact}) == ["pkg/device/devices.go"]
    assert missing("webhook/a.py", '"""HAMi pkg/scheduler/score.go."""', {"a": fact}) == ["pkg/scheduler/score.go"]
