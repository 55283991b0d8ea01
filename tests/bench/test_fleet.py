"""The simulation of a fleet: what it holds to, whoever gives the cards."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.fleet.arrivals import MIXES, Job, arrivals
from bench.fleet.cluster import Cluster, GivenTwiceError, Node, Pod, cluster_of
from bench.fleet.comparison import Scale, compare
from bench.fleet.contenders import HAMI, ORACLE, Maker, contenders
from bench.fleet.figures import figures_of
from bench.fleet.hami import HamiAlone, Policy
from bench.fleet.links import Links
from bench.fleet.machines import FLEETS, nodes_of
from bench.fleet.ours import Settings
from bench.fleet.simulation import Measured, Run, run
from bench.fleet.table import table_of
from tests.hardware.topology.machines import a100_pcie_bridged, dgx1_v100, hgx_a100

MAKERS = contenders(Settings(), ("bandwidth", "linked"))
OF_SLICES = contenders(Settings(), ("bandwidth",), has_slices=True)
DENYING = contenders(Settings(violation="deny"), ("bandwidth",))
PLANNERS = [name for name in MAKERS if not name.startswith(HAMI)]


KNOWN: dict[object, Links] = {}


def simulated(
    name: str, jobs: Sequence[Job], fleet: str = "a100-4x2", nodes: int = 3, makers: Mapping[str, Maker] = MAKERS
) -> tuple[Run, Cluster]:
    cluster = cluster_of(nodes_of(fleet, nodes), KNOWN)
    return run(cluster, jobs, makers[name](cluster, 1)), cluster


def one(number: int, at: float, cards: int, *, life: float = 100.0, pods: int = 1, memory: int = 100) -> Job:
    return Job(number, at, cards, life, (2.5,) * pods, memory)


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


@pytest.mark.parametrize(("mix", "makers"), [("pairs-quads", MAKERS), ("slices", OF_SLICES)])
def test_equal_seeds_have_equal_results_and_others_do_not(mix: str, makers: Mapping[str, Maker]) -> None:
    for name in (next(iter(makers)), [*makers][-1]):
        first, again, other = (simulated(name, some(mix, seed=seed), makers=makers)[0] for seed in (5, 5, 6))
        assert [pod.grade for pod in first.pods] == [pod.grade for pod in again.pods]
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


@pytest.mark.parametrize("mix", ["pairs-quads", "slices"])
def test_the_load_is_that_of_the_cards(mix: str) -> None:
    jobs = arrivals(MIXES[mix], pods=4000, cards=160, largest=8, load=0.7, seed=1)
    used = sum(job.cards * job.memory / 100 * job.life * len(job.locks) for job in jobs)
    assert used / (160 * jobs[-1].at) == pytest.approx(0.7, rel=0.1)


def test_a_comparison_has_a_line_for_each_contender() -> None:
    scale = Scale(pods=20, nodes=3, seeds=2, load=0.8)
    found = compare("hgx", "gangs", MAKERS, scale)
    assert [*found.figures] == [*MAKERS]
    assert table_of(found).row_count == len(MAKERS)
    assert all(0 < each.share <= 1 for each in found.figures.values())
    less = compare("hgx", "gangs", MAKERS, replace(scale, seeds=1))
    assert less.figures[ORACLE].waits.pods < found.figures[ORACLE].waits.pods


class Watched:
    """A contender whose gifts are added up after each moment, pod by pod."""

    def __init__(self, inner: Measured) -> None:
        self._inner, self._pods, self.cpu = inner, list[Pod](), 0.0
        self.most_pods = 0
        """The most pods that shared a card."""

    def came(self, pods: Sequence[Pod]) -> None:
        self._pods += pods
        self._inner.came(pods)

    def ended(self, pods: Sequence[Pod]) -> None:
        self._inner.ended(pods)

    def unlocked(self, node: Node) -> None:
        self._inner.unlocked(node)

    def act(self) -> None:
        self._inner.act()
        given = [((pod.node, card), pod.job.memory) for pod in self._pods for card in pod.cards]
        memory, pods = Counter[object](), Counter(card for card, _ in given)
        for card, part in given:
            memory[card] += part
        assert max(memory.values(), default=0) <= 100
        self.most_pods = max(self.most_pods, *pods.values(), 0)
        assert self.most_pods <= 10


def test_no_card_has_more_memory_given_than_it_has(subtests: pytest.Subtests) -> None:
    small = [one(number, 100.0 * number, 1, life=5000.0, memory=5) for number in range(40)]
    for name, maker in OF_SLICES.items():
        for jobs in (some("slices"), small):
            with subtests.test(name, jobs=len(jobs)):
                cluster = cluster_of(nodes_of("mixed", 4)[-1:], KNOWN)
                watched = Watched(maker(cluster, 1))
                done = run(cluster, jobs, watched)
                assert all(pod.running is not None for pod in done.pods)
                assert watched.most_pods > 1
                assert all(len(node.free) == node.links.count for node in cluster.nodes)


def test_a_slice_is_given_only_where_there_is_room_for_it() -> None:
    (node,) = (cluster := cluster_of(nodes_of("a100-2x2", 1), {})).nodes
    first, second = (Pod(one(number, 0.0, 1, memory=45), 0) for number in range(2))
    cluster.take(first, node, (0,))
    cluster.take(second, node, (0,))
    with pytest.raises(GivenTwiceError, match="job-2-0"):
        cluster.take(Pod(one(2, 0.0, 1, memory=11), 0), node, (0,))
    cluster.take(Pod(one(3, 0.0, 1, memory=10), 0), node, (0,))
    cluster.give_back([first])
    assert 0 not in node.free
    with pytest.raises(GivenTwiceError, match="job-4-0"):
        cluster.take(Pod(one(4, 0.0, 1), 0), node, (0,))
    cluster.take(Pod(one(5, 0.0, 1), 0), node, (1,))
    assert node.free == {2, 3}


WHOLE = [100]
SLICES_OF_HAMI = {
    "spread-takes-an-idle-card": (Policy.BINPACK, [[10], [], WHOLE, WHOLE], 1, {1}),
    "binpack-takes-a-shared-card": (Policy.BINPACK_CARDS, [[10], [], WHOLE, WHOLE], 1, {0}),
    "spread-counts-pods-and-memory": (Policy.BINPACK, [[45], [10, 10, 10], WHOLE, WHOLE], 1, {0}),
    "binpack-counts-pods-and-memory": (Policy.BINPACK_CARDS, [[45], [10, 10, 10], WHOLE, WHOLE], 1, {1}),
    "binpack-passes-over-a-card-without-memory": (Policy.BINPACK_CARDS, [[45, 45], [10], WHOLE, WHOLE], 1, {1}),
    "binpack-passes-over-a-card-with-ten-pods": (Policy.BINPACK_CARDS, [[5] * 10, [10], WHOLE, WHOLE], 1, {1}),
    "spread-takes-the-two-least-used": (Policy.BINPACK, [[10], [], [10], []], 2, {1, 3}),
    "binpack-takes-the-two-most-used": (Policy.BINPACK_CARDS, [[10], [], [10], []], 2, {0, 2}),
    "topology-aware-takes-a-bridge": (Policy.TOPOLOGY_AWARE, [[10], [10], [], WHOLE], 2, {0, 1}),
    "there-is-no-room": (Policy.BINPACK, [[85], [85], WHOLE, WHOLE], 1, set[int]()),
}


@pytest.mark.parametrize(("policy", "parts", "count", "expected"), SLICES_OF_HAMI.values(), ids=SLICES_OF_HAMI)
def test_hami_gives_slices_by_its_policy_of_cards(
    policy: Policy, parts: Sequence[Sequence[int]], count: int, expected: set[int]
) -> None:
    (node,) = (cluster := cluster_of(nodes_of("a100-2x2", 1), KNOWN)).nodes
    for card, memories in enumerate(parts):
        for memory in memories:
            cluster.take(Pod(one(0, 0.0, 1, memory=memory), 0), node, (card,))
    pod = Pod(one(1, 0.0, count, memory=25 if count == 1 else 45), 0)
    hami = HamiAlone(cluster, policy, 1)
    hami.came([pod])
    hami.act()
    assert set(pod.cards) == expected


def test_hami_fills_the_node_that_is_used_most_by_slices_too() -> None:
    for policy, expected in ((Policy.BINPACK, "node-01"), (Policy.SPREAD, "node-00")):
        cluster = cluster_of(nodes_of("a100-2x2", 2), KNOWN)
        cluster.take(Pod(one(0, 0.0, 1, memory=10), 0), cluster.nodes[1], (0,))
        hami, pod = HamiAlone(cluster, policy, 1), Pod(one(1, 0.0, 2), 0)
        hami.came([pod])
        hami.act()
        assert pod.node
        assert pod.node.name == expected


def test_slices_leave_idle_cards_to_others_if_the_planner_chooses_them() -> None:
    jobs = [one(number, 10.0 * number, 1, memory=10) for number in range(5)]
    free = {name: simulated(name, jobs, makers=OF_SLICES)[0].samples[-1].free for name in OF_SLICES}
    assert free["ours bandwidth slices"] == free[ORACLE] == free["hami binpack-cards"] == 23
    assert free["ours bandwidth"] == free["hami binpack"] == 20


def test_the_planner_knows_how_much_of_a_card_slices_leave() -> None:
    jobs = [one(number, 10.0 * number, 1, memory=45) for number in range(6)]
    done, _ = simulated("ours bandwidth slices", jobs, makers=OF_SLICES)
    assert [(pod.running or 0.0) - pod.job.at for pod in done.pods] == [2.5] * 6
    assert done.samples[-1].free == 21


def test_slices_of_two_cards_get_a_bridge_if_the_planner_chooses_them() -> None:
    jobs = [one(number, 10.0 * number, 2, memory=45) for number in range(24)]
    made = {name: figures_of([simulated(name, jobs, makers=OF_SLICES)[0]]).slices for name in OF_SLICES}
    shares = {name: found.linked for name, found in made.items() if found}
    assert shares["ours bandwidth slices"] == shares[ORACLE] == 1.0
    assert max(shares["ours bandwidth"], shares["hami binpack"]) < 1.0


def test_slices_have_figures_of_their_own() -> None:
    parts = [one(number, 10.0 * number, max(1, number), memory=25) for number in range(3)]  # the first does not count
    found = figures_of([simulated(ORACLE, [*parts, one(3, 40.0, 4)])[0]])
    assert found.slices
    assert ([*found.by_size], [*found.slices.by_size], found.waits.pods) == ([4], [1, 2], 3)
    assert figures_of([simulated(ORACLE, some("gangs"))[0]]).slices is None
    table = table_of(compare("hgx", "slices", OF_SLICES, Scale(pods=40, nodes=3, seeds=1, load=0.8)))
    headings = [str(column.header) for column in table.columns]
    assert table.row_count == len(OF_SLICES)
    assert headings[headings.index("slices linked") :][:4] == ["slices linked", "weakest", "1 slices", "2 slices"]
