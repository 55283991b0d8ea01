"""The memory of the planner's mirror of pods is what the mirror counts, whatever users write into their pods."""

import tracemalloc
from copy import deepcopy
from typing import Any

import pytest
import yaml

from tests.decisions.place.cluster import PlacedCluster
from tests.decisions.place.test_kept_pods import (
    Change,
    forged_cards,
    full_choice,
    last_applied,
    long_command,
    one_node,
)
from tests.decisions.place.test_kept_pods import names as cards_of_no_node
from tests.docs.test_docs import ROOT
from tests.programs.planner.test_mirrors import published
from webhook.decisions.place.pod import MEMORY_FULL, MOST_PARTS, read_pod
from webhook.decisions.place.scheduling import MOST_OF_NEEDS
from webhook.decisions.place.world import World
from webhook.programs.planner.mirrors import OF_NAMESPACE, PODS, weigh_pod

pytestmark = pytest.mark.long

COUNT = 12
GONE = 40
OTHERS_BYTES = 110 * 1024 * 1024
"""What the program takes without pods, 47 MiB with all that it imports, and room for the mirrors of nodes."""


def nothing(_: dict[str, Any], __: int) -> None:
    pass


def many_values(pod: dict[str, Any], number: int) -> None:
    values = [f"{number}-{value}" for value in range(MOST_OF_NEEDS // 14)]
    expression = {"key": "a", "operator": "In", "values": values}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    pod["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def many_tolerations(pod: dict[str, Any], number: int) -> None:
    pod["spec"]["tolerations"] = [{"key": f"{number}-{key}", "operator": "Exists"} for key in range(500)]


def short_labels(pod: dict[str, Any], number: int) -> None:
    pod["metadata"]["labels"] |= {f"l{number}-{key}": "x" for key in range(600)}


def many_containers(pod: dict[str, Any], number: int) -> None:
    amounts = {"limits": {"nvidia.com/gpu": "1", f"r{number}": "1"}}
    pod["spec"]["containers"] = [{"name": f"c{key}", "resources": amounts} for key in range(120)]


def many_resources(pod: dict[str, Any], number: int) -> None:
    """A kubelet runs a pod with resources that its node does not know."""
    pod["spec"]["nodeName"] = "a"
    pod["spec"]["containers"] = [
        {"name": f"c{key}", "resources": {"limits": {f"r{number}.x/{key}-{other}": "1" for other in range(64)}}}
        for key in range(100)
    ]


def running_with_many_resources(pod: dict[str, Any], number: int) -> None:
    many_resources(pod, number)
    pod["spec"]["containers"] = pod["spec"]["containers"][:16]
    pod["metadata"]["annotations"] |= {
        "hami.io/vgpu-node": "a",
        "hami.io/vgpu-devices-allocated": cards_of_no_node(number, 4),
    }
    pod["status"] = {"phase": "Running", "startTime": "2026-11-22T12:00:00Z"}


def running(pod: dict[str, Any], number: int) -> None:
    forged_cards(pod, number)
    pod["spec"]["nodeName"] = "a"
    pod["status"] = {"phase": "Running", "startTime": "2026-11-22T12:00:00Z"}


def grown(found: PlacedCluster, change: Change) -> tuple[int, int]:
    """The bytes that some pods take in the worlds of planner and extender, and what the mirror counts for them."""
    created = []
    for number in range(COUNT):
        created.append(found.create(f"pod-{number}", 1))
        change(created[-1], number)
    extender = World()
    extender.node_changed("a", found.node_records["a"], found.topologies["a"])
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number, pod in enumerate(created):
        found.tell(f"pod-{number}")
        extender.pod_changed(f"team/pod-{number}", None, found.records[f"team/pod-{number}"])
        pod.clear()
    found.world.refresh()
    extender.refresh()
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return taken, sum(map(weigh_pod, found.records.values()))


@pytest.mark.parametrize(
    "change",
    [
        nothing,
        full_choice,
        forged_cards,
        last_applied,
        long_command,
        many_values,
        many_tolerations,
        short_labels,
        many_containers,
        running,
        many_resources,
        running_with_many_resources,
    ],
)
def test_pods_take_no_more_memory_than_is_counted_whatever_stands_in_them(change: Change) -> None:
    """The less of two measurements: CPython's table of interned strings, several MiB, may grow in one of them."""
    taken, counted = min(grown(one_node(), change) for _ in range(2))
    assert taken < 1.35 * counted


@pytest.mark.parametrize("change", [nothing, many_values, many_tolerations, short_labels])
def test_what_was_decided_of_pods_that_are_gone_is_bounded(change: Change) -> None:
    """The less of two measurements, as above."""
    assert min(left_behind(one_node(), change) for _ in range(2)) < GONE * 48 * 1024


def left_behind(found: PlacedCluster, change: Change) -> int:
    """The bytes that are kept of pods that came and went."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(GONE):
        change(found.create(f"pod-{number}", 1), number)
        found.tell(f"pod-{number}")
        found.round()
        found.delete(f"pod-{number}")
        found.round()
    found.said.clear()
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return taken


def cards_of_others(pod: dict[str, Any], number: int) -> None:
    allocated = cards_of_no_node(number, MOST_PARTS)
    pod["metadata"]["annotations"] |= {"hami.io/vgpu-node": "a", "hami.io/vgpu-devices-allocated": allocated}


@pytest.mark.parametrize("change", [many_values, cards_of_others])
def test_one_namespace_that_fills_the_memory_takes_none_from_others(change: Change) -> None:
    template = one_node().create("pod", 1)
    told, filled = published(), 0
    others = [told.versioned(f"team/pod-{number}", template) for number in range(20)]
    for other in others[:10]:
        told.mirrors.take_pod(other)
    while not told.mirrors.pods.shortened:
        manifest = deepcopy(template)
        change(manifest, filled)
        told.mirrors.take_pod(told.versioned(f"greedy/pod-{filled}", manifest))
        filled += 1
    for other in others[10:]:
        told.mirrors.take_pod(other)
    assert (told.mirrors.pods.is_incomplete, told.mirrors.pods.left_out) == (False, 0)
    kept = told.mirrors.pods.values()
    for other in others:
        assert kept[other.name] == read_pod(other.document, other.name, None)
    last = kept[f"greedy/pod-{filled - 1}"]
    assert (last.held, last.unbound and last.unbound.why_cut) == ((), MEMORY_FULL)
    most = f"expected at most {OF_NAMESPACE.objects} objects and {OF_NAMESPACE.bytes} bytes"
    assert told.said == [f"pods: greedy: {most}, found more; of what is beyond only what has to be kept is kept"]


def test_all_pods_that_the_mirror_keeps_leave_a_fifth_of_the_memory_of_the_chart() -> None:
    values = yaml.safe_load((ROOT / "deploy" / "chart" / "values.yaml").read_text(encoding="utf-8"))
    text = values["placement"]["resources"]["limits"]["memory"]
    assert text.endswith("Mi")
    assert PODS.bytes * 1.14 + OTHERS_BYTES < 0.8 * int(text.removesuffix("Mi")) * 1024 * 1024
