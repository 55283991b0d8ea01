"""What the page shows of an overview, as values."""

import re

import msgspec
import pytest

from tests.insight.page.overviews import NOT_INJECTED, ORDER, overview
from webhook.insight.overview.model import CardState, Health, Level, Overview, Pod
from webhook.insight.page.view import LEVELS, MOST_OF_A_CODE, View, colour, gathered, mark, slots, workload


def shown(found: Overview, query: str = "", most: int | None = None) -> View:
    return View(found, slots(found.pods, {}), query, most)


def numbers(found: Overview) -> dict[str, int]:
    return {name: number for name, number, _ in shown(found).numbers}


def named(pod: Pod, number: int) -> Pod:
    name = f"p-{number:04}"
    return msgspec.structs.replace(pod, key=f"team-a/{name}", namespace="team-a", name=name)


def test_no_two_pods_have_one_colour() -> None:
    colours = [colour(number) for number in range(3000)]
    assert len(set(colours)) == len(colours)
    few = [tuple(map(float, re.findall(r"[\d.]+", each))) for each in colours[:16]]
    for position, (light, _, hue) in enumerate(few):
        for other_light, _, other_hue in few[:position]:
            turn = abs(hue - other_hue)
            assert min(turn, 360 - turn) > 30 or abs(light - other_light) > 0.07


def test_a_pod_keeps_its_colour_when_others_come_and_go() -> None:
    one, two, three = (named(overview(1).pods[0], number) for number in range(3))
    before = slots([one, three], {})
    after = slots([two, three], before)
    assert after[three.key] == before[three.key]
    assert len({*slots([one, two, three], after).values()}) == 3


@pytest.mark.parametrize(
    ("owner", "name", "letters"),
    [
        ("Job train", "train-0", "tr"),
        ("Job llama-pretrain", "x", "lp"),
        ("", "a", "a"),
        ("", "---", ""),
        ("Job ", "eval-3", "e3"),
    ],
)
def test_a_workload_is_marked_by_two_letters(owner: str, name: str, letters: str) -> None:
    pod = msgspec.structs.replace(overview(2).pods[0], owner=owner, name=name)
    assert mark(pod) == letters
    assert workload(pod)


def test_nodes_that_lose_links_and_pods_with_errors_come_first() -> None:
    view = shown(overview(50))
    ranks = [each.rank for each in view.nodes]
    assert (ranks, ranks[0], ranks[-1]) == (sorted(ranks), 0, 3)
    levels = [min((list(Level).index(each.level) for each in pod.findings), default=9) for pod in view.pods]
    assert (levels, levels[0]) == (sorted(levels), 0)


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("GT104", lambda pod: any(each.code == "GT104" for each in pod.findings)),
        ("warning team-a", lambda pod: "team-a" in pod.key and any(each.level == "warning" for each in pod.findings)),
        ("LLAMA", lambda pod: "llama" in f"{pod.key} {pod.owner}"),
        ("gpu-00-03", lambda pod: pod.node == "gpu-00-03"),
        ("no-such-name", lambda _: False),
        (" ", lambda _: True),
    ],
)
def test_the_filter_keeps_what_has_each_of_its_words(query: str, kept: object) -> None:
    found = overview(50)
    view = shown(found, query)
    wanted = {pod.key for pod in found.pods if kept(pod)}  # type: ignore[operator]
    assert {pod.key for pod in view.pods} == wanted
    assert {each.node.name for each in view.nodes} >= {pod.node for pod in view.pods if pod.node}


def test_the_filter_dims_the_gpus_of_other_pods() -> None:
    found = overview(50)
    assert any("aside" in each.drawing.content for each in shown(found, "team-a").nodes)
    assert not any("aside" in each.drawing.content for each in shown(found).nodes)


def test_a_column_without_any_value_is_left_out() -> None:
    whole = shown(overview(16))
    assert whole.columns == {"profile", "bandwidth", "verified", "findings"}
    pods = tuple(pod for pod in overview(16).pods if pod.is_waiting)
    bare = tuple(msgspec.structs.replace(pod, profile="") for pod in pods)
    assert shown(Overview(at="", pods=bare)).columns == set()


