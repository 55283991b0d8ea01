"""Pods of a state directory, read anew whenever they are asked for."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from webhook.cluster.files.pods import DirectoryPods
from webhook.words.errors import PodsUnreadable

TRAIN = """\
apiVersion: v1
kind: Pod
metadata:
  name: train
  namespace: team-a
  creationTimestamp: 2026-01-15T09:30:00Z
  annotations: {hami.io/vgpu-node: h20-node-1}
spec:
  containers: [{name: train, x: 1}]
"""


def pod(name: str, *, namespace: str = "team-a", group: str = "pd", node: str = "h20-node-1") -> str:
    metadata = {"name": name, "namespace": namespace, "labels": {"gpu.topology/group": group}}
    return json.dumps({"kind": "Pod", "metadata": metadata, "spec": {"nodeName": node}})


def directory(root: Path, **files: str) -> DirectoryPods:
    (root / "pods").mkdir()
    for name, text in files.items():
        (root / "pods" / f"{name}.yaml").write_text(text)
    return DirectoryPods(root)


def read(pods: DirectoryPods, namespace: str = "team-a", name: str = "train") -> Any:
    found = asyncio.run(pods.pod(namespace, name))
    return None if found is None else json.loads(found)


def read_group(pods: DirectoryPods) -> list[str]:
    found = asyncio.run(pods.group("team-a", "pd", "h20-node-1"))
    return [json.loads(one)["metadata"]["name"] for one in found]


def test_a_pod_is_found_with_all_its_fields(tmp_path: Path) -> None:
    found = read(directory(tmp_path, any=TRAIN))
    assert found["metadata"]["annotations"] == {"hami.io/vgpu-node": "h20-node-1"}
    assert found["spec"] == {"containers": [{"name": "train", "x": 1}]}
    assert found["metadata"]["creationTimestamp"].startswith("2026-01-15")


@pytest.mark.parametrize(("namespace", "name"), [("team-a", "other"), ("team-b", "train")])
def test_a_pod_of_another_name_or_namespace_is_not_there(tmp_path: Path, namespace: str, name: str) -> None:
    assert read(directory(tmp_path, any=TRAIN), namespace, name) is None


def test_a_pod_without_a_namespace_is_in_default(tmp_path: Path) -> None:
    pods = directory(tmp_path, any=TRAIN.replace("  namespace: team-a\n", ""))
    assert read(pods, "default") is not None
    assert read(pods) is None


def test_a_directory_without_pods_has_none(tmp_path: Path) -> None:
    assert read(DirectoryPods(tmp_path)) is None
    assert read_group(DirectoryPods(tmp_path)) == []


def test_what_is_edited_is_seen_at_once(tmp_path: Path) -> None:
    pods = directory(tmp_path, a=TRAIN)
    (tmp_path / "pods" / "a.yaml").write_text(TRAIN.replace("h20-node-1", "l40s"))
    assert read(pods)["metadata"]["annotations"] == {"hami.io/vgpu-node": "l40s"}
    (tmp_path / "pods" / "a.yaml").unlink()
    assert read(pods) is None


def test_a_file_may_hold_several_pods(tmp_path: Path) -> None:
    pods = directory(tmp_path, a=f"{TRAIN}---\n{pod('decode')}\n")
    assert read(pods, name="decode")["metadata"]["name"] == "decode"


def test_a_pod_that_stands_there_twice_is_neither(tmp_path: Path) -> None:
    pods = directory(tmp_path, a=TRAIN, b=TRAIN)
    with pytest.raises(PodsUnreadable, match=r"b\.yaml: expected each pod once, found team-a/train in .*a\.yaml too"):
        read(pods)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", r"b\.yaml line 1: expected YAML"),
        ("kind: Node", r"b\.yaml: expected a Pod, found Node"),
        ("just text", r"b\.yaml: expected a Pod, found something else"),
        ("kind: Pod", r"b\.yaml: expected a Pod with a name, found none"),
        ("{kind: Pod, metadata: []}", r"b\.yaml: metadata: expected an object, found a list"),
        (
            "{kind: Pod, metadata: {name: a}, spec: {nodeName: 7}}",
            r"b\.yaml: spec\.nodeName: expected a text, found a whole number",
        ),
    ],
)
def test_a_file_that_cannot_be_read_is_named_unless_the_pod_stands_in_another(
    tmp_path: Path, text: str, said: str
) -> None:
    pods = directory(tmp_path, a=TRAIN, b=text)
    assert read(pods)["metadata"]["name"] == "train"
    with pytest.raises(PodsUnreadable, match=said):
        read(pods, name="other")
    with pytest.raises(PodsUnreadable, match=said):
        read_group(pods)


def test_a_file_that_is_a_directory_is_named(tmp_path: Path) -> None:
    pods = directory(tmp_path)
    (tmp_path / "pods" / "a.yaml").mkdir()
    with pytest.raises(PodsUnreadable, match=r"a\.yaml: cannot be read: Is a directory"):
        read(pods)


def test_a_group_is_the_pods_of_its_label_on_the_node(tmp_path: Path) -> None:
    files = {
        "a": pod("prefill"),
        "b": pod("decode"),
        "c": pod("elsewhere", node="l40s"),
        "d": pod("another", group="x"),
        "e": pod("foreign", namespace="team-b"),
        "f": TRAIN,
    }
    assert read_group(directory(tmp_path, **files)) == ["prefill", "decode"]
