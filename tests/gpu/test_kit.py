"""The kit for a machine without Python and without a network: what it has, what it lacks, and whether it runs."""

import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterable
from dataclasses import replace
from importlib.metadata import Distribution
from pathlib import Path

import pytest

from tests.cuda.stub import PlayBench
from tests.gpu.bare_machine import BareMachine
from tests.gpu.interpreter import closure, copy_python, needed_glibc
from tests.gpu.kit import Kit, found_in_kit
from tests.gpu.pack import HAMI_CORE, core, licence, needed, pack_python, tried
from tests.nvml.machines import hgx_h100
from tests.programs.verify.test_run import BenchOf

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with a kit, after a move to another place."""
    here = tmp_path_factory.mktemp("here") / "checkout"
    for name in ("certs", "webhook", "tests/gpu"):
        shutil.copytree(ROOT / name, here / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copyfile(ROOT / "tests/__init__.py", here / "tests/__init__.py")
    (here / "gpu-kit").mkdir()
    assert pack_python(here / "gpu-kit") == ""
    return here.rename(tmp_path_factory.mktemp("there") / "checkout")


def played(*names: str) -> dict[str, str]:
    """The variables by which the stand-ins know what to play."""
    return {name: value for name, value in os.environ.items() if "STUB" in name or name in names}


def test_the_kit_runs_where_there_is_no_python_and_no_network(
    checkout: Path, bare_machine: BareMachine, bench_of: BenchOf, play_bench: PlayBench, tmp_path: Path
) -> None:
    machine = hgx_h100()
    play_bench(bench_of(replace(machine, cards=machine.cards[:1])).with_lines("pair 0 0 1500 pcie 1", "multicast"))
    places = [checkout, tmp_path.parent]
    assert bare_machine.run(["sh", "-c", "command -v python3 || echo none"], places, {}).stdout == "none\n"
    command = [str(checkout / "gpu-kit/gpu"), "--output", str(tmp_path / "found.tar.gz"), "--idle-seconds", "0"]
    done = bare_machine.run(command, places, played("LD_LIBRARY_PATH"))
    assert done.returncode == 0, done.stdout + done.stderr
    holds = {line[10:].split()[0] for line in done.stdout.splitlines() if line.startswith("holds")}
    assert {"topology", "agent-dry-run", "nccl-plain", "ipc-plain", "remap-right", "multicast"} <= holds
    with tarfile.open(tmp_path / "found.tar.gz") as archive:
        assert archive.getnames()[-1] == "gpu/RESULT.json"


def test_the_kit_says_which_glibc_it_needs(checkout: Path, bare_machine: BareMachine) -> None:
    start = checkout / "gpu-kit/gpu"
    needs = ".".join(map(str, needed_glibc(checkout / "gpu-kit")))
    (bare_machine.root / "bin/getconf").write_text("#!/bin/sh\necho glibc 2.4\n")
    done = bare_machine.run([str(start), "--dry-run"], [checkout], {})
    assert done.returncode == 2
    assert f"This kit needs glibc {needs} or later, and this machine has 2.4." in done.stderr
    (bare_machine.root / "bin/getconf").unlink()
    assert "this machine has none." in bare_machine.run([str(start)], [checkout], {}).stderr
    (bare_machine.root / "bin/uname").write_text("#!/bin/sh\necho riscv64\n")
    assert "and this machine is riscv64: " in bare_machine.run([str(start)], [checkout], {}).stderr


def test_make_gpu_takes_the_python_of_the_kit(checkout: Path) -> None:
    shutil.copyfile(ROOT / "Makefile", checkout / "Makefile")
    make = ["make", "--no-print-directory", "--dry-run", "gpu", "GPU=--dry-run"]  # as in a test of "make fast"
    done = subprocess.run(make, cwd=checkout, capture_output=True, text=True, check=True)
    assert done.stdout == "gpu-kit/gpu --dry-run\n"
    (checkout / "gpu-kit/gpu").rename(checkout / "gpu-kit/other")
    (checkout / "pyproject.toml").touch()
    (checkout / "requirements.lock").touch()
    done = subprocess.run(make, cwd=checkout, capture_output=True, text=True, check=True)
    (checkout / "gpu-kit/other").rename(checkout / "gpu-kit/gpu")
    assert done.stdout.endswith(".venv/bin/python -m tests.gpu --dry-run\n")


def test_the_kit_lists_the_licence_of_each_part(checkout: Path) -> None:
    kit = checkout / "gpu-kit"
    told = dict(line.split(": ", 1) for line in (kit / "LICENCES.txt").read_text().splitlines())
    parts = {f"python/lib/{path.name}" for path in (kit / "python/lib").glob("*.so*") if "libpython" not in path.name}
    assert parts | {f"{package.name} {package.version}" for package in closure(needed())} < set(told)
    assert "Python Software Foundation" in (kit / "licences/python.txt").read_text()


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo one >&2; echo no module >&2; exit 1", "what it needs to start: no module"),
        ("echo 'topology: (ImportError: no x)' >&2; echo done >&2", "what it needs: topology: (ImportError: no x)"),
        ("echo 'topology: exit code 1 (no GPU)' >&2", ""),
    ],
)
def test_a_kit_that_does_not_start_says_what_it_needs(tmp_path: Path, script: str, said: str) -> None:
    start = tmp_path / "gpu"
    start.write_text(f"#!/bin/sh\n{script}\n")
    start.chmod(0o755)
    assert tried(start) == said


def test_what_is_not_installed_cannot_be_packed(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match=r"^the package no-such-package is not installed here$"):
        copy_python(tmp_path / "python", ["msgspec", "no_such.package>1"])


def test_the_packages_are_those_that_are_asked_for_and_what_they_need() -> None:
    def names(requirements: Iterable[str]) -> list[str]:
        return [package.name for package in closure(requirements)]

    assert names(["Jinja2>3", "msgspec; python_version < '3'"]) == ["Jinja2", "MarkupSafe"]
    assert names([]) == []


def test_the_glibc_is_the_newest_of_all_that_are_named(tmp_path: Path) -> None:
    assert needed_glibc(tmp_path) == (2, 17)
    (tmp_path / "a.so.1").write_bytes(b"\x7fELF\0GLIBC_2.9\0GLIBC_2.31\0GLIBC_2.3.4\0GLIBCXX_3.4.30\0")
    (tmp_path / "a.txt").write_bytes(b"\x7fELF\0GLIBC_2.99\0")
    assert needed_glibc(tmp_path) == (2, 31)
    (tmp_path / "b.so").write_bytes(b"\x7fELF\0GLIBC_ABI_DT_RELR\0")
    assert needed_glibc(tmp_path) == (2, 36)


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
def test_the_licence_of_a_package_is_the_one_that_it_names(tmp_path: Path, metadata: str, found: str) -> None:
    (tmp_path / "METADATA").write_text(metadata)
    assert licence(Distribution.at(tmp_path).metadata) == found
