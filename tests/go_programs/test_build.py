"""The sources of Go programs, and the messages about missing ones."""

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tests.go_programs.build import GoProgram, Missing, find_or_build, sources
from tests.go_programs.catalogue import ALL, HAMI_SCHEDULERS, KUEUE, MODULES, ON_DEMAND, POD_IDENTITY_WEBHOOK

PROGRAM = 'package main\n\nvar version = "unknown"\n\nfunc main() { print(version) }\n'
GO_MOD = """module example.com/tools

go 1.22

require (
	example.com/greet v1.23.4
	example.com/greet/loud v1.9.0
)

replace (
	example.com/greet => ./greet
	example.com/greet/loud => ./loud
)
"""


@pytest.fixture
def greet(tmp_path: Path) -> GoProgram:
    """A program that is built in a moment and without the network."""
    tools = tmp_path / "tools"
    for module, package in (("example.com/greet", "greet/cmd/greet"), ("example.com/greet/loud", "loud")):
        (tools / package).mkdir(parents=True)
        (tools / package / "main.go").write_text(PROGRAM)
        (tools / package.partition("/")[0] / "go.mod").write_text(f"module {module}\n\ngo 1.22\n")
    (tools / "go.mod").write_text(GO_MOD)
    (tools / "go.sum").touch()
    return GoProgram("greet", "example.com/greet/cmd/greet", tools, assets="GREET_ASSETS")


