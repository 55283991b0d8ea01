"""The kit for a machine without a network: what it has, what it lacks, and whether it can be installed."""

import re
import zipfile
from pathlib import Path

import pytest

from tests.gpu.kit import HAMI_CORE, Kit, core, found_in_kit, licence, needed, tried


def test_without_wheels_the_kit_lacks_what_an_installation_needs(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("msgspec\n")
    (tmp_path / "wheels").mkdir()
    assert tried(tmp_path / "wheels").startswith(
        "what an installation from these wheels needs: ERROR: No matching distribution"
    )


def test_the_library_that_the_variable_names_is_found_in_the_kit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source" / "build"
    source.mkdir(parents=True)
    (source / "libvgpu.so").write_text("a library")
    (tmp_path / "source" / "LICENSE").write_text("Apache-2.0")
    monkeypatch.setenv(HAMI_CORE, str(tmp_path / "source"))
    kit = tmp_path / "kit"
    (kit / "nccl").mkdir(parents=True)
    assert core(kit / "hami-core") == ""
    assert (kit / "hami-core" / "LICENSE").read_text() == "Apache-2.0"
    assert found_in_kit(kit) == Kit(hami_core=str(kit / "hami-core" / "libvgpu.so"))
    (kit / "nccl" / "libnccl.so.2").write_text("a library")
    assert found_in_kit(kit).nccl == str(kit / "nccl")


def test_the_kit_has_what_the_program_needs_and_no_tools_of_its_tests() -> None:
    found = {re.split(r"[^A-Za-z0-9.-]", line)[0] for line in needed()}
    assert {"msgspec", "nvidia-ml-py"} <= found
    assert not {"pytest", "mypy", "ruff"} & found


@pytest.mark.parametrize(("named", "said"), [("", "names neither"), ("source", "there is no libvgpu.so below")])
def test_without_the_library_the_kit_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str, said: str
) -> None:
    monkeypatch.setenv(HAMI_CORE, str(tmp_path / named) if named else "")
    assert said in core(tmp_path / "hami-core")
    assert found_in_kit(tmp_path) == Kit()


@pytest.mark.parametrize(
    ("metadata", "found"),
    [
        ("License-Expression: MIT\nClassifier: License :: Other\n", "MIT"),
        ("License: BSD\n  and more\n", "BSD"),
        ("Classifier: License :: OSI Approved\nClassifier: Topic :: A\n", "License :: OSI Approved"),
        ("Name: a\n", "its metadata names none"),
    ],
)
def test_the_licence_of_a_wheel_is_the_one_that_it_names(tmp_path: Path, metadata: str, found: str) -> None:
    with zipfile.ZipFile(tmp_path / "a-1.whl", "w") as wheel:
        wheel.writestr("a-1.dist-info/METADATA", metadata)
    assert licence(tmp_path / "a-1.whl") == found
