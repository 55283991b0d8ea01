"""The laws find what breaks them: each scenario with its opposite."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz import effort, laws, permissions
from tests.fuzz.catalogue import Finds
from tests.fuzz.scenes import pod_review, read_scene, written
from tests.pods import Manifest, container, pod

Bend = Callable[[Manifest], None]
UNION = "metadata.annotations['gpu.topology/visible-uuids']"


def entry(value: str | None = None, path: str | None = None) -> Manifest:
    """A variable that lists GPUs."""
    source = {"valueFrom": {"fieldRef": {"fieldPath": path}}} if path else {"value": value}
    return {"name": "NVIDIA_VISIBLE_DEVICES", **source}


def after(bend: Bend) -> Manifest:
    """A pod that was changed."""
    made = copy.deepcopy(BEFORE)
    bend(made)
    return made


BEFORE = pod(container("train", env=[{"name": "A", "value": "1"}]), annotations={})
OURS = {
    "name": "gpu-topology-remap",
    "command": ["gpu-topology", "remap"],
    "securityContext": {
        "allowPrivilegeEscalation": False,
        "runAsNonRoot": True,
        "capabilities": {"drop": ["ALL"]},
    },
}

REACHES: dict[str, tuple[Bend, str, str | None]] = {
    "host IPC": (lambda made: made["spec"].update(hostIPC=True), "hostIPC without", "allow-host-ipc"),
    "host PID": (lambda made: made["spec"].update(hostPID=True), "hostPID without", "allow-host-pid"),
    "host network": (lambda made: made["spec"].update(hostNetwork=True), "hostNetwork without", "allow-host-network"),
    "all GPUs": (
        lambda made: made["spec"]["containers"][0]["env"].append(entry("all")),
        "container train sees",
        "allow-node-gpus",
    ),
    "GPUs by another annotation": (
        lambda made: made["spec"]["containers"][0]["env"].append(entry(path="metadata.annotations['mine']")),
        "container train sees",
        "allow-node-gpus",
    ),
    "a path of the host": (
        lambda made: made["spec"].update(volumes=[{"name": "root", "hostPath": {"path": "/"}}]),
        "a volume",
        None,
    ),
    "privileges": (
        lambda made: made["spec"]["containers"][0].update(securityContext={"privileged": True}),
        "container train becomes another",
        None,
    ),
    "another command": (
        lambda made: made["spec"]["containers"][0].update(command=["sh"]),
        "container train becomes another",
        None,
    ),
    "a container of its own": (
        lambda made: made["spec"].update(initContainers=[{"name": "x", "command": ["sh"]}]),
        "a container {'name': 'x'",
        None,
    ),
    "a privileged remap container": (
        lambda made: made["spec"].update(
            initContainers=[OURS | {"securityContext": {**OURS["securityContext"], "privileged": True}}]  # type: ignore[dict-item]
        ),
        "a container {'name': 'gpu-topology-remap'",
        None,
    ),
}


@pytest.mark.parametrize("name", REACHES)
def test_what_reaches_beyond_the_pod_is_found_and_may_be_allowed(name: str) -> None:
    bend, text, label = REACHES[name]
    with pytest.raises(AssertionError, match=text):
        permissions.check_permissions(BEFORE, after(bend), {})
    if label:
        permissions.check_permissions(BEFORE, after(bend), {f"gpu.topology/{label}": "true"})
        with pytest.raises(AssertionError, match=text):
            permissions.check_permissions(BEFORE, after(bend), {f"gpu.topology/{label}": "True"})


@pytest.mark.parametrize(
    "bend",
    [
        pytest.param(lambda made: made["spec"].update(initContainers=[OURS]), id="the remap container"),
        pytest.param(lambda made: made["spec"].update(volumes=[{"name": "a", "emptyDir": {}}]), id="an empty volume"),
        pytest.param(lambda made: made["spec"]["containers"][0]["env"].append(entry("none")), id="no GPU"),
        pytest.param(lambda made: made["spec"]["containers"][0]["env"].append(entry(path=UNION)), id="its own GPUs"),
    ],
)
def test_what_stays_within_the_pod_is_not(bend: Bend) -> None:
    permissions.check_permissions(BEFORE, after(bend), {})


def test_what_a_user_brought_along_is_the_users_unless_the_pod_is_prepared() -> None:
    bound = after(lambda made: made["spec"]["containers"][0]["env"].append(entry("all")))
    permissions.check_permissions(bound, bound, {})
    permissions.check_injected(bound, {})
    bound["metadata"]["annotations"]["gpu.topology/injected"] = "0.1.0 exclusive"
    with pytest.raises(AssertionError, match="container train has an own list of GPUs"):
        permissions.check_injected(bound, {})
    permissions.check_injected(bound, {"gpu.topology/allow-node-gpus": "true"})


def test_of_several_lists_the_last_one_counts() -> None:
    made = after(lambda manifest: manifest["spec"]["containers"][0]["env"].extend([entry("all"), entry("none")]))
    made["metadata"]["annotations"]["gpu.topology/injected"] = "0.1.0 exclusive"
    permissions.check_injected(made, {})


@pytest.mark.parametrize(
    ("operation", "documented"),
    [
        ({"op": "add", "path": "/spec/containers/0/env/-"}, True),
        ({"op": "replace", "path": "/spec/containers/12/resources/limits/nvidia.com~1gpucores"}, True),
        ({"op": "add", "path": "/metadata/annotations/gpu.topology~1link"}, True),
        ({"op": "remove", "path": "/spec/containers/0/env/0"}, False),
        ({"op": "replace", "path": "/spec/containers/0/image"}, False),
        ({"op": "add", "path": "/spec/serviceAccountName"}, False),
        ({"op": "replace", "path": "/metadata/annotations/example.com~1mine"}, False),
        ({"op": "add", "path": "/spec/containers/-"}, False),
        ({"op": "remove", "path": "/spec/initContainers/1"}, False),
    ],
)
def test_a_patch_touches_what_is_documented(operation: Manifest, documented: bool) -> None:
    if documented:
        permissions.check_operations([operation])
    else:
        with pytest.raises(AssertionError, match="a patch that"):
            permissions.check_operations([operation])


def test_an_init_container_may_only_go_to_come_first() -> None:
    gone = {"op": "remove", "path": "/spec/initContainers/1"}
    permissions.check_operations([gone, {"op": "add", "path": "/spec/initContainers/0"}])
    for then in ({"op": "add", "path": "/spec/initContainers/1"}, {"op": "remove", "path": "/spec/initContainers/0"}):
        with pytest.raises(AssertionError, match="a patch that remove"):
            permissions.check_operations([gone, then])
    theirs = {"name": "fetch", "image": "x"}
    before = after(lambda made: made["spec"].update(initContainers=[theirs, OURS]))
    permissions.check_permissions(before, after(lambda made: made["spec"].update(initContainers=[OURS, theirs])), {})
    for bent in ([OURS, theirs | {"image": "y"}], [theirs | {"name": "other"}, OURS], [OURS, OURS]):
        made = after(lambda made, bent=bent: made["spec"].update(initContainers=bent))  # type: ignore[misc]
        with pytest.raises(AssertionError, match="becomes another"):
            permissions.check_permissions(before, made, {})


def test_outputs_are_told_from_options() -> None:
    mine = {"gpu.topology/profile": "exclusive", "gpu.topology/nccl-p2p-level": "NVL", "a": "b"}
    made = pod(annotations={**mine, "gpu.topology/link": "NV4", "gpu.topology/nccl-env.A\n": "1"})
    assert permissions.outputs(made).keys() == {"gpu.topology/link", "gpu.topology/nccl-env.A\n"}
    forged = permissions.with_other_outputs(made)["metadata"]["annotations"]
    assert forged == {**mine, "gpu.topology/link": "forged", "gpu.topology/nccl-env.A\n": "forged"}


@pytest.mark.parametrize("text", ["", " ", "a\nb", "\x1b[2J", "\u202e", "a" * 9000])
def test_a_message_that_cannot_be_shown_is_found(text: str) -> None:
    with pytest.raises(AssertionError, match=r"nothing is said|not printable|9000 characters"):
        laws.check_message(text)


def test_a_message_that_can_be_shown_is_not() -> None:
    laws.check_message('annotation a on pod b: expected "é", found "\\x1b"')


def quadratic(size: int) -> int:
    """So much work that nobody may have it done."""
    return sum(len(str(number)) for number in range(size) for _ in range(size))


def test_work_is_counted_in_calls_and_ends_where_it_is_too_much() -> None:
    assert effort.count_calls(lambda: quadratic(20)) > 400
    assert effort.within(2000, lambda: quadratic(20)) == 20 * (10 + 10 * 2)
    with pytest.raises(effort.TooMuchWork, match="more than 2000 calls, at"):
        effort.within(2000, lambda: quadratic(5000))


def test_work_on_large_inputs_is_always_counted() -> None:
    data = b"a" * effort.ALWAYS_FROM
    assert effort.sampled(data, fixed=100, each=0.1, work=lambda: 7) == 7
    with pytest.raises(effort.TooMuchWork, match="more than 919 calls"):
        effort.sampled(data, fixed=100, each=0.1, work=lambda: quadratic(1000))


def test_the_shortest_input_of_each_way_to_fail_is_kept(tmp_path: Path) -> None:
    finds = Finds(tmp_path)

    def fail(data: bytes, *, otherwise: bool = False) -> Path | None:
        try:
            if otherwise:
                raise KeyError(data)
            raise ValueError(data)
        except (KeyError, ValueError) as error:
            return finds.add(data, error)

    first = fail(b"long input")
    assert first is not None
    assert fail(b"a longer input") is None
    assert fail(b"short") == first
    assert first.read_bytes() == b"short"
    assert "ValueError at test_laws.py" in first.with_suffix(".txt").read_text()
    assert fail(b"another", otherwise=True) not in (None, first)


def test_what_is_no_scene_is_the_body_of_a_request() -> None:
    for data in (b"", b"\xff", b"[]", b'{"request":1}'):
        assert read_scene(data).body == data


def test_a_scene_has_a_namespace_versions_and_a_configuration() -> None:
    review = pod_review(BEFORE)
    document: dict[str, Any] = {
        "namespace": {"labels": {"a": "b"}, "annotations": {"n": 1}},
        "cluster": {"hami": "2.10.0", "kubernetes": "what"},
        "policy": -1,
        "review": review,
    }
    scene = read_scene(written(document))
    assert json.loads(scene.body) == review
    assert (scene.namespace("x").labels, scene.namespace("x").annotations) == ({"a": "b"}, {"n": "1"})
    assert str(scene.versions.hami) == "2.10.0"
    assert scene.versions.kubernetes is None
