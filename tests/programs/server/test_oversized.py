"""A pod or Binding of the largest size with nearly all of it in one place: the reply and the log stay small."""

import json
from tempfile import TemporaryFile
from typing import Any

import pytest

from tests.pods import Manifest, container, pod
from tests.programs.server.asgi import NOWHERE, UID, application, binding_review, post, review
from tests.programs.server.test_bindings import KnownCluster, KnownPods, injected, to_node
from tests.programs.server.test_reviews import KNOWN, written
from webhook.cluster.state import Pods, State
from webhook.decisions.configuration import ServerSettings

REPLY, LINE = 1024 * 1024, 16 * 1024
SIZE = ServerSettings().max_review_bytes
LONG = "x" * (SIZE - 4096)
MANY = 100_000
EXPECTED = {"admission", "binding", "rejected", "slow"}
"""Lines of the log. On a machine that stands still any review is slow; a bug is what may not be there."""
NONE: Manifest = {"emptyDir": {}}


def many(prefix: str, value: Any = "", count: int = MANY) -> dict[str, Any]:
    return {f"{prefix}{number}": value for number in range(count)}


def variables(count: int = MANY, **fields: Any) -> list[Manifest]:
    return [{"name": f"V{number}", **fields} for number in range(count)]


def gpu_containers(count: int, **fields: Any) -> list[Manifest]:
    return [container(f"c{number}", 2, **fields) for number in range(count)]