def test_numbers_have_their_plural_and_say_what_there_is() -> None:
    assert numbers(overview(16))["GPUs"] == 120
    assert numbers(overview(16))["NVLinks down"] > 1
    one = overview(1)
    node = msgspec.structs.replace(one.nodes[0], cards=one.nodes[0].cards[:1])
    found = numbers(msgspec.structs.replace(one, nodes=(node,)))
    assert (found["Node"], found["GPU"], found["NVLinks down"], found["Pod waiting"]) == (1, 1, 0, 1)
    assert "Hints" not in found


def test_the_legend_has_what_there_is_and_nothing_else() -> None:
    view = shown(overview(16))
    cards = [card for node in overview(16).nodes for card in node.cards]
    legend = {words: number for _, words, number in view.legend}
    assert legend["broken"] == sum(card.health is Health.BROKEN for card in cards)
    assert legend["free"] == sum(card.state is CardState.FREE for card in cards)
    assert "holder not known" not in legend
    lines = {words: number for _, words, number in view.links}
    assert {"NVLinks to NVSwitches", "pairs with 1 NVLink", "nodes without NVLink", "NVLinks down"} < lines.keys()
    assert "nodes whose NVLinks are not known" not in lines
    unknown = msgspec.structs.replace(overview(1).nodes[0], nvlink="unknown", links=())
    assert shown(Overview(at="", nodes=(unknown,))).links == [("?", "nodes whose NVLinks are not known", 1)]


def test_a_gpu_that_no_pod_can_get_is_not_free() -> None:
    node = next(each for each in overview(16).nodes if any(card.health is Health.BROKEN for card in each.cards))
    cards = [msgspec.structs.replace(card, state=CardState.FREE, holders=()) for card in node.cards[4:]]
    cards[0] = msgspec.structs.replace(cards[0], health=Health.CORDONED)
    (found,) = shown(Overview(at="", nodes=(msgspec.structs.replace(node, cards=tuple(cards), links=()),))).nodes
    assert found.free == 2


@pytest.mark.parametrize(
    ("node", "waits_for", "expected"), [("", "", True), ("n", "its Binding to n", True), ("n", "", False)]
)
def test_a_pod_waits_until_it_is_bound(*, node: str, waits_for: str, expected: bool) -> None:
    pod = msgspec.structs.replace(overview(2).pods[0], node=node, waits_for=waits_for)
    assert bool(shown(Overview(at="", pods=(pod,))).waiting) is expected


def test_a_finding_of_several_objects_is_one_and_findings_of_two_objects_are_two() -> None:
    found = {(each.finding.code, each.objects) for each in gathered(overview(50))}
    (injected,) = (objects for code, objects in found if code == "GT104")
    assert len(injected) > 1
    about = [msgspec.structs.replace(ORDER, about=f"Namespace {team}") for team in ("team-a", "team-b")]
    assert len(list(gathered(Overview(at="", findings=tuple(about))))) == 2


def test_sentences_that_quote_thousands_of_pods_are_a_few_and_a_number() -> None:
    pods = tuple(
        msgspec.structs.replace(
            named(overview(1).pods[0], number), findings=(msgspec.structs.replace(NOT_INJECTED, text=f"{number}"),)
        )
        for number in range(3000)
    )
    found = list(gathered(Overview(at="", pods=pods, findings=(ORDER,))))
    assert [each.finding.code for each in found] == ["GT104"] * (MOST_OF_A_CODE + 1) + ["GT702"]
    assert (found[MOST_OF_A_CODE].unsaid, len(found[MOST_OF_A_CODE].objects)) == (2900, 2900)
    assert numbers(Overview(at="", pods=pods))["Errors"] == 3000


def test_every_level_has_its_word() -> None:
    assert LEVELS.keys() == set(Level) - {Level.NONE}
