"""Where the programs of the control plane come from, and what is said when they cannot be had."""

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.cluster.binaries import TOOLS, Binaries, Missing, find_or_build

PROGRAM = 'package main\n\nfunc main() { println("hello") }\n'
GO_MOD = """module example.com/tools

go 1.22

require (
	go.etcd.io/etcd/server/v3 v3.0.0
	k8s.io/kubernetes v1.0.0
)

replace (
	go.etcd.io/etcd/server/v3 => ./etcd
	k8s.io/kubernetes => ./kubernetes
)
"""


def put_program(path: Path) -> Path:
    path.touch(mode=0o755)
    return path


@pytest.fixture
def small_tools(tmp_path: Path) -> Path:
    """Modules with the names of the real ones; their programs are built in a moment and without the network."""
    tools = tmp_path / "tools"
    for module, package in (
        ("go.etcd.io/etcd/server/v3", "etcd"),
        ("k8s.io/kubernetes", "kubernetes/cmd/kube-apiserver"),
    ):
        directory = tools / package
        directory.mkdir(parents=True)
        (directory / "main.go").write_text(PROGRAM)
        (tools / package.partition("/")[0] / "go.mod").write_text(f"module {module}\n\ngo 1.22\n")
    (tools / "go.mod").write_text(GO_MOD)
    (tools / "go.sum").touch()
    return tools


@pytest.fixture
def go_environment(tmp_path: Path) -> dict[str, str]:
    """Go as it is on this machine, with an empty cache of binaries and no network."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("needs a Go compiler")
    # Go keeps what it compiled in XDG_CACHE_HOME too; without that each test would compile the standard library.
    compiled = subprocess.run([go, "env", "GOCACHE"], capture_output=True, text=True, check=True).stdout.strip()
    ours = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "GOCACHE": compiled, "GOPROXY": "off", "GOTOOLCHAIN": "local"}
    return {name: value for name, value in os.environ.items() if name != "KUBEBUILDER_ASSETS"} | ours


def test_kubebuilder_assets_come_first(tmp_path: Path) -> None:
    etcd, api_server = put_program(tmp_path / "etcd"), put_program(tmp_path / "kube-apiserver")
    found = find_or_build({"KUBEBUILDER_ASSETS": str(tmp_path), "PATH": ""})
    assert found == Binaries(etcd=etcd, kube_apiserver=api_server)


def test_kubebuilder_assets_without_both_programs_are_not_replaced_by_a_build(tmp_path: Path) -> None:
    put_program(tmp_path / "etcd")
    found = find_or_build({**os.environ, "KUBEBUILDER_ASSETS": str(tmp_path)})
    assert isinstance(found, Missing)
    assert found.reason.startswith(
        f"KUBEBUILDER_ASSETS={tmp_path}: expected executables etcd and kube-apiserver there."
    )


def test_a_file_that_cannot_be_executed_is_no_program(tmp_path: Path) -> None:
    put_program(tmp_path / "etcd")
    (tmp_path / "kube-apiserver").touch(mode=0o644)
    assert isinstance(find_or_build({"KUBEBUILDER_ASSETS": str(tmp_path)}), Missing)


def test_without_go_the_reason_says_what_to_do() -> None:
    assert find_or_build({"PATH": ""}) == Missing(
        "no Go compiler is on the PATH. "
        "Install Go 1.26 or later, or set KUBEBUILDER_ASSETS to a directory with etcd and kube-apiserver"
    )


def test_every_module_of_the_kubernetes_repository_has_the_version_of_kubernetes() -> None:
    lines = (TOOLS / "go.mod").read_text().splitlines()
    assert "go 1.26.0" in lines
    staging = [line for line in lines if " => " in line]
    assert "\tk8s.io/kubernetes v1.36.3 // indirect" in lines
    assert "\tk8s.io/apiserver => k8s.io/apiserver v0.36.3" in staging
    assert all(line.endswith(" v0.36.3") for line in staging)


@pytest.mark.cluster
def test_two_that_need_a_build_at_once_share_one(small_tools: Path, go_environment: dict[str, str]) -> None:
    said: list[str] = []
    with ThreadPoolExecutor() as pool:
        waiting = [pool.submit(find_or_build, go_environment, tools=small_tools, say=said.append) for _ in range(2)]
        first, second = (future.result() for future in waiting)
    assert isinstance(first, Binaries)
    assert first == second
    assert len(said) == 1
    assert sorted(path.name for path in first.etcd.parent.iterdir()) == ["etcd", "kube-apiserver"]


@pytest.mark.cluster
def test_what_was_built_once_is_found_again(small_tools: Path, go_environment: dict[str, str]) -> None:
    said: list[str] = []
    first = find_or_build(go_environment, tools=small_tools, say=said.append)
    second = find_or_build(go_environment, tools=small_tools, say=said.append)
    assert isinstance(first, Binaries)
    assert first == second
    assert len(said) == 1


@pytest.mark.cluster
def test_other_modules_are_another_build(small_tools: Path, go_environment: dict[str, str]) -> None:
    first = find_or_build(go_environment, tools=small_tools)
    (small_tools / "go.mod").write_text(GO_MOD.replace("v1.0.0", "v1.0.1"))
    second = find_or_build(go_environment, tools=small_tools)
    assert isinstance(first, Binaries)
    assert isinstance(second, Binaries)
    assert first != second


@pytest.mark.cluster
def test_a_cache_that_cannot_be_written_is_named(
    small_tools: Path, go_environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    found = find_or_build({**go_environment, "XDG_CACHE_HOME": str(tmp_path / "file")}, tools=small_tools)
    assert isinstance(found, Missing)
    assert "Not a directory" in found.reason
    assert "Set XDG_CACHE_HOME to a directory that can be written" in found.reason


@pytest.mark.cluster
def test_a_build_that_fails_gives_the_last_lines_of_go_and_leaves_nothing_to_be_found(
    small_tools: Path, go_environment: dict[str, str]
) -> None:
    source = small_tools / "kubernetes" / "cmd" / "kube-apiserver" / "main.go"
    source.write_text("package main\n\nfunc main() { broken }\n")
    found = find_or_build(go_environment, tools=small_tools)
    assert isinstance(found, Missing)
    assert found.reason.startswith("go build failed with exit code 1:\n")
    assert "main.go:3:15: undefined: broken" in found.reason
    source.write_text(PROGRAM)
    assert isinstance(find_or_build(go_environment, tools=small_tools), Binaries)
