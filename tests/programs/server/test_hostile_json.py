"""JSON that no API server sends: it is refused with a reason, or read in the one way in which Go reads it too."""

import re
from tempfile import TemporaryFile

import pytest

from tests.pods import container, pod
from tests.programs.server.asgi import UID, application, post, review
from tests.programs.server.test_reviews import KNOWN, answer, written

REVIEW = review(pod(container(env=[{"name": "AX", "value": "b"}])))
DEEP = b'{"a":' * 100_000 + b"1" + b"}" * 100_000


def rejected(body: bytes) -> str:
    """Why the review is a bad request; the log says the same, in one line that is short and printable."""
    status, said, (line,) = answer(body)
    assert (status, line["message"], line["error"]) == (400, "rejected", said.decode())
    assert len(line["error"]) < 500
    assert line["error"].isprintable()
    return str(line["error"])


def outcome(body: bytes) -> tuple[str, str]:
    """What becomes of the pod, and why."""
    status, _, (line,) = answer(body)
    assert status == 200
    return line["outcome"], line["reason"]


def with_variable(text: bytes) -> bytes:
    """The review with another entry of ``env``."""
    assert b'{"name": "AX", "value": "b"}' in REVIEW
    return REVIEW.replace(b'{"name": "AX", "value": "b"}', text)


def test_the_review_that_is_bent_here_is_answered() -> None:
    assert outcome(REVIEW) == ("patch", "injected")


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"\xef\xbb\xbf" + REVIEW, id="byte order mark"),
        *(
            pytest.param(REVIEW.decode().encode(name), id=name)
            for name in ("utf-16", "utf-16-le", "utf-16-be", "utf-32")
        ),
        pytest.param(b"\0" + REVIEW, id="NUL before it"),
        pytest.param(REVIEW + b"\0", id="NUL after it"),
        pytest.param(REVIEW + REVIEW, id="two of them"),
        pytest.param(b"// \n" + REVIEW, id="a comment"),
        pytest.param(REVIEW[:-1] + b",}", id="a comma too many"),
        pytest.param(REVIEW[:-1], id="a bracket too few"),
        pytest.param(REVIEW.replace(b'"', b"'"), id="other quotes"),
    ],
)
def test_another_encoding_or_grammar_is_not_guessed(body: bytes) -> None:
    assert rejected(body).startswith("request body: expected JSON, found something else: ")


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"0x10", b"01", b"1.", b".5", b"+1", b"1e400"])
def test_what_is_no_number_in_json_is_none(number: bytes) -> None:
    bent = REVIEW.replace(b'"nvidia.com/gpu": 2', b'"nvidia.com/gpu": ' + number)
    assert bent != REVIEW
    assert re.match(r"request body: expected |.* Number out of range", rejected(bent))


@pytest.mark.parametrize("number", [b"9" * 400, b"-1", b"2.5", b'"2e9999999"', b'"' + b"9" * 100_000 + b'"'])
def test_a_number_of_gpus_that_cannot_be_refuses_the_pod(number: bytes) -> None:
    bent = REVIEW.replace(b'"nvidia.com/gpu": 2', b'"nvidia.com/gpu": ' + number)
    assert outcome(bent) == ("refuse", "bad-resource")


@pytest.mark.parametrize(
    "inside",
    [
        pytest.param(rb"\ud800", id="half a surrogate pair"),
        pytest.param(rb"\udc00\ud800", id="a pair in the wrong order"),
        pytest.param(rb"\x41", id="an escape that JSON has not"),
        pytest.param(b"\xed\xa0\x80", id="a surrogate in UTF-8"),
        pytest.param(b"\xc0\xaf", id="a slash in two bytes"),
        pytest.param(b"\xf5\x80\x80\x80", id="beyond Unicode"),
        pytest.param(b"\xff", id="no UTF-8"),
        pytest.param(b"\0", id="NUL"),
        pytest.param(b"\n", id="a line feed"),
    ],
)
@pytest.mark.parametrize("place", [b'"train"', b'"AX"', b'"b"', b'"ml-workloads"'], ids=repr)
def test_a_text_that_is_none_is_a_bad_request_wherever_it_stands(place: bytes, inside: bytes) -> None:
    rejected(REVIEW.replace(place, place[:-1] + inside + b'"', 1))


