"""The catalogue: codes that stay, templates that fit their calls, pages that exist."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from string import Formatter
from types import ModuleType

import pytest

from tests.words.catalogue.page import PAGE, page
from webhook.decisions.options import OPTION_NAMES
from webhook.words import names
from webhook.words.catalogue import index
from webhook.words.catalogue.entry import Entry, Message
from webhook.words.catalogue.index import AREAS, entries

ROOT = Path(__file__).parents[3]
CATALOGUE = ROOT / "webhook" / "words" / "catalogue"
CODES = Path(__file__).parent / "codes.txt"
ENTRIES = entries()


def fields(template: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(template) if name is not None}


def test_an_entry_has_a_code_of_its_area_and_clauses_without_a_full_stop() -> None:
    for entry in ENTRIES.values():
        assert re.fullmatch(r"GT[1-9][0-9]{2}", entry.code), entry.code
        assert entry.code[2] in AREAS, entry.code
        assert entry.text, entry.code
        assert not entry.text.endswith("."), entry.code
        assert not entry.fix.endswith("."), entry.code
        assert entry.fix[:1].isupper() or not entry.fix, entry.code
        assert all(field.isidentifier() for field in fields(entry.text) | fields(entry.fix)), entry.code


def test_the_page_of_an_entry_exists_and_has_the_heading() -> None:
    for entry in ENTRIES.values():
        name, _, anchor = entry.page.partition("#")
        text = (ROOT / "docs" / name).read_text(encoding="utf-8")
        headings = (line.lstrip("# ").lower() for line in text.splitlines() if line[:1] == "#")
        assert not anchor or anchor in {re.sub(r"[^\w -]", "", each).replace(" ", "-") for each in headings}


def test_an_entry_names_only_annotations_and_labels_that_there_are() -> None:
    for entry in ENTRIES.values():
        known = {value for value in vars(names).values() if isinstance(value, str)}
        known |= {f"{names.PREFIX}{option}" for option in OPTION_NAMES} | {f"{names.PREFIX}{names.ENV_PREFIX}*"}
        found = re.findall(r"gpu\.topology/[\w.*-]*[\w*]", f"{entry.text} {entry.fix}")
        assert set(found) <= known, entry.code


def test_a_code_never_changes_its_meaning() -> None:
    """``codes.txt`` is written by hand: a code that was released stays with its name, or is never used again."""
    written = dict(line.split() for line in CODES.read_text(encoding="utf-8").splitlines())
    assert {code: name for name, code in named_codes()} == written


def test_no_two_entries_have_one_name() -> None:
    names = [name.partition(".")[2] for name, _ in named_codes()]
    assert sorted(set(names)) == sorted(names)


def named_codes() -> Iterator[tuple[str, str]]:
    for path in sorted(CATALOGUE.glob("*.py")):
        module = getattr(index, path.stem, None)
        for name, entry in vars(module).items() if isinstance(module, ModuleType) else ():
            if isinstance(entry, Entry):
                yield f"{path.stem}.{name}", entry.code


@pytest.mark.slow
def test_every_entry_is_said_somewhere() -> None:
    import_lines = re.compile(r"^(?:from|import) (?:[^(\n]*\([^)]*\)|.*)$", re.MULTILINE)
    used = {word for text in sources() for word in re.findall(r"\b[A-Z][A-Z0-9_]+\b", import_lines.sub("", text))}
    unused = [name for name, _ in named_codes() if name.partition(".")[2] not in used]
    assert unused == []


def sources() -> list[str]:
    paths = sorted((ROOT / "webhook").rglob("*.py"))
    return [path.read_text(encoding="utf-8") for path in paths if path.parent != CATALOGUE]


@pytest.mark.slow
def test_a_message_is_given_the_values_that_its_templates_name() -> None:
    by_name = {name.partition(".")[2]: code for name, code in named_codes()}
    said = 0
    for text in (text for text in sources() if ".say(" in text):
        for call in (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)):
            target = call.func
            if not isinstance(target, ast.Attribute) or target.attr != "say":
                continue
            owner = target.value
            name = owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
            if name not in by_name:
                continue  # an entry that was chosen before: its call is tried by the tests of its module
            said += 1
            entry = ENTRIES[by_name[name]]
            if not any(keyword.arg is None for keyword in call.keywords):
                given = {keyword.arg for keyword in call.keywords}
                assert given == fields(entry.text) | fields(entry.fix), f"{name}.say({given})"
    assert said > 50


def test_the_page_is_what_make_messages_writes() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run make messages"


def test_a_value_with_braces_is_put_in_as_it_is() -> None:
    entry = Entry("GT199", "found {value}", "Remove {value}")
    assert entry.say(value="{value}") == Message("GT199", "found {value}", "Remove {value}")


def test_advice_joins_code_text_and_fix() -> None:
    assert Message("GT199", "found it", "Remove it").advice == "GT199: found it. Remove it"
    assert Message("GT199", "found it").advice == "GT199: found it"


def test_a_missing_value_is_an_error() -> None:
    with pytest.raises(KeyError, match="value"):
        Entry("GT199", "found {value}").say()
