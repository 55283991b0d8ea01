"""The simulation of a fleet: what it holds to, whoever gives the cards."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.fleet.arrivals import MIXES, Job, arrivals
from bench.fleet.cluster import Cluster, GivenTwiceError, Pod, cluster_of
from bench.fleet.comparison import Scale, compare
from bench.fleet.contenders import HAMI, ORACLE, Maker, contenders
from bench.fleet.figures import figures_of
from bench.fleet.links import Links
from bench.fleet.machines import FLEETS, nodes_of
from bench.fleet.ours import Settings
from bench.fleet.simulation import Run, run
from bench.fleet.table import table_of
from tests.hardware.topology.machines import a100_pcie_bridged, dgx1_v100, hgx_a100

MAKERS = contenders(Settings(), ("bandwidth", "linked"))
DENYING = contenders(Settings(violation="deny"), ("bandwidth",))
PLANNERS = [name for name in MAKERS if not name.startswith(HAMI)]


KNOWN: dict[object, Links] = {}


def simulated(
    name: str, jobs: Sequence[Job], fleet: str = "a100-4x2", nodes: int = 3, makers: Mapping[str, Maker] = MAKERS
) -> tuple[Run, Cluster]:
    cluster = cluster_of(nodes_of(fleet, nodes), KNOWN)
    return run(cluster, jobs, makers[name](cluster, 1)), cluster


def one(number: int, at: float, cards: int, *, life: float = 100.0, pods: int = 1) -> Job:
    return Job(number, at, cards, life, (2.5,) * pods)


def some(mix: str, *, seed: int = 3) -> list[Job]:
    return arrivals(MIXES[mix], pods=40, cards=24, largest=8, load=0.9, seed=seed)


def test_every_pod_gets_its_cards_and_every_card_comes_back(subtests: pytest.Subtests) -> None:
    for name in MAKERS:
        with subtests.test(name):
            jobs = some("skewed")
            done, cluster = simulated(name, jobs, "mixed", nodes=4)
            assert len(done.pods) == len(jobs)
            assert all(pod.running is not None and pod.running > pod.job.at for pod in done.pods)
            assert all(len(node.free) == node.links.count and not node.locked for node in cluster.nodes)


def test_a_card_that_a_pod_has_is_given_to_no_other() -> None:
    (node,) = (cluster := cluster_of(nodes_of("a100-2x2", 1), {})).nodes
    cluster.take(Pod(one(0, 0.0, 2), 0), node, (0, 1))
    with pytest.raises(GivenTwiceError, match="job-1-0"):
        cluster.take(Pod(one(1, 0.0, 2), 0), node, (1, 2))
    cluster.take(Pod(one(2, 0.0, 2), 0), node, (2, 3))


def test_a_node_binds_no_pod_while_it_is_locked() -> None:
    jobs = [one(number, 0.0, 1) for number in range(8)]
    for name in MAKERS:
        done, _ = simulated(name, jobs, nodes=1)
        began = sorted(pod.running or 0.0 for pod in done.pods)
        assert all(later - earlier >= 2.5 for earlier, later in pairwise(began)), name


def test_a_pod_that_fits_an_idle_cluster_waits_for_one_lock_only(subtests: pytest.Subtests) -> None:
    for name in MAKERS:
        for cards in (1, 2, 4, 8):
            with subtests.test(name, cards=cards):
                done, _ = simulated(name, [one(0, 7.0, cards)])
                assert [pod.running for pod in done.pods] == [9.5]


def test_a_pod_waits_while_its_cards_are_in_use(subtests: pytest.Subtests) -> None:
    for name in MAKERS:
        with subtests.test(name):
            done, _ = simulated(name, [one(0, 0.0, 8, life=1000.0), one(1, 5.0, 8)], nodes=1)
            assert [pod.running for pod in done.pods] == [2.5, 1005.0]


def test_equal_seeds_have_equal_results_and_others_do_not() -> None:
    for name in MAKERS:
        first, again, other = (simulated(name, some("pairs-quads", seed=seed))[0] for seed in (5, 5, 6))
        assert [pod.running for pod in first.pods] == [pod.running for pod in again.pods]
        assert [pod.running for pod in first.pods] != [pod.running for pod in other.pods]


def test_all_pods_of_a_group_get_cards_or_none_does(subtests: pytest.Subtests) -> None:
    jobs = [one(0, 0.0, 6, life=500.0), one(1, 5.0, 6, pods=4), one(2, 6.0, 2, life=50.0)]
    for name in (ORACLE, "ours bandwidth"):
        with subtests.test(name):
            done, _ = simulated(name, jobs, nodes=4, makers=DENYING)
            assert min(pod.running or 0.0 for pod in done.pods if pod.job.number == 1) > 500
    for name, is_whole in (("hami binpack", False), ("ours bandwidth", True)):
        with subtests.test(name, violation="warn"):
            done, _ = simulated(name, jobs, nodes=4)
            first = min(pod.running or 0.0 for pod in done.pods if pod.job.number == 1)
            assert (first > 500) == is_whole


def test_the_oracle_and_the_planner_give_a_pair_its_bridge_where_hami_may_not() -> None:
    jobs = [one(number, 10.0 * number, 2) for number in range(24)]
    shares = {name: figures_of([simulated(name, jobs)[0]]).linked for name in MAKERS}
    assert all(shares[name] == 1.0 for name in PLANNERS)
    assert shares["hami topology-aware"] == 1.0
    assert shares["hami binpack"] < 1.0


def test_the_oracle_never_gives_a_first_pod_less_than_another_contender(subtests: pytest.Subtests) -> None:
    for fleet in FLEETS:
        for cards in (2, 4):
            grades = {name: simulated(name, [one(0, 0.0, cards)], fleet)[0].pods[0].grade for name in MAKERS}
            with subtests.test(fleet, cards=cards):
                assert grades[ORACLE] == max(grades.values())
                assert grades["ours bandwidth"] == grades[ORACLE]


@given(free=st.frozensets(st.integers(0, 7), min_size=2), cards=st.sampled_from((2, 4)))
def test_the_best_set_is_no_worse_than_any_other(free: frozenset[int], cards: int) -> None:
    links = MESH
    if len(free) < cards:
        assert links.best_grade(free, cards) == (0.0, 0.0)
        return
    rank, best = links.choice(free, cards)
    assert set(best) <= free
    assert rank[:2] == links.grade(best) == links.best_grade(free, cards)
    assert all(links.grade(other) <= links.grade(best) for other in combinations(sorted(free), cards))
    assert links.damage(free, best) >= 0


MESH = Links(dgx1_v100())


def test_fragments_are_linked_sets_that_can_be_given_at_once() -> None:
    bridged = Links(a100_pcie_bridged())
    assert bridged.fragments(frozenset({0, 1, 2, 3}), 2) == 2
    assert bridged.fragments(frozenset({0, 2}), 2) == 0
    assert bridged.fragments(frozenset({0, 1, 2, 3}), 4) == 0
    assert Links(hgx_a100()).fragments(frozenset(range(7)), 4) == 1


def test_the_load_is_that_of_the_cards() -> None:
    jobs = arrivals(MIXES["pairs-quads"], pods=4000, cards=160, largest=8, load=0.7, seed=1)
    used = sum(job.cards * job.life * len(job.locks) for job in jobs)
    assert used / (160 * jobs[-1].at) == pytest.approx(0.7, rel=0.1)


def test_a_comparison_has_a_line_for_each_contender() -> None:
    scale = Scale(pods=20, nodes=3, seeds=2, load=0.8)
    (found,) = compare(["hgx"], ["gangs"], MAKERS, scale)
    assert [*found.figures] == [*MAKERS]
    assert table_of(found).row_count == len(MAKERS)
    assert all(0 < each.share <= 1 for each in found.figures.values())
    few = replace(scale, seeds=1)
    (less,) = compare(["hgx"], ["gangs"], MAKERS, few)
    assert less.figures[ORACLE].waits.pods < found.figures[ORACLE].waits.pods
