"""Reviews as somebody without credentials may forge them: what is answered, logged, asked for and told."""

import json
from typing import IO, Any

import pytest

from tests.pods import Manifest, container, pod
from tests.programs.server.asgi import UID, application, binding_review, post, review
from tests.programs.server.test_bindings import PATH, KnownCluster, KnownPods, Told, ask, injected, to_node
from tests.programs.server.test_reviews import KNOWN
from webhook.decisions.resolve.node import Sources
from webhook.objects.pod import Namespace
from webhook.programs.log import LINE_LIMIT
from webhook.words.errors import TooManyNamespaceReads

CONTROLS = "\x1b[31m\x85\x9b\u202e\u2066\u200b\u2028\x7f"
LONG = "a" * 2_500_000
HOSTILE = [CONTROLS, LONG, "\x1b" * 200_000, "../../nodes", "中" * 300_000]
SHORTER = [CONTROLS, "a" * 400_000, "\x1b" * 50_000, "../../nodes"]


class OneNode(KnownCluster):
    """A cluster that knows which nodes it has."""

    def node(self, name: str) -> Sources:
        return self.nodes.get(name) or Sources(exists=False)


def written(log: IO[bytes]) -> list[bytes]:
    log.seek(0)
    lines = log.read().splitlines()
    for line in lines:
        assert len(line) <= LINE_LIMIT
        assert line.decode().isprintable()
        assert all(text.isprintable() for text in json.loads(line).values() if isinstance(text, str))
    return [line for line in lines if json.loads(line)["message"] != "slow"]  # a busy machine stands still for a second


@pytest.fixture
def log(tmp_path: Any) -> Any:
    with (tmp_path / "log").open("w+b") as opened:
        yield opened


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("field", ["name", "generateName"])
def test_an_impossible_name_of_a_pod_is_for_the_api_server_to_refuse_and_shown_shortened(
    log: IO[bytes], field: str, name: str
) -> None:
    made = pod(annotations={"gpu.topology/nvls": "sure"})
    made["metadata"] |= {"name": "", field: name}
    refused = post(application(KNOWN, log), review(made)).response
    assert refused["status"]["message"].isprintable()
    assert len(refused["status"]["message"]) < 1000
    del made["metadata"]["annotations"]
    assert "patch" in post(application(KNOWN, log), review(made)).response
    assert len(written(log)) == 2


@pytest.mark.parametrize("name", SHORTER)
def test_impossible_names_within_a_pod_are_shown_shortened_as_well(log: IO[bytes], name: str) -> None:
    made = pod(
        {**container(), "name": name, "resources": {"limits": {"nvidia.com/gpu": name}}},
        annotations={f"gpu.topology/{name}": name, "gpu.topology/containers": name, f"gpu.topology/env.{name}": "x"},
    )
    response = post(application(KNOWN, log), review(made)).response
    for text in (response.get("status", {}).get("message", ""), *response.get("warnings", ())):
        assert text.isprintable()
        assert len(text) <= 4096
    written(log)


@pytest.mark.parametrize("path", ["/mutate/pods", PATH])
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"uid": ""}, 'request.uid: expected a UUID, found ""'),
        ({"uid": "x" * 1000}, f'request.uid: expected a UUID, found "{"x" * 60}..." (1000 characters)'),
        ({"uid": CONTROLS}, "request.uid: expected a UUID, found "),
        ({"namespace": ""}, 'request.namespace: expected the name of a namespace, found ""'),
        ({"namespace": "Team A"}, 'request.namespace: expected the name of a namespace, found "Team A"'),
        ({"namespace": "a" * 64}, "request.namespace: expected the name of a namespace, found "),
        ({"namespace": "a\n"}, 'request.namespace: expected the name of a namespace, found "a\\n"'),
        ({"resource": {"group": "", "version": "v1", "resource": LONG}}, "request.resource: expected "),
    ],
)
def test_what_the_api_server_never_writes_into_a_review_is_malformed(
    log: IO[bytes], path: str, changed: Manifest, message: str
) -> None:
    body = review(pod(), **changed) if path != PATH else binding_review(to_node(), **changed)
    got = post(application(KNOWN, log), body, path=path)
    assert got.status == 400
    assert got.body.decode().startswith(message)
    assert got.body.decode().isprintable()
    assert len(got.body) < 1000
    (line,) = written(log)
    assert json.loads(line)["message"] == "rejected"


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("place", ["pod", "node", "uid"])
def test_a_forged_binding_makes_no_event_and_shows_no_name_as_it_is(log: IO[bytes], place: str, name: str) -> None:
    binding = to_node()
    if place == "node":
        binding["target"]["name"] = name
    if place == "uid":
        binding["metadata"]["uid"] = name
    told = Told()
    app = application(OneNode(), log, KnownPods(injected(0, 1)), told)
    response = post(app, binding_review(binding, name=name if place == "pod" else "train"), path=PATH).response
    for text in (response.get("status", {}).get("message", ""), *response.get("warnings", ())):
        assert text.isprintable()
        assert len(text) <= 4096
    (line,) = written(log)
    assert place != "uid" or response == {
        "uid": UID,
        "allowed": True,
        "auditAnnotations": {"outcome": "skip", "reason": "pod-recreated"},
    }
    assert place != "node" or json.loads(line)["reason"] == "stale-allocation"
    assert told.events == []


def test_a_binding_of_a_namespace_without_the_opt_in_reads_no_pod() -> None:
    class Plain(KnownCluster):
        def namespace(self, name: str) -> Namespace:
            return Namespace(name)

    pods = KnownPods(injected(0, 1))
    result = ask(pods, state=Plain())
    assert (result.audit, pods.asked) == ({"outcome": "skip", "reason": "namespace-not-enabled"}, [])


def test_a_binding_of_a_namespace_that_is_not_there_reads_no_pod_and_is_tried_again() -> None:
    pods = KnownPods(injected(0, 1))
    result = ask(pods, binding_review(to_node(), namespace="nowhere"))
    assert (result.status["code"], pods.asked) == (503, [])
    assert result.audit == {"outcome": "refuse", "reason": "namespace-unknown"}


@pytest.mark.parametrize("path", ["/mutate/pods", PATH])
def test_too_many_reads_of_namespaces_are_a_503_and_counted(log: IO[bytes], path: str) -> None:
    class Asked(KnownCluster):
        def namespace(self, name: str) -> Any:
            async def late() -> Namespace:
                raise TooManyNamespaceReads(f"get namespace {name}: too many namespaces are asked for")

            return late()

    app = application(Asked(), log)
    got = post(app, review(pod()) if path != PATH else binding_review(to_node()), path=path)
    assert (got.status, got.body) == (503, b"get namespace ml-workloads: too many namespaces are asked for")
    assert app.counts.limited_reads == {"namespace": 1}
