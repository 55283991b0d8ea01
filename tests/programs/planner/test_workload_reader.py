"""What the planner reads of PodGroups: when it is asked, not too often, and without waiting."""

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cluster.api.stand_in import Line, Received, status
from tests.programs.planner.server import PlacingServer
from tests.programs.planner.site import Site, TestClock, site, until
from webhook.cluster.api.verbs import Api
from webhook.objects.workload import MISSING, Workload, WorkloadKind, WorkloadRef, read_workload
from webhook.programs.planner import workload_reader
from webhook.programs.planner.workload_reader import FRESH_SECONDS, KEPT, MISSING_SECONDS, WorkloadReader

PATH = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/team-a/podgroups/ring"
REF = WorkloadRef(WorkloadKind.COSCHEDULING, "team-a", "ring")
RING = {"metadata": {"uid": "uid-1"}, "spec": {"minMember": 3}}


class Reading:
    """A reader, the server that it asks, and a clock to move."""

    def __init__(self, found: Site) -> None:
        self.clock = TestClock()
        self.asked: list[str] = []
        self.answers: dict[str, Any] = {PATH: RING}
        self.news = 0
        self.errors: Counter[tuple[str, str]] = Counter()
        self.reader = WorkloadReader(Api(found.session), read=self.note, errors=self.errors, clock=self.clock.clock())
        found.server.before = self.answer
        self.work = asyncio.create_task(self.reader.run())

    def note(self) -> None:
        self.news += 1

    def answer(self, request: Received, line: Line) -> bool:
        path = request.target.partition("?")[0]
        self.asked.append(path)
        answer = self.answers.get(path, 404)
        if callable(answer):
            answer(line)
        elif isinstance(answer, int):
            line.say(status(answer, "no"), f"{answer} No")
        else:
            line.say(json.dumps(answer).encode())
        return True

    def known(self, *refs: WorkloadRef) -> dict[WorkloadRef, Workload | None]:
        return dict(self.reader.known(refs or (REF,)))

    async def close(self) -> None:
        self.work.cancel()
        await asyncio.gather(self.work, return_exceptions=True)


def with_reader(tmp_path: Path, story: Any) -> None:
    async def test() -> None:
        async with site(tmp_path, PlacingServer()) as found:
            reading = Reading(found)
            try:
                await story(reading)
            finally:
                await reading.close()

    asyncio.run(test())


def test_what_is_asked_for_is_known_later_and_read_once(tmp_path: Path) -> None:
    async def story(reading: Reading) -> None:
        assert reading.known() == {}
        assert reading.known() == {}
        await until(lambda: reading.news)
        assert reading.known() == {REF: Workload(3)}
        assert reading.asked == [PATH]

    with_reader(tmp_path, story)


def test_an_object_is_read_again_after_a_while_and_what_is_the_same_is_no_news(tmp_path: Path) -> None:
    async def story(reading: Reading) -> None:
        reading.known()
        await until(lambda: reading.news == 1)
        reading.clock.ahead += FRESH_SECONDS
        assert reading.known()[REF] is not None
        await until(lambda: len(reading.asked) == 2)
        reading.clock.ahead += FRESH_SECONDS
        reading.answers[PATH] = {**RING, "spec": {"minMember": 4}}
        await until(lambda: reading.known()[REF].pods == 4)  # type: ignore[union-attr]  # it was there before
        assert reading.news == 2

    with_reader(tmp_path, story)


@pytest.mark.parametrize(
    "answer",
    [403, 404, {"metadata": {}}, {"metadata": {}, "spec": []}, {"spec": {"minMember": "3"}}],
)
def test_what_cannot_be_read_is_known_not_to_be_there(tmp_path: Path, answer: Any) -> None:
    async def story(reading: Reading) -> None:
        reading.answers[PATH] = answer
        reading.known()
        await until(lambda: reading.news)
        assert reading.known() == {REF: None}
        assert len(reading.asked) == 1

    with_reader(tmp_path, story)


GANG = WorkloadRef(WorkloadKind.POD_GROUP, "team-a", "gang")
GANG_PATH = "/apis/scheduling.k8s.io/{}/namespaces/team-a/podgroups/gang"


@pytest.mark.parametrize("version", ["v1beta1", "v1alpha3", "v1alpha2"])
def test_a_pod_group_is_read_in_the_newest_version_that_the_api_server_has(tmp_path: Path, version: str) -> None:
    async def story(reading: Reading) -> None:
        versions = ("v1beta1", "v1alpha3", "v1alpha2")
        for older in versions:
            reading.answers[GANG_PATH.format(older)] = lambda line: line.say(b"404 page not found\n", "404 Not Found")
        spec = {"schedulingPolicy": {"gang": {"minCount": 4}}}
        reading.answers[GANG_PATH.format(version)] = {"metadata": {"uid": "u"}, "spec": spec}
        reading.known(GANG)
        await until(lambda: reading.news)
        found = reading.known(GANG)[GANG]
        assert found is not None
        assert found.pods == 4
        assert len(reading.asked) == versions.index(version) + 1

    with_reader(tmp_path, story)


