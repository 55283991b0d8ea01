"""The memory that a pod costs the planner, whatever its author wrote; no choice becomes another by it."""

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from tests.decisions.place.cluster import PlacedCluster, named
from tests.hardware.topology.machines import a100_pcie_bridged
from webhook.decisions.place.kept_pod import kept_pod
from webhook.decisions.place.pins import pinned_cards
from webhook.decisions.place.placed_annotation import MOST_OTHERS, Placed, format_placed
from webhook.decisions.place.pod import MOST_PARTS, shortened
from webhook.decisions.place.scheduling import MOST_OF_NEEDS
from webhook.objects.pod import Container, decode_stored_pod

MEGABYTE = 1024 * 1024
CHOICE = Placed(node="a", cards=("GPU-a.0",), link="NVLink", bandwidth=1.0, share=1.0, attempt=1, at="")
PODS = 4
LEFT_OUT = {
    "volumes_json",
    "env_json",
    "env_from_json",
    "mounts_json",
    "command_json",
    "args_json",
    "liveness_json",
    "readiness_json",
    "startup_json",
    "lifecycle_json",
}
CASES = sorted((Path(__file__).parents[2] / "cases" / "pods").glob("*/pod.yaml"))
Change = Callable[[dict[str, Any], int], None]


def one_node() -> PlacedCluster:
    return PlacedCluster(named(a100_pcie_bridged(), "a"))


def names(pod: int, count: int) -> str:
    """HAMi's list of cards that no node has, others for each pod."""
    return "".join(f"GPU-{pod}-{card},,,:" for card in range(count)) + ";"


def kept_bytes(change: Change, *, gated: bool = True) -> tuple[float, float]:
    """The bytes that the planner keeps of each of some pods, and of each when they are gone.

    The less of two measurements: CPython's table of interned strings, several MiB that all share, may grow in one.
    """
    return min(_kept_bytes(one_node(), change, gated=gated) for _ in range(2))


def _kept_bytes(found: PlacedCluster, change: Change, *, gated: bool) -> tuple[float, float]:
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(PODS):
        pod = found.create(f"pod-{number}", 1, gated=gated)
        change(pod, number)
        found.tell(f"pod-{number}")
        pod.clear()
    found.world.refresh()
    meanwhile = tracemalloc.get_traced_memory()[0] - before
    for number in range(PODS):
        found.delete(f"pod-{number}")
    found.world.refresh()
    afterwards = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return meanwhile / PODS, afterwards / PODS


def forged_cards(pod: dict[str, Any], number: int) -> None:
    pod["metadata"]["annotations"] |= {
        "hami.io/vgpu-node": "a",
        "hami.io/vgpu-devices-allocated": names(number, 12_000),
    }


def long_variable(pod: dict[str, Any], number: int) -> None:
    pod["spec"]["containers"][0]["env"] = [{"name": "A", "value": f"{number}" + "x" * MEGABYTE}]


def long_command(pod: dict[str, Any], number: int) -> None:
    pod["spec"]["containers"][0]["args"] = [f"{number}" + "x" * MEGABYTE]


def managed_fields(pod: dict[str, Any], number: int) -> None:
    pod["metadata"]["managedFields"] = [{"manager": f"{number}", "fieldsV1": {"f:x": "x" * MEGABYTE}}]


def last_applied(pod: dict[str, Any], number: int) -> None:
    key = "kubectl.kubernetes.io/last-applied-configuration"
    pod["metadata"]["annotations"][key] = f"{number}" + "x" * 200_000


