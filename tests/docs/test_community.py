"""The files for people who want to take part: what they link exists, and what a form needs is there."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs.test_docs import ROOT, slug, text
from webhook.words.catalogue.index import entries

TEMPLATES = ROOT / ".github" / "ISSUE_TEMPLATE"
FORMS = sorted(path for path in TEMPLATES.glob("*.yml") if path.name != "config.yml")
REPOSITORY = "https://github.com/gpu-topology-webhook/gpu-topology-webhook"
REPORT = f"{REPOSITORY}/security/advisories/new"
_FILE = re.compile(re.escape(f"{REPOSITORY}/blob/main/") + r"([\w./-]+?\.md)(?:#([\w-]+))?(?=[\s)\"]|$)")


def read(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return document


def test_there_is_one_private_channel_and_it_is_that_of_the_repository() -> None:
    site = yaml.load((ROOT / "docs" / "site" / "mkdocs.yml").read_text(encoding="utf-8"), yaml.BaseLoader)  # noqa: S506
    assert site["repo_url"] == REPOSITORY
    for page in ("SECURITY.md", "CODE_OF_CONDUCT.md"):
        assert f"]({REPORT})" in text(page)
    assert REPORT in [link["url"] for link in read(TEMPLATES / "config.yml")["contact_links"]]


def test_links_into_the_repository_lead_to_a_heading() -> None:
    found = 0
    for path in (*TEMPLATES.glob("*.yml"), ROOT / ".github" / "pull_request_template.md"):
        for target, anchor in _FILE.findall(path.read_text(encoding="utf-8")):
            found += 1
            headings = re.findall(r"^#+ (.+)$", text(target), re.MULTILINE)
            assert not anchor or anchor in map(slug, headings), f"{path.name}: {target}#{anchor}"
    assert found > 3


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_has_what_the_forge_needs_of_one(path: Path) -> None:
    form = read(path)
    assert {"name", "description", "body"} <= form.keys()
    asked = [part for part in form["body"] if part["type"] != "markdown"]
    assert {part["type"] for part in asked} <= {"input", "textarea"}
    assert len({part["id"] for part in asked}) == len(asked)
    assert all(part["attributes"]["label"] for part in asked)
    assert any(part.get("validations", {}).get("required") for part in asked)


def test_codes_and_files_that_the_forms_name_exist() -> None:
    said = "".join(path.read_text(encoding="utf-8") for path in TEMPLATES.glob("*.yml"))
    codes = set(re.findall(r"GT\d{3}", said))
    assert codes
    assert codes <= entries().keys()
    for name in set(re.findall(r"\b[A-Z]+\.md\b", said)):
        assert (ROOT / name).is_file(), name
