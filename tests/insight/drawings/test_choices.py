"""Which GPUs a job would get, and why, in sentences and tables."""

from dataclasses import replace

from tests.hardware.topology.machines import bent, dgx1_v100, h20
from webhook.hardware.topology.planning.plan import Plan, PlanRequest, plan
from webhook.hardware.topology.selection.choice import Choice, select
from webhook.hardware.topology.selection.request import Constraints, NodeFree, Request
from webhook.insight.drawings.choices import chosen_text, plan_text

MODEL = ("Tesla V100-SXM2-32GB",)


def chosen(request: Request) -> Choice:
    found = select(dgx1_v100(), request)
    assert isinstance(found, Choice)
    return found


def lines(choice: Choice, request: Request) -> list[str]:
    return chosen_text("node-1", MODEL, choice, request.constraints).plain.splitlines()


def planned(*nodes: NodeFree, request: PlanRequest) -> str:
    found = plan(nodes, request)
    assert isinstance(found, Plan)
    return plan_text(found, request.constraints).plain


def test_what_is_lost_beside_an_idle_node_is_said() -> None:
    request = Request(count=2, busy=frozenset({0, 1, 2, 4, 7}))
    found = lines(chosen(request), request)
    assert found[-1] == "No 2 GPUs of this node have faster rings, even if all are free."
    request = Request(count=2, busy=frozenset({0, 2, 4, 6, 7}))
    found = lines(replace(chosen(request), loss=0.25), request)
    assert found[-1] == "The best 2 GPUs of the idle node have more: 25% of their ring bandwidth is lost here."


def test_the_weakest_pair_is_compared_with_the_best_of_the_node() -> None:
    request = Request(count=2)
    assert "No pair of GPUs of this node is faster than their weakest pair." in lines(chosen(request), request)
    request = Request(count=4, busy=frozenset({0, 5}))
    said = "Their weakest pair has 50% of the bandwidth of the best pair of this node."
    assert said in lines(chosen(request), request)


def test_a_search_that_left_sets_out_says_so() -> None:
    request = Request(count=2)
    found = lines(replace(chosen(request), exact=False), request)
    assert found[-1] == "Not all sets were tried, there are too many: a better one may exist."


def test_only_constraints_that_hold_are_called_met() -> None:
    request = Request(count=8, constraints=Constraints(require_nvlink=True, min_bandwidth=5))
    assert "They meet min-bandwidth." in lines(chosen(request), request)
    request = Request(count=2, constraints=Constraints(require_nvlink=True, min_bandwidth=5))
    assert "They meet require-nvlink and min-bandwidth." in lines(chosen(request), request)


def test_a_job_over_several_nodes_is_a_table_with_the_way_through_each() -> None:
    twin = replace(h20(), node="h20-node-2")
    text = planned(NodeFree(h20()), NodeFree(twin), request=PlanRequest(count=16))
    head, table, ways = text.split("\n\n")
    ring = (
        "A ring over all of them carries about 120 GB/s, an all-reduce about 64 GB/s: "
        "the networks of nodes h20-node-1 and h20-node-2 carry no more."
    )
    assert head.splitlines() == [
        "A job of 16 GPUs gets 8 of node h20-node-1 and 8 of node h20-node-2.",
        ring,
    ]
    assert table.splitlines() == [
        "node        GPUs  model       links     weakest pair  ring        network   NUMA",
        "h20-node-1  0-7   NVIDIA H20  NVSwitch  370.8 GB/s    370.8 GB/s  120 GB/s  0, 1",
        "h20-node-2  0-7   NVIDIA H20  NVSwitch  370.8 GB/s    370.8 GB/s  120 GB/s  0, 1",
    ]
    for node, way in zip(("h20-node-1", "h20-node-2"), ways.splitlines(), strict=True):
        assert way.startswith(f"The ring passes node {node} in the order ")
    assert all(", in through ibp" in way and " and out through ibp" in way for way in ways.splitlines())


def test_models_that_are_mixed_are_warned_of() -> None:
    text = planned(NodeFree(h20()), NodeFree(dgx1_v100()), request=PlanRequest(count=16))
    said = "Mixed models: NVIDIA H20 and Tesla V100-SXM2-32GB. A job that works in step is as slow as its slowest GPU."
    assert said in text.splitlines()
    twin = replace(h20(), node="h20-node-2")
    assert "Mixed" not in planned(NodeFree(h20()), NodeFree(twin), request=PlanRequest(count=16))


def test_models_that_are_mixed_on_one_node_are_warned_of_and_unknown_ones_are_not() -> None:
    mixed = bent(h20(), 3, name="NVIDIA H800")
    text = planned(NodeFree(mixed), request=PlanRequest(count=8))
    assert "of node h20-node-1 (NVIDIA H20 and NVIDIA H800)." in text
    assert "Mixed models: NVIDIA H20 and NVIDIA H800." in text
    unknown = bent(h20(), 3, name="")
    text = planned(NodeFree(unknown), request=PlanRequest(count=8))
    assert "of node h20-node-1 (NVIDIA H20)." in text
    assert "Mixed" not in text


def test_what_holds_the_ring_back_is_named() -> None:
    nodes = (NodeFree(h20()), NodeFree(dgx1_v100()))
    assert "the network of node dgx1-v100 carries no more" in planned(*nodes, request=PlanRequest(count=16))
    fast = PlanRequest(count=16, network_bandwidth=500.0)
    assert "the links of node dgx1-v100 carries no more" not in planned(*nodes, request=fast)
    assert "the links of node dgx1-v100 carry no more" in planned(*nodes, request=fast)


def test_constraints_and_losses_of_several_nodes_are_said_of_each() -> None:
    met = PlanRequest(count=16, constraints=Constraints(require_nvlink=True))
    twin = replace(h20(), node="h20-node-2")
    assert planned(NodeFree(h20()), NodeFree(twin), request=met).endswith("They meet require-nvlink on each node.")
    busy = planned(
        NodeFree(dgx1_v100(), frozenset({0, 3})),
        NodeFree(replace(dgx1_v100(), node="other"), frozenset({1, 4, 6})),
        request=PlanRequest(count=11),
    )
    assert "of the ring bandwidth of the best 6 GPUs is lost, because others hold some." in busy


def test_a_single_gpu_has_no_ring_to_promise() -> None:
    text = planned(NodeFree(h20()), request=PlanRequest(count=1))
    assert text.splitlines()[:2] == [
        "A job of 1 GPU gets GPU0 of node h20-node-1 (NVIDIA H20).",
        "single: one GPU, nothing to link.",
    ]
    assert "ring" not in text
