"""Which GPUs a job would get, and why, in words."""

from dataclasses import replace

from tests.topology.machines import dgx1_v100, h20, l40s
from webhook.draw.choices import chosen_text, plan_text
from webhook.topology.planning.plan import Plan, PlanRequest, plan
from webhook.topology.selection.request import Constraints, NodeFree, Request, Weights
from webhook.topology.selection.select import Choice, select


def chosen(request: Request) -> Choice:
    found = select(dgx1_v100(), request)
    assert isinstance(found, Choice)
    return found


def lines(choice: Choice, request: Request) -> list[str]:
    return chosen_text("node-1", choice, request.constraints, request.scored_by).plain.splitlines()


def test_what_is_lost_beside_an_idle_node_is_said() -> None:
    request = Request(count=2, busy=frozenset({0, 1, 2, 4, 7}))
    found = lines(chosen(request), request)
    assert found[0].startswith("node-1  GPU5, GPU6  NVLink: ")
    assert not any(line.startswith("  loss") for line in found)
    request = Request(count=2, busy=frozenset({0, 2, 4, 6, 7}))
    found = lines(replace(chosen(request), loss=0.25), request)
    assert found[-1] == "  loss         25% of the ring bandwidth that the best set of this size has on the idle node"


def test_a_search_that_left_sets_out_says_so() -> None:
    request = Request(count=2)
    found = lines(replace(chosen(request), exact=False), request)
    assert found[-1] == "  search       not all sets were tried, there are too many: a better one may exist"


def test_only_constraints_that_hold_are_called_met() -> None:
    request = Request(count=8, constraints=Constraints(require_nvlink=True, min_bandwidth=5))
    found = lines(chosen(request), request)
    assert "  meets        min-bandwidth" in found


def test_the_score_shows_each_term_with_its_weight() -> None:
    request = Request(count=2, constraints=Constraints(require_nvlink=True))
    assert lines(chosen(request), request)[-1] == (
        "  score        1.00 of 1: weakest pair 1.00 x 0.35, narrowest GPU 1.00 x 0.10, mean pair 1.00 x 0.05, "
        "class 1.00 x 0.25, NUMA nodes 1.00 x 0.15, memory 1.00 x 0.10"
    )


def test_weights_are_shown_as_shares_of_the_score() -> None:
    weights = Weights(weakest=3, narrowest=0, mean=0, link=1, numa=0, memory=0)
    request = Request(count=2, weights=weights)
    found = lines(chosen(request), request)
    assert "  score        1.00 of 1: weakest pair 1.00 x 0.75, class 1.00 x 0.25" in found


def test_a_job_on_one_node_needs_no_network() -> None:
    found = plan([NodeFree(h20()), NodeFree(l40s())], PlanRequest(count=3))
    assert isinstance(found, Plan)
    text = plan_text(found, Constraints()).plain
    assert text.startswith("3 GPUs on 1 node  ring ")
    assert "network" not in text


def test_each_node_of_a_job_says_how_the_ring_goes_through_it() -> None:
    found = plan([NodeFree(h20()), NodeFree(replace(h20(), node="h20-node-2"))], PlanRequest(count=16))
    assert isinstance(found, Plan)
    blocks = plan_text(found, Constraints()).plain.split("\n\n")
    assert [block.split()[0] for block in blocks] == ["16", "h20-node-1", "h20-node-2"]
    for block in blocks[1:]:
        last = block.splitlines()[-1]
        assert last.startswith("  network      ")
        assert ", in through ibp" in last


def test_a_single_gpu_has_no_ring_to_promise() -> None:
    found = plan([NodeFree(h20())], PlanRequest(count=1))
    assert isinstance(found, Plan)
    assert plan_text(found, Constraints()).plain.splitlines()[0] == "1 GPU on 1 node"