PODS: dict[str, Manifest] = {
    "a long name": {**pod(), "metadata": {"name": LONG}},
    "a long beginning of a name": {**pod(), "metadata": {"generateName": LONG}},
    "a long annotation": pod(annotations={"example.com/x": LONG}),
    "a long annotation of ours": pod(annotations={"gpu.topology/profile": LONG}),
    "a long annotation that means nothing": pod(annotations={"gpu.topology/x": LONG}),
    "a long name of an annotation that means nothing": pod(annotations={f"gpu.topology/{LONG}": ""}),
    "a long name of an output": pod(annotations={f"gpu.topology/cuda-visible-devices.{LONG}": ""}),
    "a long output": pod(annotations={"gpu.topology/node-topology": LONG}),
    "a long allocation": pod(annotations={"hami.io/vgpu-node": "n", "hami.io/vgpu-devices-allocated": LONG}),
    "a long value for one container": pod(annotations={"gpu.topology/env.A": LONG[: SIZE // 2]}),
    "a long name of a variable": pod(annotations={f"gpu.topology/env.{LONG}": "x"}),
    "a long list of containers": pod(annotations={"gpu.topology/containers": "c," * (SIZE // 3)}),
    "a long group": pod(annotations={"gpu.topology/group": LONG}),
    "many annotations": pod(annotations=many("example.com/")),
    "many annotations that mean nothing": pod(annotations=many("gpu.topology/x")),
    "many outputs": pod(annotations=many("gpu.topology/cuda-visible-devices.")),
    "many variables by annotation": pod(annotations=many("gpu.topology/env.V", "x")),
    "many labels": pod(labels=many("example.com/")),
    "a long label": pod(labels={"gpu.topology/group": LONG}, annotations={"gpu.topology/group": "g"}),
    "many variables": pod(container(env=variables())),
    "many variables of one name": pod(container(env=[{"name": "NCCL_DEBUG", "value": "x"}] * MANY)),
    "many references": pod(container(env=variables(60_000, valueFrom={"fieldRef": {"fieldPath": "metadata.name"}}))),
    "a long value": pod(container(env=[{"name": "NCCL_DEBUG", "value": LONG}])),
    "a long reference": pod(
        container(env=[{"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"fieldRef": {"fieldPath": LONG}}}])
    ),
    "many containers": pod(*gpu_containers(50_000)),
    "many containers without GPUs": pod(container(), *(container(f"c{number}", None) for number in range(60_000))),
    "many init containers": pod(initContainers=[container(f"c{number}", None) for number in range(60_000)]),
    "many containers that are called like ours": pod(
        initContainers=[
            {"name": f"gpu-topology-remap{'' if number < 2 else f'-{number}'}", "image": "x"}
            for number in range(1, 60_000)
        ]
    ),
    "many containers with many variables": pod(
        *gpu_containers(400), annotations={"gpu.topology/inject": "true"} | many("gpu.topology/env.V", "x", 400)
    ),
    "a long name of a container": pod(container(LONG)),
    "many volumes": pod(volumes=[{"name": f"v{number}", **NONE} for number in range(MANY)]),
    "many volumes that are called like ours": pod(
        volumes=[{"name": f"gpu-topology-{number}", **NONE} for number in range(2, MANY)]
    ),
    "many mounts": pod(
        container(volumeMounts=[{"name": "v", "mountPath": f"/m{number}"} for number in range(MANY)]),
    ),
    "a long path": pod(container(volumeMounts=[{"name": LONG[: SIZE // 3], "mountPath": "/run/gpu-topology"}])),
    "many resources": pod({**container(), "resources": {"limits": {"nvidia.com/gpu": 2} | many("example.com/", "1")}}),
    "a long name of a resource": pod({**container(), "resources": {"limits": {"nvidia.com/gpu": 2, LONG: "1"}}}),
    "a long amount": pod({**container(), "resources": {"limits": {"nvidia.com/gpu": "9" * (SIZE - 4096)}}}),
    "many terms of an affinity": pod(
        annotations={"gpu.topology/group": "g"},
        affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "k"}] * MANY}},
    ),
    "a long name of a node": pod(nodeName=LONG, annotations={"hami.io/vgpu-node": LONG[:1000]}),
    "a long class": pod(runtimeClassName=LONG),
}


def answered(body: bytes, state: State = KNOWN, pods: Pods = NOWHERE, path: str = "/mutate/pods") -> int:
    """The status, once reply and log were seen to be small and no bug showed."""
    assert len(body) < SIZE * 1.01
    with TemporaryFile() as log:
        answer = post(application(state, log, pods), body, path=path)
        lines = written(log).decode().split("\n")
    assert len(answer.body) <= REPLY
    assert max(map(len, lines)) <= LINE
    assert all(json.loads(line)["message"] in EXPECTED for line in lines if line)
    return answer.status


@pytest.mark.parametrize("manifest", PODS.values(), ids=PODS)
def test_a_large_pod_gets_a_small_reply_and_a_short_line_in_the_log(manifest: Manifest) -> None:
    assert answered(review(manifest)) in {200, 400, 413}


@pytest.mark.parametrize("field", ["uid", "operation", "namespace", "name", "subResource", "resource"])
def test_a_large_field_of_the_request_is_not_repeated(field: str) -> None:
    value: Any = {"group": LONG, "version": "v1", "resource": "pods"} if field == "resource" else LONG
    assert answered(review(pod(), **{field: value})) in {200, 400, 413}


BINDINGS: dict[str, Manifest] = {
    "a long node": to_node(LONG),
    "a long annotation": to_node(annotations={"example.com/x": LONG}),
    "a long allocation": to_node(annotations={"hami.io/vgpu-devices-allocated": LONG}),
    "many annotations": to_node(annotations=many("gpu.topology/env.V", "x")),
    "a long uid": to_node(uid=LONG),
}


@pytest.mark.parametrize("binding", BINDINGS.values(), ids=BINDINGS)
def test_a_large_binding_gets_a_small_reply_and_a_short_line_in_the_log(binding: Manifest) -> None:
    pods = KnownPods(injected(1, 2))
    assert answered(binding_review(binding), KnownCluster(), pods, "/mutate/bindings") in {200, 400, 413}


def test_the_uid_of_an_honest_review_comes_back_as_it_was() -> None:
    with TemporaryFile() as log:
        assert post(application(KNOWN, log), review(pod())).response["uid"] == UID
