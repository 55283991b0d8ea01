"""Events on pods: what they say, how often they are created, and what becomes of them when they cannot be."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.cluster.api.stand_in import Line, Received, StandIn, Turn, always, kubeconfig, serving, status
from webhook.cluster.api.pod_events import Fate, PodEvents, PodReference
from webhook.cluster.api.session import connect
from webhook.cluster.api.verbs import Api
from webhook.objects.binding import PodEvent
from webhook.objects.event import shortened

AT = datetime(2026, 11, 20, 21, 51, 20, 250, tzinfo=UTC)
TRAIN = PodReference("team-a", "train", "5b8f4c1d-6e0a-4f27-9d3c-2a1b7e9f8c60")
OTHER = PodReference("team-a", "train", "00000000-6e0a-4f27-9d3c-2a1b7e9f8c60")
UNMET = PodEvent(reason="RequirementNotMet", note="GPU0 and GPU5 have no NVLink")
CREATED = always(b"{}", "201 Created")


class Clock:
    def __init__(self) -> None:
        self.now = AT

    def __call__(self) -> datetime:
        return self.now


@asynccontextmanager
async def telling(
    directory: Path, url: str, clock: Clock, *, seconds: float = 30.0, instance: str = "webhook-0"
) -> AsyncIterator[PodEvents]:
    session = connect(kubeconfig(directory / "kubeconfig", url), user_agent="test", seconds=seconds)
    events = PodEvents(Api(session), instance=instance, now=clock)
    try:
        yield events
        await events.close()
    finally:
        await session.close()


@asynccontextmanager
async def site(directory: Path, turn: Turn, clock: Clock | None = None) -> AsyncIterator[tuple[StandIn, PodEvents]]:
    async with (
        serving(turn) as stand_in,
        telling(directory, f"http://127.0.0.1:{stand_in.port}", clock or Clock()) as events,
    ):
        yield stand_in, events


async def settled(events: PodEvents, count: int) -> None:
    """Wait until so many were posted, whatever came of it."""
    while events.counts[Fate.CREATED] + events.counts[Fate.FAILED] < count:
        await asyncio.sleep(0.001)


async def test_an_event_says_what_happened_to_which_pod(tmp_path: Path) -> None:
    async with site(tmp_path, CREATED) as (stand_in, events):
        events.tell(UNMET, TRAIN)
        assert stand_in.received == []
        await settled(events, 1)
    (request,) = stand_in.received
    assert (request.method, request.target) == ("POST", "/apis/events.k8s.io/v1/namespaces/team-a/events")
    assert request.headers["content-type"] == "application/json"
    manifest = json.loads(request.body)
    name = manifest["metadata"].pop("name")
    assert name.startswith("train.")
    assert len(name) == len("train.") + 16
    assert manifest == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": "team-a"},
        "eventTime": "2026-11-20T21:51:20.000250Z",
        "type": "Warning",
        "reason": "RequirementNotMet",
        "action": "Bind",
        "note": "GPU0 and GPU5 have no NVLink",
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "team-a",
            "name": "train",
            "uid": "5b8f4c1d-6e0a-4f27-9d3c-2a1b7e9f8c60",
        },
        "reportingController": "gpu.topology/webhook",
        "reportingInstance": "webhook-0",
    }
    assert events.counts == {Fate.CREATED: 1}


async def test_the_retries_of_a_pod_are_one_event_for_ten_minutes(tmp_path: Path) -> None:
    clock = Clock()

    async with site(tmp_path, CREATED, clock) as (stand_in, events):
        for seconds in (0, 1, 3, 7, 599):
            clock.now = AT + timedelta(seconds=seconds)
            events.tell(UNMET, TRAIN)
        await settled(events, 1)
        assert events.counts == {Fate.CREATED: 1, Fate.SUPPRESSED: 4}
        clock.now = AT + timedelta(minutes=10)
        events.tell(UNMET, TRAIN)
        await settled(events, 2)
        assert events.counts == {Fate.CREATED: 2, Fate.SUPPRESSED: 4}
    first, second = (json.loads(request.body)["metadata"]["name"] for request in stand_in.received)
    assert first != second


async def test_what_differs_is_told(tmp_path: Path) -> None:
    async with site(tmp_path, CREATED) as (stand_in, events):
        events.tell(UNMET, TRAIN)
        events.tell(UNMET, OTHER)
        events.tell(PodEvent(reason="NotResolved", note=UNMET.note), TRAIN)
        events.tell(PodEvent(reason=UNMET.reason, note="GPU0 and GPU6 have no NVLink"), TRAIN)
        await settled(events, 4)
    assert len({json.loads(request.body)["metadata"]["name"] for request in stand_in.received}) == 4


async def test_two_replicas_give_the_same_event_the_same_name_and_the_second_is_content(tmp_path: Path) -> None:
    names: list[str] = []

    async def turn(request: Received, line: Line) -> None:
        name = json.loads(request.body)["metadata"]["name"]
        exists = status(409, f'events.events.k8s.io "{name}" already exists'), "409 Conflict"
        line.say(*(exists if name in names else (b"{}", "201 Created")))
        names.append(name)

    clock = Clock()
    async with serving(turn) as stand_in:
        url = f"http://127.0.0.1:{stand_in.port}"
        for instance in ("webhook-0", "webhook-1"):
            async with telling(tmp_path, url, clock, instance=instance) as events:
                events.tell(UNMET, TRAIN)
            assert (events.counts, events.failure) == ({Fate.CREATED: 1}, "")
            clock.now += timedelta(seconds=2)
    assert len(set(names)) == 1


async def test_an_event_that_was_not_taken_is_told_by_the_next_retry(tmp_path: Path) -> None:
    answers = [(status(403, "cannot create resource"), "403 Forbidden"), (b"{}", "201 Created")]

    async def turn(_: Received, line: Line) -> None:
        line.say(*answers.pop(0))

    async with site(tmp_path, turn) as (_, events):
        events.tell(UNMET, TRAIN)
        await settled(events, 1)
        assert events.counts == {Fate.FAILED: 1}
        assert events.failure == "create Event in team-a: cannot create resource (403)"
        events.tell(UNMET, TRAIN)
        await settled(events, 2)
        assert events.counts == {Fate.FAILED: 1, Fate.CREATED: 1}
        assert events.failure == ""


async def test_an_api_server_that_is_away_is_counted(tmp_path: Path, port: int) -> None:
    async with telling(tmp_path, f"http://127.0.0.1:{port}", Clock()) as events:
        events.tell(UNMET, TRAIN)
        await settled(events, 1)
    assert events.counts == {Fate.FAILED: 1}
    assert events.failure.startswith(f"create Event in team-a: http://127.0.0.1:{port} gives no answer: ")


async def test_a_connection_that_ends_under_an_event_does_not_lose_it(tmp_path: Path) -> None:
    async def turn(request: Received, line: Line) -> None:
        if request.connection == 1:
            line.hang_up()
        else:
            line.say(b"{}", "201 Created")

    async with site(tmp_path, turn) as (stand_in, events):
        events.tell(UNMET, TRAIN)
        await settled(events, 1)
    assert events.counts == {Fate.CREATED: 1}
    first, second = stand_in.received
    assert first.body == second.body


async def test_more_than_can_wait_are_dropped_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webhook.cluster.api.pod_events.DRAIN_SECONDS", 0.05)

    async def silence(_: Received, __: Line) -> None:
        await asyncio.sleep(30.0)

    async with site(tmp_path, silence) as (_, events):
        for number in range(300):
            pod = replace(TRAIN, namespace=f"team-{number % 3}")
            events.tell(PodEvent(reason="NotResolved", note=str(number)), pod)
        assert events.counts == {Fate.DROPPED: 44}
    assert events.counts == {Fate.DROPPED: 300}


async def test_a_namespace_gets_so_many_at_once_and_others_still_get_theirs(tmp_path: Path) -> None:
    clock = Clock()

    async with site(tmp_path, CREATED, clock) as (_, events):
        for number in range(150):
            events.tell(PodEvent(reason="NotResolved", note=str(number)), TRAIN)
        assert events.counts == {Fate.LIMITED: 50}
        events.tell(UNMET, replace(TRAIN, namespace="team-b", uid="of team-b"))
        clock.now += timedelta(seconds=1)
        events.tell(UNMET, TRAIN)
        events.tell(UNMET, OTHER)
        await settled(events, 102)
        assert events.counts == {Fate.LIMITED: 51, Fate.CREATED: 102}


async def test_those_that_wait_at_the_end_are_still_created(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webhook.cluster.api.pod_events.DRAIN_SECONDS", 60.0)

    async def turn(_: Received, line: Line) -> None:
        await asyncio.sleep(0.005)
        line.say(b"{}", "201 Created")

    async with site(tmp_path, turn) as (_, events):
        for number in range(20):
            events.tell(PodEvent(reason="NotResolved", note=str(number)), TRAIN)
    assert events.counts == {Fate.CREATED: 20}


async def test_what_was_told_is_remembered_within_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webhook.cluster.api.pod_events.REMEMBERED", 2)

    async with site(tmp_path, CREATED) as (_, events):
        for note in ("a", "b", "c", "c", "b", "a"):
            events.tell(PodEvent(reason="NotResolved", note=note), TRAIN)
        await settled(events, 4)
    assert events.counts == {Fate.CREATED: 4, Fate.SUPPRESSED: 2}


async def test_nothing_to_tell_is_closed_at_once(tmp_path: Path) -> None:
    async with telling(tmp_path, "http://127.0.0.1:1", Clock()) as events:
        pass
    assert events.counts == {}


@pytest.mark.parametrize(
    ("note", "kept"),
    [
        ("", ""),
        ("x" * 1024, "x" * 1024),
        ("x" * 1025, "x" * 1021 + "..."),
        ("é" * 512, "é" * 512),
        ("é" * 513, "é" * 510 + "..."),
        ("x" + "😀" * 256, "x" + "😀" * 255 + "..."),
    ],
)
def test_a_note_that_is_too_long_is_cut_between_characters(note: str, kept: str) -> None:
    assert shortened(note) == kept
    assert len(kept.encode()) <= 1024


async def test_a_reporter_and_a_pod_with_the_longest_names_fit(tmp_path: Path) -> None:
    pod = PodReference("team-a", "p" * 253, "u")

    async with serving(CREATED) as stand_in:
        url = f"http://127.0.0.1:{stand_in.port}"
        async with telling(tmp_path, url, Clock(), instance="h" * 200) as events:
            events.tell(UNMET, pod)
    manifest = json.loads(stand_in.received[0].body)
    assert len(manifest["reportingInstance"]) == 128
    assert len(manifest["metadata"]["name"]) == 217
    assert manifest["regarding"]["name"] == "p" * 253
