"""What the documents promise is what the code does."""

import re
from pathlib import Path
from typing import Any

import msgspec
import yaml

from tests.judge import judge, policy
from webhook.config import Config, Section, parse_config
from webhook.model.options import OPTION_NAMES
from webhook.state.directory import load_directory

ROOT = Path(__file__).parents[2]


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_readme_shows_a_pod_as_it_really_comes_out() -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", text("README.md"), re.DOTALL)
    before: dict[str, Any] = yaml.safe_load(blocks[0])
    state = load_directory(ROOT / "examples" / "state")
    outcome, after = judge(before, state.namespace("video"), state.cluster(), policy())
    assert outcome.reason == "injected"
    assert after == yaml.safe_load(blocks[1])


def test_the_documented_configuration_is_the_default_one_and_complete() -> None:
    document = yaml.safe_load(text("deploy/config.yaml"))
    assert parse_config(document) == Config()
    for section in msgspec.structs.fields(Config):
        kind = section.type
        if isinstance(kind, type) and issubclass(kind, Section):
            assert document[section.encode_name].keys() == {f.encode_name for f in msgspec.structs.fields(kind)}


def test_every_setting_is_documented() -> None:
    page = text("docs/configuration.md")
    for section in msgspec.structs.fields(Config):
        kind = section.type
        if isinstance(kind, type) and issubclass(kind, Section):
            for field in msgspec.structs.fields(kind):
                assert field.encode_name in page, field.encode_name


def test_every_annotation_is_in_the_readme() -> None:
    page = text("README.md")
    for name in OPTION_NAMES:
        assert f"gpu.topology/{name}" in page or f"`/{name}`" in page or f"`{name}`" in page, name


def test_every_example_is_named_in_the_tour() -> None:
    page = text("docs/try-it.md")
    for path in (ROOT / "examples" / "workloads").glob("*.yaml"):
        assert path.stem in page or path.stem.split("-")[0] in page, path.stem


def test_links_between_documents_lead_somewhere() -> None:
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
            assert (path.parent / target).exists(), f"{path.name}: {target}"
