"""Several kubeconfig files are one, as kubectl takes them."""

import os
from pathlib import Path

import pytest

from tests.cluster.api.kubeconfigs import FAR, FIRST, SECOND, SHAPES, Shape, config
from webhook.cli.kubeconfig import usual_kubeconfig, wanted_cluster
from webhook.cluster.api.contexts import Context
from webhook.cluster.api.kubeconfig_files import namespace_of, read_context
from webhook.cluster.api.session import find_access
from webhook.words.errors import ConfigError, GpuTopologyError, ManifestError


def context_of(shape: Shape, directory: Path) -> Context:
    return Context(tuple(shape.write(directory)), shape.context)


@pytest.mark.parametrize(
    ("name", "server", "namespace"),
    [
        ("one file", "https://far:6443", "default"),
        ("the first that sets it names the current context", "https://far:6443", "default"),
        ("a name is that of the first file with it", "https://lab:6443", "team-a"),
        ("nothing of the other file is added to it", "https://far:6443", "default"),
        ("a file that is not there is left out", "https://lab:6443", "team-a"),
        ("a context of one file, its cluster of another", "https://lab:6443", "default"),
        ("an empty file", "https://far:6443", "default"),
        ("no user", "https://far:6443", "default"),
    ],
)
def test_what_was_said_first_counts(name: str, server: str, namespace: str, tmp_path: Path) -> None:
    context = context_of(SHAPES[name], tmp_path)
    assert read_context(context)["clusters"][0]["cluster"]["server"] == server
    assert namespace_of(context) == namespace


@pytest.mark.parametrize("shape", [each for each in SHAPES.values() if not each.usable], ids=str)
def test_what_kubectl_cannot_use_ends_in_a_sentence_with_the_file(shape: Shape, tmp_path: Path) -> None:
    with pytest.raises(GpuTopologyError, match=rf"^{tmp_path}/\S+:? .*expected"):
        read_context(context_of(shape, tmp_path))


def test_of_a_name_that_two_files_have_nothing_is_mixed(tmp_path: Path) -> None:
    shape = Shape({"a/one": FIRST, "b/two": SECOND}, "mine")
    found = read_context(context_of(shape, tmp_path))
    assert "token" not in found["users"][0]["user"]
    assert "insecure-skip-tls-verify" not in found["clusters"][0]["cluster"]


def test_names_of_files_are_seen_from_the_kubeconfig_that_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = {"exec": {"command": "./bin/plugin", "apiVersion": "client.authentication.k8s.io/v1"}}
    users = {"me": plugin, "you": {"exec": {"command": "aws"}, "tokenFile": "token"}}
    contexts = {"c": {"cluster": "c", "user": "me"}, "d": {"cluster": "c", "user": "you"}}
    shape = Shape({"a/one": config("c", clusters={"c": FAR}, contexts=contexts, users=users)})
    shape.write(tmp_path)
    monkeypatch.chdir(tmp_path)
    path = Path("a/one")
    assert read_context(Context((path,)))["users"][0]["user"]["exec"]["command"] == f"{tmp_path}/a/bin/plugin"
    found = read_context(Context((path,), "d"))["users"][0]["user"]
    assert found == {"exec": {"command": "aws"}, "tokenFile": f"{tmp_path}/a/token"}


def test_the_merged_files_reach_their_cluster(tmp_path: Path) -> None:
    access = find_access(context_of(SHAPES["the first that sets it names the current context"], tmp_path))
    assert access.url == "https://far:6443"


def test_of_the_environment_all_files_count_that_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = Shape({"gone": None, "a/one": FIRST, "b/two": SECOND}).write(tmp_path)
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(["", *map(str, named), str(named[1])]))
    assert usual_kubeconfig("mine") == Context((named[1], named[2]), "mine")
    assert wanted_cluster(named[2], "yours") == Context((named[2],), "yours")


def test_a_file_that_may_not_be_looked_at_is_not_taken_for_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no directory")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/file/config:{tmp_path}/gone")
    with pytest.raises(ManifestError, match=r"file/config: cannot be read: Not a directory"):
        read_context(usual_kubeconfig() or Context(()))


def test_a_file_that_is_named_has_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"gone: cannot be read"):
        read_context(Context((tmp_path / "gone",)))


@pytest.mark.parametrize("server", [None, 7, {"a": 1}], ids=str)
def test_a_cluster_without_a_server_is_named(server: object, tmp_path: Path) -> None:
    document = config("c", clusters={"c": {"server": server}}, contexts={"c": {"cluster": "c"}})
    context = context_of(Shape({"c": document}), tmp_path)
    with pytest.raises(ConfigError, match=r'/c: expected a kubeconfig: cluster "c" names no server'):
        read_context(context)
