"""``gpu-topology place release --all``: every gate of ours is opened, every pin of ours goes, and nothing else."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.api.stand_in import Line, Received, status
from tests.programs.planner.server import GATE, OWN, PlacingServer, pod
from tests.programs.planner.site import ByHand, Site, nothing, site, until
from webhook.cluster.api.errors import ApiError
from webhook.cluster.api.verbs import Api
from webhook.decisions.place.placed_annotation import Placed, format_placed
from webhook.programs.planner import release as module
from webhook.programs.planner.pause import pause
from webhook.programs.planner.release import Release, Released, Step
from webhook.words import names

PODS = "/api/v1/pods"
CARDS = ("GPU-0", "GPU-1")
PLACED = format_placed(
    Placed(node="n1", cards=CARDS, link="NVLink", bandwidth=150.0, share=1.0, attempt=1, at="2026-01-15T09:30:00Z")
)


@pytest.fixture(autouse=True)
def _impatient_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DELAY_SECONDS", 0.001)


def pinned(name: str, *, cards: str = ",".join(CARDS), placement: str = "pinned") -> dict[str, Any]:
    annotations = {names.INJECTED: "{}", names.USE_GPU_UUID: cards, names.PLACED: PLACED}
    return pod(name, gates=(), labels={names.PLACEMENT: placement}, annotations=annotations)


async def run(found: Site, namespace: str = "") -> list[Released]:
    return await Release(Api(found.session, field_manager="test"), instance="test").all(namespace)


def released(tmp_path: Path, server: PlacingServer, namespace: str = "") -> list[Released]:
    async def work() -> list[Released]:
        async with site(tmp_path, server) as found:
            return await run(found, namespace)

    return asyncio.run(work())


def serving(**pods: Any) -> PlacingServer:
    """A server with pods of team-a, its Pods also to be listed by namespace."""
    server = PlacingServer(page=2)
    for name, manifest in pods.items():
        server.put_pod(f"team-a/{name}", manifest)
    return server


def test_gates_are_opened_and_others_stay(tmp_path: Path) -> None:
    server = serving(
        waits=pod("waits"), both=pod("both", gates=("kueue.x-k8s.io/admission", GATE)), free=pod("free", gates=())
    )
    assert released(tmp_path, server) == [
        Released("team-a", "both", Step.OPENED),
        Released("team-a", "waits", Step.OPENED),
    ]
    assert server.pod("team-a/waits")["spec"]["schedulingGates"] == []
    assert server.pod("team-a/both")["spec"]["schedulingGates"] == [{"name": "kueue.x-k8s.io/admission"}]
    labels = {server.pod(f"team-a/{name}")["metadata"]["labels"][names.PLACEMENT] for name in ("waits", "both")}
    assert labels == {"released"}
    assert sorted(event["regarding"]["name"] for event in server.events) == ["both", "waits"]
    assert {event["reason"] for event in server.events} == {"Released"}
    assert server.events[0]["note"].startswith("GT685: ")


@pytest.mark.parametrize("placement", ["pinned", "released"])
def test_a_pin_of_ours_is_removed_from_a_pod_without_a_node(tmp_path: Path, placement: str) -> None:
    server = serving(train=pinned("train", placement=placement))
    assert released(tmp_path, server) == [Released("team-a", "train", Step.UNPINNED)]
    metadata = server.pod("team-a/train")["metadata"]
    assert names.USE_GPU_UUID not in metadata["annotations"]
    assert metadata["labels"][names.PLACEMENT] == "released"


def test_the_list_of_a_user_stays(tmp_path: Path) -> None:
    server = serving(train=pinned("train", cards="GPU-7"))
    released(tmp_path, server)
    assert server.pod("team-a/train")["metadata"]["annotations"][names.USE_GPU_UUID] == "GPU-7"


def test_a_pod_with_a_node_keeps_its_pin(tmp_path: Path) -> None:
    bound = pinned("train")
    bound["spec"]["nodeName"] = "n1"
    server = serving(train=bound)
    assert released(tmp_path, server) == []
    assert server.writes == []


def test_nothing_to_release_is_no_failure(tmp_path: Path) -> None:
    assert released(tmp_path, serving()) == []


def test_pods_that_come_meanwhile_are_released_too(tmp_path: Path) -> None:
    server = serving(one=pod("one"))

    def another(request: Received, _: Line) -> bool:
        if request.method == "PATCH" and "team-a/two" not in server.collection(PODS).objects:
            server.put_pod("team-a/two", pod("two"))
        return False

    server.before = another
    assert [one.name for one in released(tmp_path, server)] == ["one", "two"]


def test_a_pod_that_others_write_meanwhile_is_tried_again(tmp_path: Path) -> None:
    server = serving(train=pod("train"))
    left = [1, 2]

    def meddle(request: Received, _: Line) -> bool:
        if request.method == "PATCH" and left:
            left.pop()
            server.put_pod("team-a/train", pod("train", gates=("other",) * len(left) + (GATE,)))
        return False

    server.before = meddle
    assert released(tmp_path, server) == [Released("team-a", "train", Step.OPENED)]
    assert server.pod("team-a/train")["spec"]["schedulingGates"] == []


def test_a_pod_that_is_written_all_the_time_is_named_after_some_attempts(tmp_path: Path) -> None:
    server = serving(train=pod("train"))

    def conflict(request: Received, line: Line) -> bool:
        if request.method == "PATCH":
            line.say(status(409, "modified"), "409 Conflict")
        return request.method == "PATCH"

    server.before = conflict
    (one,) = released(tmp_path, server)
    assert "modified (409)" in one.problem
    assert server.writes.count("PATCH /api/v1/namespaces/team-a/pods/train") == module.ATTEMPTS


def test_a_pod_that_may_not_be_patched_is_named_and_the_others_are_released(tmp_path: Path) -> None:
    server = serving(bad=pod("bad"), good=pod("good"))

    def forbid(request: Received, line: Line) -> bool:
        if request.method == "PATCH" and "/bad" in request.target:
            line.say(status(403, "no"), "403 Forbidden")
            return True
        return False

    server.before = forbid
    bad, good = released(tmp_path, server)
    assert (bad.problem, good.problem) == ("patch pod team-a/bad: no (403)", "")


def test_a_pod_that_goes_meanwhile_is_not_spoken_of(tmp_path: Path) -> None:
    server = serving(train=pod("train"))

    def delete(request: Received, _: Line) -> bool:
        if request.method == "PATCH":
            server.delete(PODS, "team-a/train")
            server.before = lambda *_: False
        return False

    server.before = delete
    (one,) = released(tmp_path, server) or [Released("", "", Step.OPENED)]
    assert one.problem == "" or "not found" in one.problem


def lost_answer(server: PlacingServer) -> Callable[[Received, Line], bool]:
    def act(request: Received, line: Line) -> bool:
        if request.method == "PATCH":
            server.put_pod("team-a/train", pod("train", gates=()))
            server.before = lambda *_: False
            line.hang_up()
            return True
        return False

    return act


def test_a_lost_answer_is_looked_after(tmp_path: Path) -> None:
    server = serving(train=pod("train"))
    server.before = lost_answer(server)
    assert released(tmp_path, server) == [Released("team-a", "train", Step.OPENED)]


def test_where_pods_cannot_be_listed_it_says_so(tmp_path: Path) -> None:
    server = serving()
    server.refuse = lambda _: 403
    with pytest.raises(ApiError, match="list pods without a node: no"):
        released(tmp_path, server)


def test_a_planner_that_is_paused_leads_no_more_and_no_pod_waits_for_it(tmp_path: Path) -> None:
    async def work() -> None:
        async with site(tmp_path) as found:
            planner = found.program(lambda _: ByHand(nothing))
            planner.open()
            await until(lambda: planner.leadership.leads)
            assert await pause(Api(found.session, seconds=5.0), OWN)
            await planner.leadership.look()
            assert not planner.leadership.leads
            assert found.server.lease["holderIdentity"] == "no planner"
            await planner.close()
            assert found.server.lease["holderIdentity"] == "no planner"

    asyncio.run(work())


def test_there_is_nothing_to_pause_where_no_planner_ever_led(tmp_path: Path) -> None:
    async def work() -> None:
        async with site(tmp_path) as found:
            assert not await pause(Api(found.session, seconds=5.0), OWN)

    asyncio.run(work())