@pytest.mark.parametrize(
    ("place", "deep"),
    [
        pytest.param(b'"spec": {', b'"spec": {"unknown": %s, ', id="an unknown field"),
        pytest.param(b'"value": "b"', b'"valueFrom": %s', id="a source of a variable"),
        pytest.param(b'"spec": {', b'"spec": {"volumes": [{"name": "gpu-topology", "emptyDir": %s}], ', id="a volume"),
        pytest.param(
            b'"spec": {',
            b'"spec": {"initContainers": [{"name": "gpu-topology-remap", "lifecycle": %s}], ',
            id="a container with the name of ours",
        ),
        pytest.param(
            b'"spec": {',
            b'"spec": {"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [%s]}}, ',
            id="an affinity",
        ),
        pytest.param(b'"spec": {', b'"spec": {"containers": %s, ', id="containers"),
        pytest.param(b'"request": {', b'"request": {"oldObject": %s, ', id="the old object"),
    ],
)
def test_what_is_nested_too_deep_is_a_bad_request_wherever_it_stands(place: bytes, deep: bytes) -> None:
    bent = REVIEW.replace(place, deep % DEEP, 1)
    assert bent != REVIEW
    assert rejected(bent) == "request body: expected an AdmissionReview, found JSON that is nested too deep"


@pytest.mark.parametrize(
    "variable",
    [
        pytest.param(b'{"name": "A", "name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}', id="two names"),
        pytest.param(b'{"name": "NVIDIA_VISIBLE_DEVICES", "value": "none", "value": "all"}', id="two values"),
        pytest.param(rb'{"name": "NVIDIA\u005fVISIBLE\u005fDEVICES", "value": "all"}', id="an escaped name"),
        pytest.param(rb'{"name": "NVIDIA_VISIBLE_DEVICES", "value": "\u0061ll"}', id="an escaped value"),
        pytest.param(rb'{"\u006eame": "NVIDIA_VISIBLE_DEVICES", "value": "all"}', id="an escaped member"),
        pytest.param(
            rb'{"name": "NVIDIA_VISIBLE_DEVICES", "value": "none", "value\u0046rom": {"secretKeyRef": {}}}',
            id="an escaped source",
        ),
    ],
)
def test_neither_escapes_nor_duplicates_hide_a_list_of_gpus(variable: bytes) -> None:
    assert outcome(with_variable(variable)) == ("refuse", "missing-permission")


def test_escapes_hide_no_label_and_no_annotation() -> None:
    labels = rb'"metadata": {"labels": {"gpu.topology\u002finjection": "\u0064isabled"}, '
    assert outcome(REVIEW.replace(b'"metadata": {', labels)) == ("skip", "opted-out")
    annotations = rb'"metadata": {"annotations": {"gpu.topology\u002fprofile": "\u006eode-peers"}, '
    assert outcome(REVIEW.replace(b'"metadata": {', annotations)) == ("refuse", "missing-permission")


def test_of_two_members_of_one_name_the_last_one_counts_as_in_go() -> None:
    twice = REVIEW.replace(b'"namespace": "ml-workloads"', b'"namespace": "nowhere", "namespace": "ml-workloads"')
    assert outcome(twice) == ("patch", "injected")
    other = REVIEW.replace(b'"namespace": "ml-workloads"', b'"namespace": "ml-workloads", "namespace": "nowhere"')
    assert outcome(other) == ("skip", "namespace-unknown")


def test_members_of_another_case_are_other_members_as_for_the_api_server() -> None:
    """sigs.k8s.io/json is case-sensitive, so Kubernetes does not know such a field either."""
    assert outcome(with_variable(b'{"name": "AX", "NAME": "NVIDIA_VISIBLE_DEVICES", "value": "all"}')) == (
        "patch",
        "injected",
    )


@pytest.mark.parametrize("escape", [rb"\u0000", rb"\u001b[2J", rb"\u0085", rb"\u202e", rb"\n"])
@pytest.mark.parametrize(
    "place", [b'"train"', b'"ml-workloads"', UID.encode() + b'"'], ids=["name", "namespace", "uid"]
)
def test_characters_that_a_terminal_obeys_are_in_no_line_of_the_log(place: bytes, escape: bytes) -> None:
    with TemporaryFile() as log:
        post(application(KNOWN, log), REVIEW.replace(place, place[:-1] + escape + b'"', 1))
        text = written(log).decode()
    assert text.endswith("\n")
    assert text[:-1].isprintable()
