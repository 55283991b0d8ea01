"""How large allocation and node of a pod may be at its Binding."""

import pytest

from tests.decisions.bind.test_binding import U, decide, hami, injected, published
from tests.hardware.topology import machines
from tests.judge import policy
from tests.pods import container
from webhook.objects.binding import BIND_ENTRIES, BindReason
from webhook.words.outcome import Kind

LIMITED = [
    ("segments", 2, "at most 2 segments (limits.segments), found "),
    ("devices", 3, "at most 3 devices (limits.devices), found "),
    ("gpus", 8, "node h20-node-1 has 8 GPUs, the configuration allows 7 (limits.gpus)"),
    ("links", 8, "node h20-node-1 has 8 bundles of NVLinks, the configuration allows 7 (limits.links)"),
]
TWO = (container("a", gpus=2), container("b", gpus=1))
ALLOCATED = hami([U[0], U[1]], [U[2]])


@pytest.mark.parametrize(("setting", "found", "_"), LIMITED, ids=[setting for setting, *_ in LIMITED])
def test_at_a_limit_a_pod_is_told_of_its_gpus(setting: str, found: int, _: str) -> None:
    outcome = decide(injected(*TWO, allocated=ALLOCATED), rules=policy(limits={setting: found}))
    assert outcome.reason is BindReason.RESOLVED


@pytest.mark.parametrize(("setting", "found", "expected"), LIMITED, ids=[setting for setting, *_ in LIMITED])
def test_beyond_a_limit_the_binding_is_degraded_and_names_it(setting: str, found: int, expected: str) -> None:
    outcome = decide(injected(*TWO, allocated=ALLOCATED), rules=policy(limits={setting: found - 1}))
    assert (outcome.kind, outcome.reason, outcome.annotations) == (Kind.DEGRADED, BindReason.OVER_LIMIT, {})
    named = expected.replace(f"most {found}", f"most {found - 1}")
    assert named in outcome.message
    assert outcome.event is not None
    assert outcome.event.note == BIND_ENTRIES[BindReason.OVER_LIMIT].say().about("pod team-a/train on node h20-node-1")


@pytest.mark.parametrize(("setting", "found", "_"), LIMITED, ids=[setting for setting, *_ in LIMITED])
def test_beyond_a_limit_a_pod_whose_containers_share_gpus_is_refused(setting: str, found: int, _: str) -> None:
    pod = injected(*TWO, allocated=ALLOCATED, annotations={"gpu.topology/profile": "pod-peers"})
    outcome = decide(pod, rules=policy(limits={setting: found - 1}))
    assert (outcome.kind, outcome.reason, outcome.code) == (Kind.REFUSE, BindReason.OVER_LIMIT, 409)


def test_a_node_with_one_gpu_more_than_allowed_is_too_large_for_a_pod_with_one() -> None:
    pod = injected(container(gpus=1), allocated=hami([U[0]]), annotations={"gpu.topology/inject": "true"})
    assert decide(pod, sources=published(machines.h20()), rules=policy(limits={"gpus": 8})).satisfied is None
    assert decide(pod, rules=policy(limits={"gpus": 7})).reason is BindReason.OVER_LIMIT
