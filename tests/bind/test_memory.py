"""Pods of one workload share a wish, and no others do."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.bind.test_binding import H20, U, hami, injected, to
from tests.judge import policy
from tests.pods import ALL_ALLOWED, container
from webhook.admit.memory import Memory
from webhook.bind.binding import Case, begin, finish
from webhook.bind.memory import MAX_BYTES, key_of
from webhook.bind.wanted import Wish
from webhook.model.binding import BindOutcome
from webhook.model.pod import Namespace, Pod


def decide(pod: Pod, memory: Memory[Wish] | None, namespace: Namespace = ALL_ALLOWED) -> BindOutcome:
    begun = begin(pod, to(), namespace, policy(), memory)
    return finish(begun, policy(), H20) if isinstance(begun, Case) else begun


def renamed(pod: Pod, name: str) -> Pod:
    assert pod.metadata is not None
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, name=name))


def test_pods_of_one_workload_with_other_gpus_share_a_wish_and_get_their_own_values() -> None:
    memory: Memory[Wish] = Memory()
    profile = {"gpu.topology/profile": "node-peers"}
    first = injected(allocated=hami([U[0], U[1]]), annotations=profile)
    second = renamed(injected(allocated=hami([U[6], U[3]]), annotations=profile), "train-1")
    assert key_of(first) == key_of(second)
    assert decide(first, memory).annotations["gpu.topology/cuda-visible-devices.0"] == "0,1"
    assert decide(second, memory).annotations["gpu.topology/cuda-visible-devices.0"] == "3,6"
    assert decide(second, memory) == decide(second, None)


def test_messages_name_the_pod_that_they_are_about() -> None:
    memory: Memory[Wish] = Memory()
    decide(injected(allocated=hami([U[0], U[1]])), memory)
    other = renamed(injected(allocated=hami([U[0], "GPU-x"])), "train-1")
    assert decide(other, memory).message.startswith("pod team-a/train-1: GPU-x was allocated")


REQUIRED = {"gpu.topology/require-nvlink": "true"}
CHANGES: dict[str, Callable[[], Pod]] = {
    "a requirement": lambda: injected(allocated=hami([U[0], U[1]]), annotations=REQUIRED),
    "the profile": lambda: injected(allocated=hami([U[0], U[1]]), annotations={"gpu.topology/profile": "node-peers"}),
    "the number of GPUs": lambda: injected(container(gpus=3), allocated=hami([U[0], U[1]])),
    "the name of a container": lambda: injected(container("other"), allocated=hami([U[0], U[1]])),
    "a second container": lambda: injected(container(), container("more", 1), allocated=hami([U[0], U[1]])),
    "an own variable": lambda: injected(
        container(env=[{"name": "NCCL_P2P_LEVEL", "value": "SYS"}]), allocated=hami([U[0], U[1]])
    ),
    "the carrier": lambda: injected(allocated=hami([U[0], U[1]]), annotations={"gpu.topology/remap": "binding"}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_wish_depends_on_is_part_of_its_key(change: str) -> None:
    plain, other = injected(allocated=hami([U[0], U[1]])), CHANGES[change]()
    assert key_of(plain) != key_of(other)
    memory: Memory[Wish] = Memory()
    decide(plain, memory)
    assert decide(other, memory) == decide(other, None)


def test_a_namespace_that_changed_forgets_its_pods() -> None:
    memory: Memory[Wish] = Memory()
    pod = injected(allocated=hami([U[0], U[1]]))
    assert decide(pod, memory).satisfied is None
    strict = Namespace(ALL_ALLOWED.name, ALL_ALLOWED.labels, REQUIRED)
    assert decide(pod, memory, strict).satisfied is True


def test_a_pod_that_is_too_large_is_not_remembered() -> None:
    large: Any = container(env=[{"name": "LARGE", "value": "x" * MAX_BYTES}])
    assert key_of(injected(large, allocated=hami([U[0], U[1]]))) is None


def of_annotations(**annotations: str) -> Pod:
    return injected(allocated=hami([U[0], U[1]]), annotations={f"gpu.topology/{k}": v for k, v in annotations.items()})


def test_a_pod_whose_annotations_are_too_large_is_not_remembered() -> None:
    assert key_of(of_annotations(note="x" * MAX_BYTES)) is None
    assert key_of(of_annotations(a="x" * (MAX_BYTES // 2), b="x" * (MAX_BYTES // 2))) is None
    assert key_of(of_annotations(**{"x" * MAX_BYTES: ""})) is None
    assert key_of(of_annotations(note="x" * (MAX_BYTES // 2))) is not None


def test_a_pod_that_is_not_remembered_is_decided_all_the_same() -> None:
    memory: Memory[Wish] = Memory()
    pod = of_annotations(note="x" * MAX_BYTES)
    assert decide(pod, memory) == decide(pod, None)


def test_annotations_of_others_do_not_count() -> None:
    pod = injected(allocated=hami([U[0], U[1]]), annotations={"example.com/note": "x" * MAX_BYTES})
    assert key_of(pod) == key_of(injected(allocated=hami([U[0], U[1]])))


@pytest.mark.parametrize("kind", ["limits", "requests"])
def test_a_pod_whose_resources_are_too_many_is_not_remembered(kind: str) -> None:
    many: Any = container()
    many["resources"] = {**many["resources"], kind: {f"example.com/{'x' * 50}{n}": "1" for n in range(2_000)}}
    pod = msgspec.convert({"metadata": {"name": "train"}, "spec": {"containers": [many]}}, Pod)
    assert key_of(pod) is None