def test_a_pod_group_that_is_not_there_yet_is_asked_for_again_soon(tmp_path: Path) -> None:
    async def story(reading: Reading) -> None:
        path = GANG_PATH.format("v1beta1")
        missing = status(404, "no", reason="NotFound", details={"name": "gang", "kind": "podgroups"})
        reading.answers[path] = lambda line: line.say(missing, "404 Not Found")
        reading.known(GANG)
        await until(lambda: reading.news)
        assert reading.known(GANG) == {GANG: MISSING}
        reading.answers[path] = {"metadata": {}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
        reading.clock.ahead += MISSING_SECONDS
        await until(lambda: reading.known(GANG)[GANG] != MISSING)

    with_reader(tmp_path, story)


def test_a_cluster_without_pod_groups_is_known_to_have_none(tmp_path: Path) -> None:
    async def story(reading: Reading) -> None:
        group = GANG._replace(kind=WorkloadKind.COSCHEDULING)
        path = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/team-a/podgroups/gang"
        reading.answers[path] = lambda line: line.say(b"404 page not found\n", "404 Not Found")
        reading.known(group)
        await until(lambda: reading.news)
        assert reading.known(group) == {group: None}
        assert reading.asked == [path]

    with_reader(tmp_path, story)


def test_while_the_api_server_is_away_nothing_becomes_known(tmp_path: Path) -> None:
    async def story(reading: Reading) -> None:
        reading.answers[PATH] = 503
        reading.known()
        await until(lambda: reading.errors["podgroups", "away"])
        assert reading.known() == {}
        reading.answers[PATH] = RING
        await until(lambda: reading.known().get(REF))

    with_reader(tmp_path, story)


def test_an_object_that_is_named_with_signs_of_a_path_is_not_asked_for(tmp_path: Path) -> None:
    async def story(reading: Reading) -> None:
        ref = REF._replace(name="../../../../v1/secrets/s")
        reading.known(ref)
        await until(lambda: reading.news)
        assert reading.known(ref) == {ref: MISSING}
        assert reading.asked == []

    with_reader(tmp_path, story)


def test_a_namespace_has_no_more_requests_than_its_rate_and_takes_none_of_others(tmp_path: Path) -> None:
    async def story(reading: Reading) -> None:
        many = [REF._replace(name=f"ring-{number}") for number in range(600)]
        reading.known(*many)
        other = REF._replace(namespace="team-b")
        reading.known(other)
        await until(lambda: other in reading.known(other))
        await until(reading.reader._queue.empty)  # noqa: SLF001 - all that was ordered
        from_many = [path for path in reading.asked if "team-a" in path]
        assert len(from_many) <= workload_reader.EACH.burst + 1

    with_reader(tmp_path, story)


def test_no_more_objects_are_kept_than_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload_reader, "KEPT", 2)

    async def story(reading: Reading) -> None:
        refs = [REF._replace(name=f"ring-{number}") for number in range(3)]
        reading.known(*refs)
        await until(lambda: reading.news == 3)
        assert len(reading.known(*refs)) == 2

    assert KEPT > 2
    with_reader(tmp_path, story)


def test_a_request_that_hangs_holds_no_other_up(tmp_path: Path) -> None:
    async def story(reading: Reading) -> None:
        slow = REF._replace(name="slow")
        reading.answers["/apis/scheduling.x-k8s.io/v1alpha1/namespaces/team-a/podgroups/slow"] = lambda _: None
        reading.known(slow, REF)
        await until(lambda: reading.known(REF).get(REF))
        assert slow not in reading.known(slow)

    with_reader(tmp_path, story)


MEMBERS = ("minMember", "gang", "minCount", "metadata", "spec", "schedulingPolicy", "podGroups", "policy", "name")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(MEMBERS), inner, max_size=4),
    max_leaves=15,
)


@given(kind=st.sampled_from(WorkloadKind), document=JSON | st.fixed_dictionaries({"metadata": JSON, "spec": JSON}))
def test_an_object_of_any_form_is_read_or_refused(kind: WorkloadKind, document: Any) -> None:
    try:
        found = read_workload(REF._replace(kind=kind), json.dumps(document).encode())
    except msgspec.DecodeError:
        return
    assert found == MISSING or found.pods > 0
