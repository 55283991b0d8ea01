"""Pods of one workload share a wish, and no others do."""

from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest

from tests.bind.test_binding import H20, U, hami, injected, published, to
from tests.judge import policy
from tests.pods import ALL_ALLOWED, container
from tests.topology import machines
from webhook.admit.memory import Memory
from webhook.bind.binding import Case, begin, finish
from webhook.bind.memory import key_of
from webhook.bind.wanted import Wish
from webhook.model.binding import BindOutcome
from webhook.model.pod import Namespace, Pod
from webhook.resolve.node import Sources


def decide(
    pod: Pod, memory: Memory[Wish] | None, namespace: Namespace = ALL_ALLOWED, *, sources: Sources = H20
) -> BindOutcome:
    begun = begin(pod, to(), namespace, policy(), memory)
    return finish(begun, policy(), sources) if isinstance(begun, Case) else begun


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


def test_annotations_of_others_are_no_part_of_the_key() -> None:
    pod = injected(allocated=hami([U[0], U[1]]), annotations={"example.com/note": "x"})
    assert key_of(pod) == key_of(injected(allocated=hami([U[0], U[1]])))


def test_a_binding_that_is_tried_again_gets_what_its_node_is_worth_by_then() -> None:
    memory: Memory[Wish] = Memory()
    pod = injected(allocated=hami([U[0], U[1]]), annotations=REQUIRED)
    assert decide(pod, memory).link == "NVSwitch"
    assert decide(pod, memory) == decide(pod, memory)
    gpus = tuple(replace(gpu, nvlinks=()) for gpu in machines.h20().gpus)
    unplugged = published(replace(machines.h20(), gpus=gpus))
    assert decide(pod, memory, sources=unplugged).link == "PHB"
    assert decide(pod, memory, sources=unplugged).satisfied is False
    assert decide(pod, memory).link == "NVSwitch"


def test_an_allocation_that_cannot_be_resolved_is_looked_at_again() -> None:
    memory: Memory[Wish] = Memory()
    pod = injected(allocated=hami([U[0], "GPU-x"]))
    assert decide(pod, memory).reason == decide(pod, memory).reason == "gpu-unknown"


def test_the_order_in_which_hami_picked_the_gpus_does_not_matter() -> None:
    memory: Memory[Wish] = Memory()
    one, other = (injected(allocated=hami(gpus)) for gpus in ([U[0], U[1]], [U[1], U[0]]))
    assert decide(one, memory).annotations == decide(other, memory).annotations
