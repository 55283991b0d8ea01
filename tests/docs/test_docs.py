"""What the documents promise is what the code does."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from tests.judge import judge, policy
from webhook.cluster.files.state import DirectoryState
from webhook.decisions.configuration import Config, Section, parse_config
from webhook.objects.binding import BIND_SENTENCES
from webhook.words.outcome import SENTENCES

ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"\[([^]]*)\]\(([^)]+)\)")


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def slug(heading: str) -> str:
    """What GitHub makes of a heading."""
    return re.sub(r"[^\w\- ]", "", _LINK.sub(r"\1", heading).lower()).replace(" ", "-")


def example() -> tuple[dict[str, Any], dict[str, Any]]:
    """The pod of docs/injection.md, section 5: as a user writes it, and as the page says that it comes out."""
    section = text("docs/injection.md").split("\n## 5. An example\n")[1].split("\n## ")[0]
    before, after = re.findall(r"```yaml\n(.*?)```", section, re.DOTALL)
    return yaml.safe_load(before), yaml.safe_load(after)


def test_the_example_shows_a_pod_as_it_really_comes_out() -> None:
    before, documented = example()
    state = DirectoryState(ROOT / "examples" / "state")
    outcome, after = judge(before, state.namespace("video"), state.cluster(), policy())
    assert outcome.reason == "injected"
    assert after == documented


def test_the_documented_configuration_is_the_default_one_and_complete() -> None:
    document = yaml.safe_load(text("deploy/config.yaml"))
    assert parse_config(document) == Config()
    for section in msgspec.structs.fields(Config):
        kind = section.type
        if isinstance(kind, type) and issubclass(kind, Section):
            assert document[section.encode_name].keys() == {f.encode_name for f in msgspec.structs.fields(kind)}


def test_every_section_of_the_configuration_has_a_heading() -> None:
    """Its fields have rows: tests/docs/test_reference.py compares the tables with the code."""
    page = text("docs/configuration.md")
    for section in msgspec.structs.fields(Config):
        assert f"\n## {section.encode_name}\n" in page


def rows(page: str) -> list[list[str]]:
    """The cells of each row of a page's tables."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("|")]


def reasons() -> str:
    """The part of docs/troubleshooting.md that has every reason."""
    return text("docs/troubleshooting.md").split("\n## Reasons\n")[1].split("\n## ")[0]


@pytest.mark.parametrize(
    ("sentences", "bindings"),
    [pytest.param(SENTENCES, False, id="pods"), pytest.param(BIND_SENTENCES, True, id="Bindings")],
)
def test_every_reason_stands_in_its_table_with_its_sentence_and_something_to_do(
    sentences: dict[Any, str], bindings: bool
) -> None:
    of_pods, of_bindings = reasons().split("\n### Bindings\n")
    tables = rows(of_bindings.split("\n### ")[0] if bindings else of_pods)
    documented = {row[0].strip("`"): row for row in tables if re.fullmatch(r"`[a-z-]+`", row[0])}
    assert documented.keys() == {str(reason) for reason in sentences}
    for reason, sentence in sentences.items():
        _, outcome, said, advice = documented[str(reason)]
        assert said == sentence
        assert outcome.startswith(("skip", "patch", "degraded", "refuse"))
        assert advice.endswith(".")


def test_every_example_is_named_in_the_tour() -> None:
    page = text("docs/command-line.md")
    for path in (ROOT / "examples" / "workloads").glob("*.yaml"):
        assert path.stem in page or path.stem.split("-")[0] in page, path.stem


def test_links_between_documents_lead_somewhere() -> None:
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
            assert (path.parent / target).exists(), f"{path.name}: {target}"
