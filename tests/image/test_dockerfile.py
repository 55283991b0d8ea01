"""What the Dockerfile says agrees with the rest of the repository. That it builds and runs is for the other files."""

import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement

from webhook.decisions.configuration import DEFAULT_REMAP_IMAGE, ServerSettings

ROOT = Path(__file__).parents[2]


class Instruction(NamedTuple):
    """One of them, with continued lines joined."""

    name: str
    text: str

    @property
    def words(self) -> list[str]:
        """What follows the name, as a shell would split it, without options."""
        return [word for word in shlex.split(self.text) if not word.startswith("--")]


def read_instructions() -> list[Instruction]:
    """Those of all stages, in order."""
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    joined = "\n".join(line for line in lines if not line.lstrip().startswith("#")).replace("\\\n", " ")
    split = [line.split(maxsplit=1) for line in joined.splitlines() if line.strip()]
    return [Instruction(name, text) for name, text in split]


INSTRUCTIONS = read_instructions()
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
WHEEL = PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]


def texts(name: str) -> list[str]:
    return [one.text for one in INSTRUCTIONS if one.name == name]


def test_what_is_copied_is_there_and_reaches_the_builder_and_nothing_else_does() -> None:
    copied = {
        source for one in INSTRUCTIONS if one.name == "COPY" and "--from=" not in one.text for source in one.words[:-1]
    }
    ignore = [line for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line[:1] != "#"]
    assert ignore[0] == "*"
    assert {line[1:] for line in ignore if line.startswith("!")} == copied
    assert all((ROOT / source).exists() for source in copied)
    assert [line for line in ignore[1:] if not line.startswith("!")] == ["**/__pycache__"]


def test_the_program_is_process_1_and_runs_as_the_user_of_the_remap_container() -> None:
    assert [json.loads(text) for text in texts("ENTRYPOINT")] == [["gpu-topology"]]
    assert "gpu-topology" in PROJECT["scripts"]
    assert texts("USER") == ["65532:65532"]
    assert "runAsUser: 65532\n    runAsGroup: 65532\n" in (ROOT / "docs" / "injection.md").read_text(encoding="utf-8")


def test_the_ports_are_those_of_the_configuration() -> None:
    settings = ServerSettings()
    assert texts("EXPOSE") == [f"{settings.port} {settings.ops_port}"]
    assert f"http://127.0.0.1:{settings.ops_port}/healthz" in texts("HEALTHCHECK")[0]


def test_the_labels_are_those_of_the_project() -> None:
    prefix = "org.opencontainers.image."
    both, remap, webhook = (
        dict(word.split("=", 1) for word in one.words) for one in INSTRUCTIONS if one.name == "LABEL"
    )
    assert both[prefix + "licenses"] == PROJECT["license"]
    assert webhook == {prefix + "title": PROJECT["name"], prefix + "description": PROJECT["description"]}
    assert remap[prefix + "title"] == DEFAULT_REMAP_IMAGE.rpartition("/")[2]


def test_what_is_left_out_or_installed_apart_is_something_that_the_project_asks_for() -> None:
    asked = {Requirement(text).name for text in PROJECT["dependencies"]}
    (pattern,) = re.findall(r"\^\(([\w|-]+)\)\\b", " ".join(texts("RUN")))
    assert set(pattern.split("|")) == {"kubernetes", "nvidia-ml-py"}
    assert set(pattern.split("|")) <= asked
    assert " requirements.lock nvidia-ml-py /dist/*.whl" in " ".join(texts("RUN"))


def test_all_stages_are_one_debian_with_a_python_that_the_project_supports() -> None:
    stages = [text.split(" AS ") for text in texts("FROM")]
    names = [name for _, name in stages]
    assert stages[0][0] == "debian:${DEBIAN}"
    assert all(base in names[:index] for index, (base, _) in enumerate(stages) if index)
    assert texts("ARG")[0] == "DEBIAN=bookworm-slim"  # Debian 12: Python 3.11
    assert "Programming Language :: Python :: 3.11" in PROJECT["classifiers"]


def test_the_images_themselves_ask_for_no_gpu() -> None:
    assert not any("NVIDIA_" in text for text in texts("ENV"))


def test_what_the_wheel_is_made_of_is_copied() -> None:
    sources = {"pyproject.toml", PROJECT["readme"], *PROJECT["license-files"], *WHEEL["only-include"]}
    copied = {word for one in INSTRUCTIONS if one.name == "COPY" for word in one.words}
    assert sources <= copied