@pytest.fixture
def go_environment(tmp_path: Path) -> dict[str, str]:
    """The environment of this machine's Go, with an empty cache of programs and no network."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("needs a Go compiler")
    # Go's own cache is also in XDG_CACHE_HOME; without GOCACHE each test would compile the standard library.
    compiled = subprocess.run([go, "env", "GOCACHE"], capture_output=True, text=True, check=True).stdout.strip()
    ours = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "GOCACHE": compiled, "GOPROXY": "off", "GOTOOLCHAIN": "local"}
    return {**os.environ, **ours}


def output_of(program: Path | Missing) -> str:
    assert isinstance(program, Path), program.reason
    return subprocess.run([program], capture_output=True, text=True, check=True).stderr


def test_ready_made_programs_come_first(tmp_path: Path, greet: GoProgram) -> None:
    (tmp_path / "greet").touch(mode=0o755)
    assert find_or_build(greet, {"GREET_ASSETS": str(tmp_path), "PATH": ""}) == tmp_path / "greet"


def test_a_directory_of_ready_made_programs_without_it_is_not_replaced_by_a_build(
    tmp_path: Path, greet: GoProgram
) -> None:
    assert find_or_build(greet, {**os.environ, "GREET_ASSETS": str(tmp_path)}) == Missing(
        f"GREET_ASSETS={tmp_path}: expected an executable greet there. "
        "Put it there, or unset the variable and it is built with Go"
    )


@pytest.mark.cluster
def test_what_is_seldom_there_is_built(tmp_path: Path, greet: GoProgram, go_environment: dict[str, str]) -> None:
    seldom = replace(greet, assets_are_whole=False)
    assert output_of(find_or_build(seldom, {**go_environment, "GREET_ASSETS": str(tmp_path)})) == "unknown"


def test_a_file_that_cannot_be_executed_is_no_program(tmp_path: Path, greet: GoProgram) -> None:
    (tmp_path / "greet").touch(mode=0o644)
    assert isinstance(find_or_build(greet, {"GREET_ASSETS": str(tmp_path)}), Missing)


def test_without_go_the_reason_says_what_to_do(greet: GoProgram) -> None:
    assert find_or_build(greet, {"PATH": ""}) == Missing(
        "no Go compiler is on the PATH. Install Go 1.26 or later, or set GREET_ASSETS to a directory with greet"
    )
    assert find_or_build(replace(greet, cgo=True, assets=""), {"PATH": ""}) == Missing(
        "no Go compiler is on the PATH. Install Go 1.26 or later and a C compiler"
    )


def test_of_hami_s_releases_one_can_be_ready_made(tmp_path: Path) -> None:
    (tmp_path / "hami-scheduler-2.10.0").touch(mode=0o755)
    given = {"HAMI_ASSETS": str(tmp_path), "PATH": ""}
    assert find_or_build(HAMI_SCHEDULERS["2.10.0"], given) == tmp_path / "hami-scheduler-2.10.0"
    assert find_or_build(HAMI_SCHEDULERS["2.9.0"], given) == Missing(
        "no Go compiler is on the PATH. Install Go 1.26 or later and a C compiler, "
        "or set HAMI_ASSETS to a directory with hami-scheduler-2.9.0"
    )


def test_every_program_has_a_name_of_its_own_and_modules_with_sums() -> None:
    every = (*ALL, POD_IDENTITY_WEBHOOK)
    assert len({program.name for program in every}) == len(every)
    for program in every:
        assert (program.modules / "go.mod").is_file()
        assert (program.modules / "go.sum").is_file()


@pytest.mark.parametrize(
    ("modules", "release"), [("kubernetes", "36.3"), ("kubectl", "36.3"), ("kubernetes-1.37", "37.2")]
)
def test_every_module_of_the_kubernetes_repository_has_the_version_of_kubernetes(modules: str, release: str) -> None:
    lines = (MODULES / modules / "go.mod").read_text().splitlines()
    assert "go 1.26.0" in lines
    staging = [line for line in lines if " => " in line]
    assert f"\tk8s.io/kubernetes v1.{release} // indirect" in lines
    assert f"\tk8s.io/apiserver => k8s.io/apiserver v0.{release}" in staging
    assert all(line.endswith(f" v0.{release}") for line in staging)


@pytest.mark.cluster
def test_two_that_need_a_build_at_once_share_one(greet: GoProgram, go_environment: dict[str, str]) -> None:
    said: list[str] = []
    with ThreadPoolExecutor() as pool:
        waiting = [pool.submit(find_or_build, greet, go_environment, say=said.append) for _ in range(2)]
        first, second = (future.result() for future in waiting)
    assert isinstance(first, Path)
    assert first == second
    assert said == ["Building greet with Go; the first time this takes some minutes ..."]
    assert [path.name for path in first.parent.iterdir()] == ["greet"]


@pytest.mark.cluster
def test_what_was_built_once_is_found_again(greet: GoProgram, go_environment: dict[str, str]) -> None:
    said: list[str] = []
    first = find_or_build(greet, go_environment, say=said.append)
    second = find_or_build(greet, go_environment, say=said.append)
    assert isinstance(first, Path)
    assert first == second
    assert len(said) == 1


@pytest.mark.cluster
def test_the_linker_puts_in_the_version_of_the_module_that_has_the_package(
    greet: GoProgram, go_environment: dict[str, str]
) -> None:
    stamped = replace(greet, stamps={"main.version": "{version}/{major}/{minor}"})
    assert output_of(find_or_build(stamped, go_environment)) == "v1.23.4/1/23"


@pytest.mark.cluster
def test_build_tags_choose_what_is_compiled(greet: GoProgram, go_environment: dict[str, str]) -> None:
    loud = greet.modules / "greet" / "cmd" / "greet" / "loud.go"
    loud.write_text('//go:build loud\n\npackage main\n\nfunc init() { version = "LOUD" }\n')
    assert output_of(find_or_build(greet, go_environment)) == "unknown"
    assert output_of(find_or_build(replace(greet, tags=("loud",)), go_environment)) == "LOUD"


@pytest.mark.cluster
def test_a_stamp_for_a_module_that_is_not_required_is_named(greet: GoProgram, go_environment: dict[str, str]) -> None:
    (greet.modules / "go.mod").write_text("module example.com/tools\n\ngo 1.22\n")
    assert find_or_build(replace(greet, stamps={"main.version": "{version}"}), go_environment) == Missing(
        f"{greet.modules / 'go.mod'}: expected a requirement of the module that has example.com/greet/cmd/greet"
    )


@pytest.mark.cluster
def test_other_modules_are_another_build(greet: GoProgram, go_environment: dict[str, str]) -> None:
    first = find_or_build(greet, go_environment)
    file = greet.modules / "greet" / "cmd" / "greet" / "main.go"
    file.write_text(f"{file.read_text()}\n// changed\n")
    second = find_or_build(greet, go_environment)
    assert isinstance(first, Path)
    assert isinstance(second, Path)
    assert first != second


@pytest.mark.cluster
def test_a_cache_that_cannot_be_written_is_named(
    greet: GoProgram, go_environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    found = find_or_build(greet, {**go_environment, "XDG_CACHE_HOME": str(tmp_path / "file")})
    assert isinstance(found, Missing)
    assert "Not a directory" in found.reason
    assert "Set XDG_CACHE_HOME to a directory that can be written" in found.reason


@pytest.mark.cluster
def test_a_build_that_fails_gives_the_last_lines_of_go_and_leaves_nothing_to_be_found(
    greet: GoProgram, go_environment: dict[str, str]
) -> None:
    source = greet.modules / "greet" / "cmd" / "greet" / "main.go"
    source.write_text("package main\n\nfunc main() { broken }\n")
    found = find_or_build(greet, go_environment)
    assert isinstance(found, Missing)
    assert found.reason.startswith("greet: go build failed with exit code 1:\n")
    assert "main.go:3:15: undefined: broken" in found.reason
    source.write_text(PROGRAM)
    assert isinstance(find_or_build(greet, go_environment), Path)


def test_a_program_on_demand_is_used_once_it_is_built_and_not_built_for_a_test(
    greet: GoProgram, go_environment: dict[str, str]
) -> None:
    missing = find_or_build(greet, go_environment, build=False)
    assert missing == Missing(
        "it is not built yet. Build it with `python -m tests.go_programs greet`, or set GREET_ASSETS to a directory "
        "with greet"
    )
    built = find_or_build(greet, go_environment)
    assert find_or_build(greet, go_environment, build=False) == built
    assert output_of(built) == "unknown"


def test_sources_cannot_be_had_without_go(go_environment: dict[str, str]) -> None:
    with pytest.raises(LookupError, match=r"^no Go compiler is on the PATH\. Install Go"):
        sources(KUEUE, go_environment | {"PATH": "/nonexistent"})


def test_programs_on_demand_are_apart_from_those_that_every_run_builds() -> None:
    assert all(program.on_demand for program in ON_DEMAND)
    assert not any(program.on_demand for program in ALL)
