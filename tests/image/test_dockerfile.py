"""What the Dockerfile says agrees with the rest of the repository. That it builds and runs is for test_image.py."""

import json
import tomllib

from tests.image.instructions import ROOT, read_instructions
from webhook.config import ServerSettings

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


def test_what_the_wheel_is_made_of_is_copied() -> None:
    sources = {"pyproject.toml", PROJECT["readme"], *PROJECT["license-files"], *WHEEL["only-include"]}
    copied = {word for one in INSTRUCTIONS if one.name == "COPY" for word in one.words}
    assert sources <= copied


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
    labels = dict(word.split("=", 1) for one in INSTRUCTIONS if one.name == "LABEL" for word in one.words)
    prefix = "org.opencontainers.image."
    assert labels[prefix + "title"] == PROJECT["name"]
    assert labels[prefix + "description"] == PROJECT["description"]
    assert labels[prefix + "licenses"] == PROJECT["license"]


def test_both_stages_are_one_debian_with_a_python_that_the_project_supports() -> None:
    bases = [text.split()[0] for text in texts("FROM")]
    assert bases == ["debian:${DEBIAN}"] * 2
    assert texts("ARG")[0] == "DEBIAN=bookworm-slim"  # Debian 12: Python 3.11
    assert "Programming Language :: Python :: 3.11" in PROJECT["classifiers"]


def test_the_image_itself_asks_for_no_gpu() -> None:
    assert not any("NVIDIA_" in text for text in texts("ENV"))
