"""Rules of the house that no linter knows."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from webhook import __version__
from webhook.cluster.files.state import DirectoryState
from webhook.objects.manifest.templates import find_templates
from webhook.words.outcome import Reason

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "docs" / name for name in ("injection.md", "troubleshooting.md")]
EXAMPLES = sorted((ROOT / "examples").rglob("*.yaml"))
WORKLOADS = sorted((ROOT / "examples" / "workloads").glob("*.yaml"))
SOURCES = sorted(path for package in ("webhook", "certs") for path in (ROOT / package).rglob("*.py"))


def test_the_version_stands_in_one_file_of_the_source() -> None:
    holders = [path for path in SOURCES if f'"{__version__}"' in path.read_text()]
    assert holders == [ROOT / "webhook" / "__init__.py"]


def test_the_distribution_takes_its_version_from_there() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    assert "version" not in project["project"]
    assert project["tool"]["hatch"]["version"] == {"path": "webhook/__init__.py"}


def test_the_version_is_one() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", __version__)


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_is_documented(reason: Reason) -> None:
    text = "".join(path.read_text() for path in DOCUMENTS if path.exists())
    assert f"`{reason}`" in text


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_example_is_yaml_with_a_document(path: Path) -> None:
    documents = list(yaml.safe_load_all(path.read_text()))
    assert documents
    assert all(isinstance(document, dict) for document in documents)


@pytest.mark.parametrize("path", WORKLOADS, ids=lambda path: path.stem)
def test_every_example_workload_has_a_pod_template_and_says_what_it_is(path: Path) -> None:
    text = path.read_text()
    assert text.startswith("#")
    documents = list(yaml.safe_load_all(text))
    assert all({"apiVersion", "kind", "metadata"} <= document.keys() for document in documents)
    assert any(find_templates(document) for document in documents)


def test_the_example_state_can_be_read() -> None:
    state = DirectoryState(ROOT / "examples" / "state")
    assert state.namespace("ml-workloads").injection_enabled
    assert not state.namespace("sandbox").injection_enabled
    assert not state.namespace("no-such-namespace").known
    assert str(state.cluster().hami) == "2.9.0"


def test_every_example_workload_is_in_a_namespace_of_the_example_state() -> None:
    state = DirectoryState(ROOT / "examples" / "state")
    for path in WORKLOADS:
        for document in yaml.safe_load_all(path.read_text()):
            assert state.namespace(document["metadata"]["namespace"]).known, path.name
