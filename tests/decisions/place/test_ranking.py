"""Laws of the choice on one node: what a pod gets is no worse for it, and leaves no less to others, than other sets."""

import random
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.decisions.place.cluster import PlacedCluster, named
from tests.hardware.topology.machines import dgx1_v100
from tests.hardware.topology.small_nodes import small_nodes
from webhook.decisions.place.card_request import CardsAsked
from webhook.decisions.place.ranking import grade, rank_of, request_of
from webhook.decisions.place.world import Stock
from webhook.hardware.topology.model import MigMode, NodeTopology
from webhook.hardware.topology.planning.fleet import Build
from webhook.hardware.topology.selection.choice import Choice
from webhook.hardware.topology.selection.request import Constraints, Policy
from webhook.words.choices import NodePolicy, Objective

ASKED = CardsAsked(
    count=1,
    linked=True,
    constraints=Constraints(),
    policy=Policy.BEST_FIT,
    node_policy=NodePolicy.BEST_FIT,
    objective=Objective.BANDWIDTH,
    one_numa_node=False,
    types=(),
    not_types=(),
)
constraints = st.builds(
    Constraints, require_nvlink=st.booleans(), min_bandwidth=st.sampled_from([0.0, 0.0, 40.0]), same_numa=st.booleans()
)


@given(topology=small_nodes(), data=st.data(), asked=st.builds(replace, st.just(ASKED), constraints=constraints))
def test_the_chosen_set_keeps_what_the_pod_wants_and_leaves_most(
    topology: NodeTopology, data: st.DataObject, asked: CardsAsked
) -> None:
    usable = [gpu.index for gpu in topology.gpus if gpu.mig_mode is not MigMode.ENABLED]
    if not usable:
        return
    free = frozenset(data.draw(st.sets(st.sampled_from(usable), min_size=1), label="free"))
    count = data.draw(st.integers(1, len(free)), label="count")
    objective = data.draw(st.sampled_from(Objective), label="objective")
    asked = replace(asked, count=count, linked=count > 1, objective=objective)
    build = Build(topology)
    found = rank_of(Stock(build, free), asked)
    assert found
    assert set(found.choice.gpus) <= free

    def value(choice: Choice) -> tuple[object, ...]:
        met = [constraint not in {unmet.constraint for unmet in choice.unmet} for constraint in asked.constraints.asked]
        left = round(build.worth(free.difference(choice.gpus)), 3)
        link, bandwidth = grade(choice, asked)
        if not asked.linked:
            return met, left
        if objective is Objective.LINKED:
            return met, link, left, bandwidth
        return met, link, bandwidth, round(choice.chosen.ring_bandwidth, 3), left

    sets = [frozenset(gpus) for gpus in combinations(sorted(free), count)]
    assert value(found.choice) == max(value(build.choice(gpus, request_of(asked))) for gpus in sets)


@pytest.mark.parametrize("seed", range(4))
def test_of_equal_nodes_the_first_name_is_chosen_whatever_happened_before(seed: int) -> None:
    names = [f"n{number}" for number in range(6)]
    cluster = PlacedCluster(*(named(dgx1_v100(), name) for name in names))
    order = random.Random(seed).sample(names, len(names))
    for name in order:
        # Three pairs of links alike are free, on nodes with different cards in use.
        pair = ((0, 3), (1, 2), (4, 7))[int(name[1]) % 3]
        cluster.create(f"holds-{name}", 6, gated=False)
        cluster.give(f"holds-{name}", name, tuple(f"GPU-{name}.{card}" for card in range(8) if card not in pair))
    cluster.create("train", 2)
    cluster.round()
    assert cluster.cards("train") == ["n0:0", "n0:3"]
