"""Answers to kube-scheduler, by hand from its extender/v1/types.go. Whatever goes wrong, all nodes pass."""

import asyncio
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from tests.control_plane.hami.nodes import node_manifest
from tests.programs.planner.extender.scene import PAIRS, WHOLE, Scene, denying, pod, question
from webhook.objects.extender import MOST_NODES, MalformedQuestion
from webhook.objects.pod import Namespace
from webhook.programs.planner.extender import answers as module
from webhook.programs.planner.extender.application import BODY_BYTES
from webhook.programs.planner.extender.knowledge import AGAIN_SECONDS

BROKEN = "GT692: no 2 free cards with NVLink between every pair"
NEVER = "GT693: the node has no 3 cards with NVLink between every pair"
ALL: dict[str, Any] = {
    "Nodes": None,
    "NodeNames": ["pairs", "whole"],
    "FailedNodes": {},
    "FailedAndUnresolvableNodes": {},
    "Error": "",
}
NO_SCORES = [{"Host": "pairs", "Score": 0}, {"Host": "whole", "Score": 0}]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path).filled()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AGAIN_SECONDS", 0.001)


def test_names_come_back_in_their_order(scene: Scene) -> None:
    assert scene.filter(question(denying(), "whole", "pairs")) == ALL | {"NodeNames": ["whole", "pairs"]}
    assert scene.counts.requests == {("filter", "judged"): 1}


def test_a_node_whose_pairs_are_broken_fails_for_now(scene: Scene) -> None:
    for card in (1, 3):
        scene.put(pod(f"other-{card}", 1, node="pairs", cards=[card]))
    found = scene.filter(question(denying(), "pairs", "whole"))
    assert found == ALL | {"NodeNames": ["whole"], "FailedNodes": {"pairs": BROKEN}}
    assert scene.counts.removed == {"GT692": 1}


def test_a_node_that_can_never_do_is_not_worth_a_preemption(scene: Scene) -> None:
    found = scene.filter(question(denying(3), "pairs", "whole"))
    assert found == ALL | {"NodeNames": ["whole"], "FailedAndUnresolvableNodes": {"pairs": NEVER}}


def test_no_node_may_be_left(scene: Scene) -> None:
    found = scene.filter(question(denying(3), "pairs"))
    assert found == ALL | {"NodeNames": [], "FailedAndUnresolvableNodes": {"pairs": NEVER}}


def test_whole_nodes_come_back_as_they_were_sent(scene: Scene) -> None:
    nodes = [
        {**node_manifest(PAIRS), "unknown": [1.50, "\u00e9"]},
        {**node_manifest(WHOLE), "spec": {"podCIDR": "10.0.0.0/24"}},
    ]
    body = json.dumps({"Pod": denying(3), "Nodes": {"metadata": {}, "items": nodes}, "NodeNames": None}).encode()
    expected = {
        "Nodes": {"items": [nodes[1]]},
        "NodeNames": None,
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {"pairs": NEVER},
        "Error": "",
    }
    assert scene.filter(body) == expected
    assert scene.prioritize(body) == [{"Host": "pairs", "Score": 0}, {"Host": "whole", "Score": 10}]


def test_scores_go_by_the_cards(scene: Scene) -> None:
    found = scene.prioritize(question(pod(), "pairs", "whole", "elsewhere"))
    scores = {entry["Host"]: entry["Score"] for entry in found}
    assert scores == {"pairs": 1, "whole": 10, "elsewhere": 0}
    assert scene.counts.requests == {("prioritize", "judged"): 1}


def test_there_may_be_no_nodes(scene: Scene) -> None:
    assert scene.filter(question(pod())) == ALL | {"NodeNames": []}
    assert scene.filter(json.dumps({"Pod": pod()}).encode()) == ALL | {"NodeNames": []}
    assert scene.filter(json.dumps({"Pod": pod(), "Nodes": {"items": None}}).encode())["Nodes"] == {"items": []}
    assert scene.prioritize(question(pod())) == []


