"""Laws of the choice on one node: what a pod gets is no worse for it, and leaves no less to others, than other sets."""

from dataclasses import replace
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from tests.hardware.topology.small_nodes import small_nodes
from webhook.decisions.place.card_request import CardsAsked
from webhook.decisions.place.ranking import grade, rank_of
from webhook.decisions.place.world import Stock
from webhook.hardware.topology.model import MigMode, NodeTopology
from webhook.hardware.topology.planning.fleet import Build
from webhook.hardware.topology.selection.request import Constraints, Policy
from webhook.words.choices import NodePolicy, Objective

NEARLY = 0.002
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
    best = build.choice(free, count, asked.constraints)
    found = rank_of(Stock(build, free), asked)
    assert found
    given, left = found.choice, build.worth(free.difference(found.choice.gpus))

    assert set(given.gpus) <= free
    assert {unmet.constraint for unmet in given.unmet} == {unmet.constraint for unmet in best.unmet}
    assert left >= build.worth(free.difference(best.gpus)) - NEARLY, "the best set leaves more"
    if objective is Objective.BANDWIDTH:
        assert grade(given, asked) >= grade(best, asked)
        assert given.chosen.ring_bandwidth >= best.chosen.ring_bandwidth - NEARLY
    elif not best.unmet:
        alone = [build.choice(frozenset(gpus), count, asked.constraints) for gpus in combinations(sorted(free), count)]
        good = [each for each in alone if not each.unmet and grade(each, asked)[0] >= grade(best, asked)[0]]
        assert given.gpus in {each.gpus for each in good}
        assert left >= max(build.worth(free.difference(each.gpus)) for each in good) - NEARLY