def fat_affinity(pod: dict[str, Any], number: int) -> None:
    expression = {"key": "a", "operator": "In", "values": [f"{number}-{value}" for value in range(90_000)]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    pod["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def fat_tolerations(pod: dict[str, Any], number: int) -> None:
    pod["spec"]["tolerations"] = [{"key": f"{number}-{key}", "operator": "Exists"} for key in range(2_500)]


def many_labels(pod: dict[str, Any], number: int) -> None:
    pod["metadata"]["labels"] |= {f"label-{number}-{key}": "x" * 60 for key in range(10_000)}


def long_choice(pod: dict[str, Any], number: int) -> None:
    pod["metadata"]["annotations"]["gpu.topology/placed"] = json.dumps({"node": f"{number}", "gaveUp": ["x" * 200_000]})


def forged_choice(pod: dict[str, Any], entries: int) -> None:
    """A choice that names as many nodes that refused as this."""
    placed = format_placed(CHOICE).removesuffix("}")
    nodes = json.dumps([f"{node:04}" for node in range(entries)], separators=(",", ":"))
    text = f'{placed},"refused":{nodes}}}'
    pod["metadata"]["annotations"] |= {"gpu.topology/placed": text, "nvidia.com/use-gpuuuid": "GPU-a.0"}


def full_choice(pod: dict[str, Any], _: int) -> None:
    forged_choice(pod, MOST_OTHERS)


def overfull_choice(pod: dict[str, Any], _: int) -> None:
    forged_choice(pod, 4_500)


@pytest.mark.long
@pytest.mark.parametrize(
    ("change", "most"),
    [
        (full_choice, 192_000),
        (overfull_choice, 64_000),
        (long_variable, 16_000),
        (long_command, 16_000),
        (managed_fields, 16_000),
        (last_applied, 16_000),
        (fat_affinity, 16_000),
        (many_labels, 16_000),
        (long_choice, 16_000),
        (fat_tolerations, 128_000),
        (forged_cards, 128_000),
    ],
)
def test_a_waiting_pod_costs_bounded_memory_whatever_stands_in_it(change: Change, most: int) -> None:
    meanwhile, afterwards = kept_bytes(change)
    assert meanwhile < most
    assert afterwards < 16_000


@pytest.mark.long
def test_forged_cards_of_a_pod_that_does_not_wait_cost_bounded_memory() -> None:
    meanwhile, afterwards = kept_bytes(forged_cards, gated=False)
    assert meanwhile < 128_000
    assert afterwards < 16_000


@pytest.mark.parametrize(("forged", "held"), [(0, 4), (MOST_PARTS - 4, MOST_PARTS), (20_000, MOST_PARTS)])
def test_a_list_as_long_as_a_pod_may_be_given_is_kept_whole(forged: int, held: int) -> None:
    found = one_node()
    pod = found.create("holder", 1, gated=False)
    own = "".join(f"GPU-a.{card},NVIDIA,0,0:" for card in range(4))
    pod["metadata"]["annotations"] |= {
        "hami.io/vgpu-node": "a",
        "hami.io/vgpu-devices-allocated": own + names(0, forged),
    }
    found.tell("holder")
    assert found.records["team/holder"].held[:4] == tuple(f"GPU-a.{card}" for card in range(4))
    assert len(found.records["team/holder"].held) == held
    found.create("next", 1)
    found.round()
    assert found.pinned("next") == ()


def test_a_pod_that_is_too_long_to_be_kept_goes_on_without_a_choice_and_disturbs_no_other() -> None:
    found = one_node()
    many_labels(found.create("long", 2), 0)
    found.tell("long")
    found.create("next", 2)
    found.round()
    assert (found.gates("long"), found.label("long")) == ([], "released")
    reason, message = found.why("long")
    assert reason == "NotPlaceable"
    assert message.endswith(": what the planner has to keep of it is longer than 128 KiB")
    assert "label-0-0" in found.pods["long"]["metadata"]["labels"]
    assert len(found.pinned("next")) == 2


def test_a_pod_whose_namespace_has_no_more_room_goes_on_without_a_choice_and_disturbs_no_other() -> None:
    found = one_node()
    found.create("greedy", 2)
    found.replace_record("greedy", shortened)
    found.create("next", 2)
    found.round()
    assert (found.gates("greedy"), found.label("greedy")) == ([], "released")
    reason, message = found.why("greedy")
    assert reason == "NotPlaceable"
    assert message.endswith(": the planner's memory has no more room for waiting pods of its namespace")
    assert len(found.pinned("next")) == 2


@pytest.mark.parametrize(("forged", "held"), [(0, 4), (200, 16)])
def test_the_cards_of_a_pod_with_a_node_stay_held_while_its_namespace_fills_the_memory(forged: int, held: int) -> None:
    found = one_node()
    pod = found.create("holder", 4, gated=False)
    own = "".join(f"GPU-a.{card},NVIDIA,0,0:" for card in range(4))
    pod["metadata"]["annotations"] |= {
        "hami.io/vgpu-node": "a",
        "hami.io/vgpu-devices-allocated": own + names(0, forged),
    }
    pod["spec"]["nodeName"] = "a"
    found.tell("holder")
    found.replace_record("holder", shortened)
    found.create("next", 1)
    found.round()
    assert len(found.records["team/holder"].held) == held
    assert found.pinned("next") == ()


def test_a_list_of_cards_of_a_pod_without_a_node_is_not_kept_while_its_namespace_fills_the_memory() -> None:
    found = one_node()
    found.create("greedy", 1, gated=False)
    forged_cards(found.pods["greedy"], 0)
    found.tell("greedy")
    assert len(found.records["team/greedy"].held) == MOST_PARTS
    assert shortened(found.records["team/greedy"]).held == ()


def test_what_is_short_stays_as_it_is_when_it_is_shortened_again() -> None:
    found = one_node()
    for number, change in enumerate((fat_tolerations, forged_cards, long_choice)):
        change(found.create(f"pod-{number}", 1), number)
        found.tell(f"pod-{number}")
        short = shortened(found.records[f"team/pod-{number}"])
        assert shortened(short) == short


def test_a_pod_with_a_long_command_is_placed_as_one_without() -> None:
    found = one_node()
    pod = found.create("pod", 2, options={"require-nvlink": "true", "on-violation": "deny"})
    for change in (long_variable, long_command, managed_fields, last_applied):
        change(pod, 0)
    found.tell("pod")
    found.round()
    assert len(found.pinned("pod")) == 2


@pytest.mark.parametrize(("extra", "node"), [(0, "a"), (MOST_OF_NEEDS, None)])
def test_requirements_without_end_are_met_by_no_node_and_shorter_ones_by_their_own(
    extra: int, node: str | None
) -> None:
    found = one_node()
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["a", "x" * extra]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    found.create("pod", 1, affinity=affinity)
    found.round()
    assert bool(found.pinned("pod")) is (node is not None)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.parent.name)
def test_all_else_of_a_pod_is_kept(path: Path) -> None:
    pod = decode_stored_pod(msgspec.json.encode(yaml.safe_load(path.read_text(encoding="utf-8"))))
    kept = kept_pod(pod).pod
    assert kept.metadata == pod.metadata
    assert kept.status == pod.status
    _same(kept.spec, pod.spec)


def _same(kept: Any, whole: Any) -> None:
    assert (kept is None) is (whole is None)
    for field in whole.__struct_fields__ if whole is not None else ():
        mine, theirs = getattr(kept, field), getattr(whole, field)
        if field in LEFT_OUT:
            assert bytes(mine) == b""
        elif isinstance(theirs, list) and theirs and isinstance(theirs[0], Container):
            for one, other in zip(mine, theirs, strict=True):
                _same(one, other)
        else:
            assert mine == theirs, field


def test_the_size_of_what_is_kept_counts_towards_the_memory_for_pods() -> None:
    found = one_node()
    weights = []
    for number, annotation in enumerate(("", "x" * 100_000)):
        found.create(f"pod-{number}", 1, annotations={"gpu.topology/env.A": annotation})
        unbound = found.records[f"team/pod-{number}"].unbound
        weights.append(unbound.size if unbound else 0)
    assert weights[1] - weights[0] == 100_000


@pytest.mark.parametrize(("entries", "is_read"), [(MOST_OTHERS, True), (MOST_OTHERS + 1, False)])
def test_a_choice_is_read_up_to_its_limit(entries: int, is_read: bool) -> None:
    found = one_node()
    forged_choice(found.create("pod", 1), entries)
    found.tell("pod")
    assert pinned_cards(found.records["team/pod"]) == (("GPU-a.0",) if is_read else ())
