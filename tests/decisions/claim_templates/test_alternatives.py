"""What the alternatives of a claim promise: on no known node can one be satisfied by GPUs that are linked less."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hardware.topology.machines import (
    a100_pcie_bridged,
    bent,
    dgx1_v100,
    hgx_h100,
    l40s,
    with_switch_links,
    without,
)
from tests.hardware.topology.small_nodes import small_nodes
from webhook.decisions.claim_templates.alternatives import Alternative, find_alternatives
from webhook.decisions.claim_templates.selectors import MAX_BYTES, ByProduct, ByUuid
from webhook.hardware.topology.model import MigMode, NodeTopology, NvLink
from webhook.hardware.topology.selection.request import Constraints, Request
from webhook.hardware.topology.sets import LinkClass, assess

PRODUCTS = ("NVIDIA A", "NVIDIA B")


def linked(count: int, bandwidth: float = 0.0) -> Request:
    return Request(count=count, constraints=Constraints(require_nvlink=True, min_bandwidth=bandwidth))


def on(topology: NodeTopology, node: str) -> NodeTopology:
    gpus = tuple(replace(gpu, uuid=f"GPU-{node}-{gpu.index}") for gpu in topology.gpus)
    return replace(topology, node=node, gpus=gpus)


def unlinked(topology: NodeTopology) -> NodeTopology:
    return replace(topology, gpus=tuple(replace(gpu, nvlinks=()) for gpu in topology.gpus))


def satisfying(topology: NodeTopology, alternative: Alternative) -> list[int]:
    """The GPUs that the driver would publish and that satisfy the selector, as CEL reads it."""
    selector = alternative.selector
    found = []
    for gpu in topology.gpus:
        if gpu.mig_mode is MigMode.ENABLED:  # of another type
            continue
        if isinstance(selector, ByUuid):
            matches = gpu.uuid in selector.uuids
        else:
            matches = gpu.name == selector.product and gpu.uuid not in selector.without
            matches = matches and (not selector.bus_ids or gpu.pci_bus_id in selector.bus_ids)
        if matches:
            found.append(gpu.index)
    return found


def meets(topology: NodeTopology, gpus: Sequence[int], asked: Constraints) -> bool:
    found = assess(topology, gpus)
    return found.bandwidth >= asked.min_bandwidth and (found.every_pair_has_nvlink or not asked.require_nvlink)


@st.composite
def fleets(draw: st.DrawFn) -> list[NodeTopology]:
    """Nodes whose bus ids and products are the same or not, whatever their links are; some are built alike."""
    fleet: list[NodeTopology] = []
    for number in range(draw(st.integers(1, 4))):
        repeats = draw(st.booleans())
        like = draw(st.sampled_from(fleet) if fleet and repeats else small_nodes(most=5))
        buses = draw(st.permutations(range(6)) | st.just(tuple(range(6))))
        one_product = draw(st.booleans())
        gpus = tuple(
            replace(
                gpu,
                uuid=draw(
                    st.sampled_from(
                        [f"GPU-{number}-{place}"] * 4 + ["", "GPU-twice"] if place == 0 else [f"GPU-{number}-{place}"]
                    )
                ),
                pci_bus_id=f"0000:0{buses[place]}:00.0",
                name=PRODUCTS[0] if one_product else draw(st.sampled_from(PRODUCTS)),
            )
            for place, gpu in enumerate(like.gpus)
        )
        fleet.append(replace(like, node=f"node-{number}", gpus=gpus))
    return fleet


requests = st.builds(
    lambda count, nvlink, bandwidth: Request(
        count=count, constraints=Constraints(require_nvlink=nvlink, min_bandwidth=0.0 if nvlink else bandwidth)
    ),
    st.integers(2, 4),
    st.booleans(),
    st.sampled_from([10.0, 20.0, 24.0, 40.0]),
)


@settings(deadline=None)
@given(fleets(), requests)
def test_whatever_satisfies_an_alternative_is_linked_and_every_linked_set_is_in_one_or_told_of(
    fleet: list[NodeTopology], request: Request
) -> None:
    found = find_alternatives(fleet, request)
    every = [*found.alternatives, *found.left_out]
    ranks = [alternative.quality.rank for alternative in found.alternatives]
    assert ranks == sorted(ranks)
    assert len(ranks) <= 8
    for topology in fleet:
        usable = [gpu.index for gpu in topology.gpus if gpu.mig_mode is not MigMode.ENABLED]
        for alternative in every:
            matching = satisfying(topology, alternative)
            assert len(alternative.selector.expression) <= MAX_BYTES
            for chosen in combinations(matching, request.count):
                judged = assess(topology, chosen)
                assert meets(topology, chosen, request.constraints), (topology.node, chosen)
                assert judged.bandwidth >= alternative.quality.bandwidth
                assert tuple(matching) == alternative.reach[topology.node]
        if request.constraints.require_nvlink and topology.node not in found.nameless:
            for chosen in combinations(usable, request.count):
                if meets(topology, chosen, request.constraints):
                    assert any(set(chosen) <= set(each.reach.get(topology.node, ())) for each in every)


def test_nodes_of_one_model_share_their_alternatives() -> None:
    found = find_alternatives([on(dgx1_v100(), "a"), on(dgx1_v100(), "b")], linked(4))
    assert [dict(each.reach) for each in found.alternatives] == [
        {"a": (0, 1, 2, 3), "b": (0, 1, 2, 3)},
        {"a": (4, 5, 6, 7), "b": (4, 5, 6, 7)},
    ]
    assert all(isinstance(each.selector, ByProduct) for each in found.alternatives)


def test_islands_of_one_node_are_never_one_alternative() -> None:
    bare = replace(a100_pcie_bridged(), gpus=tuple(replace(gpu, pci_bus_id="") for gpu in a100_pcie_bridged().gpus))
    found = find_alternatives([on(bare, node) for node in "abc"], linked(2))
    assert [each.selector for each in found.alternatives] == [
        ByUuid(("GPU-a-0", "GPU-a-1", "GPU-b-0", "GPU-b-1", "GPU-c-0", "GPU-c-1")),
        ByUuid(("GPU-a-2", "GPU-a-3", "GPU-b-2", "GPU-b-3", "GPU-c-2", "GPU-c-3")),
    ]


def test_a_few_cards_with_the_same_bus_ids_and_no_links_are_excepted() -> None:
    found = find_alternatives([on(dgx1_v100(), "a"), on(unlinked(dgx1_v100()), "bare")], linked(4))
    selectors = [each.selector for each in found.alternatives]
    assert [isinstance(each, ByProduct) and each.without for each in selectors] == [
        tuple(f"GPU-bare-{index}" for index in range(4)),
        tuple(f"GPU-bare-{index}" for index in range(4, 8)),
    ]


def test_where_many_cards_have_the_same_bus_ids_and_no_links_uuids_name_the_linked_ones() -> None:
    bare = [on(unlinked(dgx1_v100()), f"bare-{number}") for number in range(40)]
    found = find_alternatives([on(dgx1_v100(), "a"), *bare], linked(4))
    assert [each.selector for each in found.alternatives] == [
        ByUuid(tuple(f"GPU-a-{index}" for index in range(4))),
        ByUuid(tuple(f"GPU-a-{index}" for index in range(4, 8))),
    ]


def test_another_product_with_the_same_bus_ids_does_not_matter() -> None:
    other = unlinked(replace(dgx1_v100(), gpus=tuple(replace(gpu, name="Other") for gpu in dgx1_v100().gpus)))
    found = find_alternatives([on(dgx1_v100(), "a"), on(other, "b")], linked(4))
    assert [dict(each.reach) for each in found.alternatives] == [{"a": (0, 1, 2, 3)}, {"a": (4, 5, 6, 7)}]
    assert all(isinstance(each.selector, ByProduct) and not each.selector.without for each in found.alternatives)


def test_a_node_that_only_hami_tells_of_could_have_any_cards_of_the_product() -> None:
    known = on(hgx_h100(), "a")
    told = tuple(
        replace(gpu, name=f"NVIDIA-{gpu.name}", pci_bus_id="", nvlinks=(), minor=None) for gpu in on(known, "b").gpus
    )
    found = find_alternatives([known, replace(known, node="b", source="hami", gpus=told)], linked(4))
    (one,) = found.alternatives
    assert isinstance(one.selector, ByProduct)
    assert one.selector.without == tuple(f"GPU-b-{index}" for index in range(8))


def test_nvswitches_need_only_the_product() -> None:
    (one,) = find_alternatives([on(hgx_h100(), "a"), on(hgx_h100(), "b"), on(l40s(), "c")], linked(4)).alternatives
    assert one.selector == ByProduct("NVIDIA H100 80GB HBM3")
    assert (one.quality.link, sorted(one.reach)) == (LinkClass.NVSWITCH, ["a", "b"])


def test_a_card_with_links_down_comes_last_and_makes_its_set_slower() -> None:
    weak = on(with_switch_links(hgx_h100(), 3, 9), "weak")
    fast, slow = find_alternatives([weak], linked(4)).alternatives
    assert fast.reach == {"weak": (0, 1, 2, 4, 5, 6, 7)}
    assert slow.reach == {"weak": tuple(range(8))}
    assert fast.quality.bandwidth == 2 * slow.quality.bandwidth
    assert [each.reach for each in find_alternatives([weak], linked(4, 300.0)).alternatives] == [fast.reach]


def test_mig_cards_and_lost_cards_are_left_out() -> None:
    sliced = bent(on(hgx_h100(), "sliced"), 5, mig_mode=MigMode.ENABLED)
    (one,) = find_alternatives([sliced], linked(4)).alternatives
    assert one.reach == {"sliced": (0, 1, 2, 3, 4, 6, 7)}
    (one,) = find_alternatives([without(on(hgx_h100(), "lost"), 5)], linked(4)).alternatives
    assert one.reach == {"lost": (0, 1, 2, 3, 4, 6, 7)}
    assert not find_alternatives([sliced], linked(8)).alternatives


def test_only_the_wanted_nodes_are_named_but_all_are_looked_at() -> None:
    found = find_alternatives([on(dgx1_v100(), "a"), on(unlinked(dgx1_v100()), "bare")], linked(4), {"a"})
    assert [list(each.reach) for each in found.alternatives] == [["a"], ["a"]]
    assert all(isinstance(each.selector, ByProduct) and each.selector.without for each in found.alternatives)
    assert not find_alternatives([on(dgx1_v100(), "a"), on(l40s(), "b")], linked(4), {"b"}).alternatives


def test_of_more_than_eight_those_without_common_cards_and_the_best_are_kept() -> None:
    found = find_alternatives([on(dgx1_v100(), "a")], linked(2))
    assert len(found.alternatives) == 8
    assert [each.reach["a"] for each in found.alternatives[:4]] == [(0, 3), (1, 2), (4, 7), (5, 6)]
    assert [each.reach["a"] for each in found.alternatives[-2:]] == [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert {each.reach["a"] for each in found.left_out} == {(2, 3), (6, 7), (2, 6), (3, 7)}


def test_sets_that_are_fast_only_as_a_whole_are_alternatives_of_exactly_their_cards() -> None:
    asked = Request(count=8, constraints=Constraints(min_bandwidth=15))
    (one,) = find_alternatives([on(dgx1_v100(), "a")], asked).alternatives
    assert (one.quality.link, one.reach) == (LinkClass.PARTIAL, {"a": tuple(range(8))})


def test_cards_that_cannot_be_named_are_told_of() -> None:
    bare = replace(dgx1_v100(), gpus=tuple(replace(gpu, pci_bus_id="", uuid="") for gpu in dgx1_v100().gpus))
    found = find_alternatives([bare], linked(4))
    assert (found.alternatives, found.nameless) == ((), ("dgx1-v100",))


def test_two_nodes_that_tell_the_same_uuids_are_not_named_by_them() -> None:
    bare = replace(dgx1_v100(), gpus=tuple(replace(gpu, pci_bus_id="") for gpu in dgx1_v100().gpus))
    found = find_alternatives([bare, replace(bare, node="other")], linked(4))
    assert (found.alternatives, found.nameless) == ((), ("dgx1-v100", "other"))


@pytest.mark.long
def test_links_that_no_machine_has_end_in_an_answer() -> None:
    # 3 ** 13 greatest groups: each GPU has links to all but two others.
    gpus = [
        replace(
            dgx1_v100().gpus[0],
            index=index,
            uuid=f"GPU-{index}",
            parent="",
            pci_bus_id=f"0000:{index:02x}:00.0",
            nvlinks=tuple(
                NvLink(target=f"GPU{other}", count=1, active=1) for other in range(39) if other // 3 != index // 3
            ),
        )
        for index in range(39)
    ]
    found = find_alternatives([NodeTopology(node="n", source="nvml", gpus=tuple(gpus))], linked(4))
    assert len(found.alternatives) == 8