def test_cards_that_are_given_back_while_no_node_is_left_count(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AGAIN_SECONDS", 0.05)
    scene.put(pod("other", 4, node="pairs", cards=[0, 1, 2, 3]))

    async def asked() -> Any:
        asking = asyncio.create_task(scene.answers.filter(question(pod(), "pairs")))
        await asyncio.sleep(0)
        assert not asking.done()
        scene.told.mirrors.pods.absent("team/other")
        return json.loads(await asking)

    assert asyncio.run(asked()) == ALL | {"NodeNames": ["pairs"]}


def test_the_pod_itself_takes_nothing_from_itself(scene: Scene) -> None:
    chosen = pod("train", 4, cards=[0, 1, 2, 3], node="pairs")
    del chosen["spec"]["nodeName"]  # HAMi chose, and the Binding failed
    chosen["status"]["phase"] = "Pending"
    scene.put(chosen)
    assert scene.filter(question(chosen, "pairs")) == ALL | {"NodeNames": ["pairs"]}


def test_a_question_in_the_name_of_a_pod_that_has_a_node_tells_nothing_of_its_cards(scene: Scene) -> None:
    scene.put(pod("train", 4, node="pairs", cards=[0, 1, 2, 3]))
    found = scene.filter(question(pod("train", 4), "pairs", "whole"))
    text = "GT690: 0 of the 4 cards that the pod asks for are free"
    assert found == ALL | {"NodeNames": ["whole"], "FailedNodes": {"pairs": text}}


# What goes wrong.


@pytest.mark.parametrize(
    "asked",
    [
        None,
        5,
        [],
        {},
        {"metadata": {}},
        {"metadata": {"name": "x", "uid": "u", "resourceVersion": "1"}},
        {"metadata": {"name": "x", "uid": 5, "resourceVersion": "1"}, "spec": {}},
        {"metadata": {"name": "x", "uid": "u", "resourceVersion": "1"}, "spec": {"containers": "many"}},
        {"metadata": {"name": "x", "uid": "u", "resourceVersion": "1", "annotations": {"a": 1}}, "spec": {}},
    ],
)
def test_for_a_pod_that_cannot_be_read_all_nodes_pass(scene: Scene, asked: Any) -> None:
    body = question(asked, "pairs", "whole")
    assert scene.filter(body) == ALL
    assert scene.prioritize(body) == NO_SCORES
    assert scene.counts.requests == {("filter", "malformed"): 1, ("prioritize", "malformed"): 1}
    (line,) = scene.lines()
    assert (line["level"], line["message"], line["result"]) == ("warning", "extender", "malformed")


@pytest.mark.parametrize("depth", [400, 50_000])
def test_for_a_pod_that_is_nested_too_deep_all_nodes_pass_or_there_is_no_question(scene: Scene, depth: int) -> None:
    odd = (
        b'{"metadata":{"name":"x","uid":"u","resourceVersion":"1","annotations":{"gpu.topology/injected":"1"}},"spec":'
    )
    odd += b'{"affinity":' + b"[" * depth + b"]" * depth + b"}}"
    body = b'{"Pod":' + odd + b',"NodeNames":["pairs","whole"]}'
    try:
        assert scene.filter(body) == ALL
    except MalformedQuestion as error:
        assert "nested too deep" in str(error)  # noqa: PT017 - either is right, by how deep the interpreter can go


@pytest.mark.parametrize(
    "annotations",
    [
        {"gpu.topology/injected": "", "gpu.topology/min-bandwidth": "fast"},
        {"gpu.topology/profile": "no-such"},
        {"gpu.topology/on-violation": "\u0000"},
    ],
)
def test_pods_whose_options_cannot_be_read_are_left_alone(scene: Scene, annotations: dict[str, str]) -> None:
    assert scene.filter(question(pod("train", 9, annotations=annotations), "pairs", "whole")) == ALL
    assert scene.counts.requests == {("filter", "left-alone"): 1}
    assert scene.lines() == []


def test_pods_without_cards_are_left_alone(scene: Scene) -> None:
    ordinary = pod()
    ordinary["metadata"]["annotations"] = {}
    assert scene.filter(question(ordinary, "pairs", "whole")) == ALL
    assert scene.prioritize(question(ordinary, "pairs", "whole")) == NO_SCORES
    assert scene.counts.requests == {("filter", "left-alone"): 1, ("prioritize", "left-alone"): 1}
    assert scene.lines() == []


def test_before_the_mirrors_are_filled_all_nodes_pass(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    body = question(denying(9), "pairs", "whole")
    assert scene.filter(body) == ALL
    assert scene.prioritize(body) == NO_SCORES
    assert scene.counts.requests == {("filter", "not-ready"): 1, ("prioritize", "not-ready"): 1}
    assert scene.lines()[0]["text"].startswith("waiting for namespaces, nodes")


def test_when_nothing_was_heard_for_long_all_nodes_pass(scene: Scene) -> None:
    body = question(denying(9), "pairs", "whole")
    assert scene.filter(body)["NodeNames"] == []
    scene.told.now += 1000
    assert scene.filter(body) == ALL
    assert "nothing was heard" in scene.lines()[0]["text"]


def test_after_a_bug_all_nodes_pass_and_then_the_world_is_made_anew(tmp_path: Path) -> None:
    names: list[str] = []

    def namespaces(name: str) -> Namespace:
        names.append(name)
        if len(names) == 1:
            raise RuntimeError("odd")
        return Namespace(name)

    scene = Scene(tmp_path, namespaces).filled()
    body = question(denying(9), "pairs", "whole")
    assert scene.filter(body) == ALL
    bug, line = scene.lines()
    assert (bug["message"], line["result"]) == ("bug", "bug")
    assert "RuntimeError: odd" in bug["error"]
    assert scene.filter(body) == ALL
    assert scene.counts.requests == {("filter", "bug"): 1, ("filter", "not-ready"): 1}
    scene.put(pod("other", 1, node="pairs", cards=[0]))  # heard of by nobody until the world is made anew
    scene.told.now += AGAIN_SECONDS
    text = "GT690: 3 of the 4 cards that the pod asks for are free"
    assert scene.filter(question(pod("train", 4), "pairs", "whole"))["FailedNodes"] == {"pairs": text}


def test_an_exception_in_what_is_heard_ends_no_mirror(scene: Scene) -> None:
    odd: Any = object()
    scene.knowledge.node_changed("pairs", odd, None)
    assert scene.lines()[0]["message"] == "bug"
    scene.put(pod("other", 1, node="pairs", cards=[0]))
    body = question(denying(9), "pairs", "whole")
    assert scene.filter(body) == ALL
    scene.told.now += AGAIN_SECONDS
    assert scene.filter(body)["NodeNames"] == []


def test_when_the_time_is_over_the_other_nodes_pass(tmp_path: Path) -> None:
    times = iter([0.0, 0.1, 9.0, 9.1, 9.2])
    scene = Scene(tmp_path, clock=lambda: next(times)).filled()
    found = scene.filter(question(denying(9), "pairs", "whole"))
    assert (found["NodeNames"], list(found["FailedAndUnresolvableNodes"])) == (["whole"], ["pairs"])
    assert scene.counts.requests == {("filter", "late"): 1}


def test_the_same_complaint_is_logged_now_and_then(scene: Scene) -> None:
    for _ in range(1000):
        scene.filter(question(None, "pairs"))
    assert [line["times"] for line in scene.lines()] == [1]
    scene.told.now += 10
    scene.filter(question(None, "pairs"))
    assert [line["times"] for line in scene.lines()] == [1, 1000]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff",
        b'{"NodeNames":"pairs"}',
        b'{"NodeNames":[1]}',
        b'{"NodeNames":[null]}',
        b'{"NodeNames":["\xff"]}',
        b'{"Nodes":[]}',
        b'{"Nodes":{"items":5}}',
        b'{"Nodes":{"items":[{}]}}',
        b'{"Nodes":{"items":[{"metadata":{"name":5}}]}}',
        b'{"Pod":' + b"[" * 100_000,
        b'{"Nodes":' + b'{"items":[' * 100_000,
        b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","Nodes":1}',
    ],
)
def test_what_names_no_nodes_is_no_question(scene: Scene, body: bytes) -> None:
    with pytest.raises(MalformedQuestion, match=r"^request body: "):
        scene.filter(body)
    with pytest.raises(MalformedQuestion, match=r"^request body: "):
        scene.prioritize(body)


