"""Inputs that are bent: by their structure, and alike for equal chance."""

import itertools
import json
from random import Random
from typing import Any

import pytest

from tests.fuzz.catalogue import LONGEST, NAMES, bent, find_target
from tests.fuzz.mutation import bent_json, bent_lines, inner_document, seen_in

POD: dict[str, Any] = {
    "metadata": {"annotations": {"gpu.topology/profile": "pod-peers", "doc": '{"gpu":[{"minor":0}]}'}},
    "spec": {"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}]}]},
}
BODY = json.dumps(POD).encode()
SEEN = seen_in([POD, {"spec": {"hostIPC": True}}])
MADE = [made for seed in range(600) if (made := bent_json(BODY, Random(seed), SEEN))]


@pytest.mark.parametrize("name", NAMES)
def test_equal_chance_gives_equal_inputs(name: str) -> None:
    target = find_target(name)
    one, other = (list(itertools.islice(bent(target, Random(7)), 5)) for _ in range(2))
    assert one == other
    assert len(set(one)) > 3
    assert all(len(data) <= LONGEST for data in one)


def test_most_of_what_is_bent_is_json_and_differs() -> None:
    documents = [found for made in MADE if (found := inner_document(made.decode())) is not None]
    assert len(documents) > 500
    assert sum(document != POD for document in documents) > 400


@pytest.mark.parametrize(
    "part",
    [
        pytest.param(b'"hostIPC":true', id="a member that a seed has there"),
        pytest.param(b'"gpu.topology/', id="a word of ours"),
        pytest.param(b'"name":"a39"', id="many entries, each with its own name"),
        pytest.param(rb"{\"gpu\":[]}", id="JSON in a text is bent as JSON"),
        pytest.param(b"[[[[[[[[[[", id="what no value can say is put into the finished text"),
    ],
)
def test_an_input_gets(part: bytes) -> None:
    assert any(part in made for made in MADE)
    assert part == b'"gpu.topology/' or part not in BODY


@pytest.mark.parametrize("data", [b"\xff", b"7", b"[" * 100_000])
def test_what_is_no_json_document_is_left_to_others(data: bytes) -> None:
    assert bent_json(data, Random(1), SEEN) is None


def test_texts_are_bent_by_lines_and_words_and_keep_bytes_that_are_no_utf_8() -> None:
    known = ["GPU0 X NV1", "GPU1 NV1 X"]
    made = {bent_lines(b"GPU0 \xff X\nGPU1 SYS X\n", Random(seed), known) for seed in range(200)}
    assert any(b"\xff" in data for data in made)
    assert any(data.count(b"\n") > 30 for data in made)
    assert any(b"NV1" in data for data in made)
