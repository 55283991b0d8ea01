"""The application of the reviews, without a socket: what is answered, and what is logged."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from tempfile import TemporaryFile
from typing import IO, Any

import pytest

from tests.judge import FixedState
from tests.pods import Manifest, container, pod
from tests.programs.server import large
from tests.programs.server.asgi import UID, application, post, review
from webhook.cluster.state import State
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.decisions.fastest_pair import FastestPair
from webhook.decisions.resolve.node import Sources
from webhook.objects.pod import Namespace

KNOWN = FixedState({"ml-workloads": Namespace("ml-workloads", {"gpu.topology/injection": "enabled"})})


class BrokenState:
    """A state with a bug."""

    waiting_for = ""

    def namespace(self, name: str) -> Namespace:
        raise ZeroDivisionError(f"looking for {name}")

    def cluster(self) -> ClusterFacts:
        return ClusterFacts()

    def fastest_pair(self) -> FastestPair | None:
        return None

    def node(self, name: str) -> Sources:
        raise ZeroDivisionError(f"looking for {name}")


def answer(*chunks: bytes, state: State = KNOWN, **settings: Any) -> tuple[int, bytes, list[Manifest]]:
    with TemporaryFile() as log:
        got = post(application(state, log, **settings), *chunks)
        return got.status, got.body, [json.loads(line) for line in written(log).splitlines()]


def written(log: IO[bytes]) -> bytes:
    log.seek(0)
    return log.read()


@pytest.fixture
def log() -> Iterator[IO[bytes]]:
    with TemporaryFile() as opened:
        yield opened


@pytest.mark.parametrize("add", large.PLACES)
def test_pods_that_are_too_large_are_not_remembered(log: IO[bytes], add: large.Add) -> None:
    app = application(KNOWN, log)

    def admit(made: Manifest) -> None:
        assert "patch" in post(app, review(made)).response

    assert large.kept(pod, add, admit) < large.COUNT * large.LARGE / 2


def test_a_pod_that_is_injected_is_logged_with_its_warnings() -> None:
    status, _, (line,) = answer(review(pod(annotations={"gpu.topology/min-bandwith": "9"}), dryRun=True))
    assert status == 200
    assert isinstance(line.pop("microseconds"), int)
    assert datetime.fromisoformat(line.pop("time")).utcoffset() == timedelta(0)
    assert line == {
        "level": "info",
        "message": "admission",
        "uid": UID,
        "namespace": "ml-workloads",
        "name": "train",
        "outcome": "patch",
        "reason": "injected",
        "profile": "exclusive",
        "warnings": ["GT118: unknown annotation gpu.topology/min-bandwith; did you mean gpu.topology/min-bandwidth?"],
        "dryRun": True,
    }


def test_a_refused_pod_is_logged_with_the_reason() -> None:
    _, _, (line,) = answer(review(pod(annotations={"gpu.topology/nvls": "sure"})))
    assert (line["outcome"], line["reason"]) == ("refuse", "bad-annotation")
    assert line["error"].startswith(
        "GT151: an option cannot be read: annotation gpu.topology/nvls on pod ml-workloads/train: expected"
    )


@pytest.mark.parametrize("operation", ["UPDATE", "DELETE", "CONNECT"])
def test_another_operation_than_a_creation_passes_without_a_patch(operation: str) -> None:
    status, body, (line,) = answer(review(pod(), operation=operation, name="train"))
    assert status == 200
    assert json.loads(body)["response"] == {
        "uid": UID,
        "allowed": True,
        "auditAnnotations": {"outcome": "skip", "reason": "not-a-create"},
    }
    assert (line["reason"], line["name"]) == ("not-a-create", "train")


def test_a_deletion_without_an_object_passes() -> None:
    status, body, _ = answer(review(None, operation="DELETE", name="train"))
    assert status == 200
    assert json.loads(body)["response"]["allowed"] is True


def test_a_dry_run_gets_the_same_answer_as_the_real_one() -> None:
    assert answer(review(pod(), dryRun=True))[:2] == answer(review(pod()))[:2]


def test_a_pod_of_an_unknown_namespace_is_left_alone_with_a_warning() -> None:
    _, body, (line,) = answer(review(pod(), "nowhere"))
    response = json.loads(body)["response"]
    assert "patch" not in response
    assert response["warnings"] == ["GT127: namespace nowhere is not known yet; the pod is left as it is"]
    assert line["reason"] == "namespace-unknown"


def test_a_body_in_many_pieces_is_read_as_one() -> None:
    whole = review(pod())
    pieces = [whole[start : start + 100] for start in range(0, len(whole), 100)]
    assert answer(*pieces)[:2] == answer(whole)[:2]


def test_a_client_that_goes_away_is_a_bad_request(log: IO[bytes]) -> None:
    got = post(application(KNOWN, log), b"{", ends=False)
    assert got.status == 400
    assert got.body == b"request body: the client went away before its end"


@pytest.mark.parametrize(
    ("field", "place"),
    [
        ({"env": {}}, "env of container train"),
        ({"env": [{"name": "A", "value": 1}]}, "env of container train"),
        ({"env": [{"value": "a"}]}, "env of container train"),
        ({"env": ["A=1"]}, "env of container train"),
        ({"name": "t\nx\u202e", "env": {}}, "env of container t\\nx\\u202e"),
        ({"volumeMounts": [{"name": "v"}]}, "volumeMounts of container train"),
        ({"volumeMounts": "v"}, "volumeMounts of container train"),
        ({"resources": []}, r"resources"),
        ({"resources": {"limits": {"nvidia.com/gpu": {}}}}, "limits"),
    ],
)
def test_a_field_of_a_container_with_a_wrong_type_is_a_bad_request_that_names_it(field: Manifest, place: str) -> None:
    status, body, (line,) = answer(review(pod({**container(), **field})))
    assert status == 400
    assert place in body.decode()
    assert (line["message"], line["status"]) == ("rejected", 400)


@pytest.mark.parametrize("spec", [{"volumes": [{"emptyDir": {}}]}, {"volumes": {}}, {"affinity": {"podAffinity": []}}])
def test_a_field_of_the_spec_with_a_wrong_type_is_a_bad_request(spec: Manifest) -> None:
    status, body, _ = answer(review(pod(annotations={"gpu.topology/group": "g", "gpu.topology/remap": "init"}, **spec)))
    assert status == 400
    assert next(iter(spec)) in body.decode()


def test_values_of_variables_are_in_no_answer_about_wrong_types() -> None:
    _, body, (line,) = answer(review(pod(container(env=[{"name": "TOKEN", "value": ["s3cret"]}]))))
    assert "s3cret" not in body.decode()
    assert "s3cret" not in str(line)


def test_a_bug_is_a_500_without_details_and_the_log_has_them() -> None:
    status, body, (line,) = answer(review(pod()), state=BrokenState())
    assert (status, body) == (500, b"internal error; the log has the details")
    assert (line["message"], line["status"]) == ("bug", 500)
    assert "ZeroDivisionError: looking for ml-workloads" in line["error"]


def test_values_of_variables_are_never_logged(log: IO[bytes]) -> None:
    app = application(KNOWN, log)
    secret = [{"name": "TOKEN", "value": "s3cret"}, {"name": "NCCL_P2P_LEVEL", "value": "s3cret"}]
    annotations = {"gpu.topology/env.HF_TOKEN": "s3cret", "gpu.topology/env.NCCL_DEBUG": "s3cret"}
    post(app, review(pod(container(env=secret), annotations=annotations)))
    post(app, review(pod(container(env=[{"name": "CUDA_DISABLE_CONTROL", "value": "s3cret"}]))))
    post(app, review(pod(container(env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "s3cret"}]))))
    assert len(written(log).splitlines()) == 3
    assert b"s3cret" not in written(log)


def test_half_a_character_in_a_part_that_is_read_late_is_a_bad_request() -> None:
    body = review(pod(container(env=[{"name": "AX", "value": "b"}])))
    status, _, _ = answer(body.replace(b'"AX"', b'"A\x81"'))
    assert status == 400