def test_a_node_that_stands_there_twice_is_answered_once(scene: Scene) -> None:
    assert scene.filter(question(pod(), "pairs", "pairs"))["NodeNames"] == ["pairs"]
    body = json.dumps({"Pod": pod(), "Nodes": {"items": [node_manifest(PAIRS)] * 2}}).encode()
    assert len(scene.filter(body)["Nodes"]["items"]) == 1


def test_names_that_only_look_like_those_of_nodes_pass_and_are_told_nothing(scene: Scene) -> None:
    names = ["Pairs", "pairs\u200b", "p\u0430irs", " pairs", "pairs/", "../pairs", "", "x" * 1_000_000]
    assert scene.filter(question(denying(9), *names)) == ALL | {"NodeNames": names}
    assert scene.filter(question(denying(9), *names, "pairs"))["NodeNames"] == names
    assert {entry["Score"] for entry in scene.prioritize(question(pod(), *names))} == {0}


# Bodies of nearly 16 MiB, from a client with a certificate.

FULL = BODY_BYTES - 64 * 1024


def hostile(member: bytes, *repeated: bytes) -> bytes:
    """A question whose list of nodes is as long as a body may be."""
    each = b",".join(repeated) + b","
    listed = each * (FULL // len(each)) + repeated[-1]
    return b'{"Pod":' + json.dumps(denying(3)).encode() + b"," + member.replace(b"LIST", listed) + b"}"


def with_names(count: int) -> bytes:
    return question(denying(3), *(f"{number:x}" for number in range(count)))


MOST = f"request body: expected at most {MOST_NODES} nodes, found "
LISTS = {
    "the same name": (hostile(b'"NodeNames":[LIST]', b'"pairs"'), MOST),
    "short names": (hostile(b'"NodeNames":[LIST]', *(b'"%x"' % each for each in range(0x1000))), MOST),
    "names beyond the limit": (with_names(MOST_NODES + 1), MOST),
    "nodes": (hostile(b'"Nodes":{"items":[LIST]}', b'{"metadata":{"name":"a"}}'), MOST),
    "empty nodes": (hostile(b'"Nodes":{"items":[LIST]}', b"{}"), r"items\[0\]: expected the member metadata"),
    "numbers": (hostile(b'"Nodes":{"items":[LIST]}', b"1"), r"items\[0\]: expected an object"),
}


def test_lists_without_end_are_refused_before_they_take_memory(scene: Scene, subtests: pytest.Subtests) -> None:
    """In Python a short name takes ten times the bytes that it has in JSON."""
    for name, (body, said) in LISTS.items():
        with subtests.test(name):
            tracemalloc.start()
            with pytest.raises(MalformedQuestion, match=said):
                scene.filter(body)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < 7 * BODY_BYTES


def test_as_many_names_as_are_allowed_are_answered(scene: Scene) -> None:
    assert len(scene.filter(with_names(MOST_NODES))["NodeNames"]) == MOST_NODES


def test_a_member_that_stands_there_a_million_times_counts_once(scene: Scene) -> None:
    members = b'"NodeNames":["pairs"],' * (FULL // 22) + b'"NodeNames":["whole"]'
    found = scene.filter(b'{"Pod":' + json.dumps(denying(3)).encode() + b"," + members + b"}")
    assert found == ALL | {"NodeNames": ["whole"]}


@pytest.mark.parametrize("more", [0, 1])
def test_a_pod_that_is_too_long_is_not_read_and_all_nodes_pass(scene: Scene, more: int) -> None:
    asked = json.dumps(denying(9)).encode()
    asked = asked[:-1] + b" " * (module.POD_BYTES + more - len(asked)) + b"}"
    found = scene.filter(b'{"Pod":' + asked + b',"NodeNames":["pairs","whole"]}')
    assert found["NodeNames"] == (["pairs", "whole"] if more else [])
    assert scene.counts.requests == {("filter", "malformed" if more else "judged"): 1}
    assert [line["text"] for line in scene.lines()] == [
        f"expected a pod of at most {module.POD_BYTES} bytes, found more"
    ] * more


def test_pods_that_got_their_node_are_kept_for_no_reader(scene: Scene) -> None:
    for number in range(3):
        asked = pod(f"pod-{number}")
        scene.put(asked)
        scene.put({**asked, "spec": {**asked["spec"], "nodeName": "pairs"}})
    assert scene.knowledge.world.pods["team/pod-0"].is_bound
    assert not scene.knowledge.world.newly_bound
