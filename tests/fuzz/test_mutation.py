"""Inputs that are bent: by their structure, and alike for equal chance."""

import itertools
import json
from random import Random
from typing import Any

import pytest

from tests.fuzz.catalogue import LONGEST, NAMES, bent, find_target
from tests.fuzz.mutation import JsonMutator, TextMutator
from tests.fuzz.vocabulary import DEEP, RAW, Vocabulary, inner_document

POD: dict[str, Any] = {
    "metadata": {"annotations": {"gpu.topology/profile": "pod-peers", "doc": '{"gpu":[{"minor":0}]}'}},
    "spec": {"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}]}]},
}
BODY = json.dumps(POD).encode()
MUTATOR = JsonMutator(Vocabulary.of([POD]))


def many(count: int = 400) -> list[bytes]:
    """What becomes of one pod by so many chances."""
    return [made for seed in range(count) if (made := MUTATOR.mutate(BODY, Random(seed)))]


def documents() -> list[Any]:
    """Those of them that JSON readers take."""
    found = []
    for made in many():
        try:
            found.append(json.loads(made))
        except (ValueError, RecursionError):
            continue
    return found


@pytest.mark.parametrize("name", NAMES)
def test_equal_chance_gives_equal_inputs(name: str) -> None:
    target = find_target(name)
    one, other = (list(itertools.islice(bent(target, Random(7)), 5)) for _ in range(2))
    assert one == other
    assert len(set(one)) > 3
    assert all(len(data) <= LONGEST for data in one)


def test_most_of_what_is_bent_is_json_and_differs() -> None:
    found = documents()
    assert len(found) > 350
    assert sum(document != POD for document in found) > 250


def test_members_are_added_where_the_seeds_have_them() -> None:
    known = Vocabulary.of([POD, {"spec": {"hostIPC": True}}])
    mutator = JsonMutator(known)
    made = [mutator.mutate(BODY, Random(seed)) or b"" for seed in range(400)]
    assert any(b'"hostIPC":true' in data for data in made)
    assert known.members["spec"].keys() == {"containers", "hostIPC"}


def test_words_of_ours_are_put_among_the_annotations() -> None:
    found = [document.get("metadata") for document in documents() if isinstance(document, dict)]
    annotations = [
        document["annotations"] for document in found if isinstance(document, dict) and document.get("annotations")
    ]
    keys = {key for annotation in annotations if isinstance(annotation, dict) for key in annotation}
    assert {key for key in keys if key.startswith("gpu.topology/")} > {"gpu.topology/profile"}


def test_entries_are_repeated_under_names_of_their_own() -> None:
    lists = [document["spec"]["containers"] for document in documents() if _has_containers(document)]
    longest = max(lists, key=len)
    assert len(longest) > 200
    assert any(len({document["name"] for document in found}) == len(found) > 30 for found in lists if _named(found))


def _has_containers(document: Any) -> bool:
    spec = document.get("spec") if isinstance(document, dict) else None
    return isinstance(spec, dict) and isinstance(spec.get("containers"), list)


def _named(entries: list[Any]) -> bool:
    return bool(entries) and all(isinstance(entry, dict) and isinstance(entry.get("name"), str) for entry in entries)


def test_json_in_a_text_is_bent_as_json() -> None:
    texts = [
        document["metadata"]["annotations"]["doc"]
        for document in documents()
        if isinstance(document, dict)
        and isinstance(document.get("metadata"), dict)
        and isinstance(document["metadata"].get("annotations"), dict)
        and isinstance(document["metadata"]["annotations"].get("doc"), str)
    ]
    changed = {text for text in texts if text != POD["metadata"]["annotations"]["doc"]}
    assert any(text.startswith('{"gpu":[{"minor":') and inner_document(text) for text in changed)


def test_what_no_value_can_say_is_put_into_the_finished_text() -> None:
    assert any(b"[[[[[[" in made for made in many())
    assert not any(DEEP.encode() in made for made in many() if made.startswith(b"{"))
    assert RAW[json.dumps(DEEP)].startswith("[[[")


def test_what_is_no_json_is_left_to_others() -> None:
    assert MUTATOR.mutate(b"\xff", Random(1)) is None
    assert MUTATOR.mutate(b"7", Random(1)) is None
    assert MUTATOR.cross(BODY, b"\xff", Random(1)) is None


def test_a_part_of_another_input_takes_the_place_of_one_of_that_name() -> None:
    other = b'{"spec":{"containers":[{"name":"b"}]}}'
    made = {MUTATOR.cross(BODY, other, Random(seed)) for seed in range(50)}
    assert any(b'"b"' in data for data in made if data)
    assert MUTATOR.cross(BODY, b'{"x":1}', Random(1)) is None


def test_texts_are_bent_by_lines_and_words_and_keep_bytes_that_are_no_utf_8() -> None:
    mutator = TextMutator([b"GPU0 X NV1\nGPU1 NV1 X\n"])
    made = {mutator.mutate(b"GPU0 \xff X\nGPU1 SYS X\n", Random(seed)) or b"" for seed in range(200)}
    assert any(b"\xff" in data for data in made)
    assert any(data.count(b"\n") > 30 for data in made)
    assert any(b"NV1" in data for data in made)
    assert mutator.cross(b"a\nb\n", b"c\nd\n", Random(3)) is not None
