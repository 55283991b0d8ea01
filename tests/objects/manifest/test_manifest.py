"""What is not changed comes back byte for byte; what is changed has every other value as it was."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from webhook.objects.manifest.manifest import Manifest, read_yaml
from webhook.objects.manifest.pods import to_json
from webhook.words.errors import ManifestError

TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=12) | st.sampled_from(
    ["a b", "yes", "*x", "a\nb"]
)
SCALARS = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | TEXT
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=12
)
DOCUMENTS = st.dictionaries(TEXT, VALUES, min_size=1, max_size=4)
WRITERS = st.sampled_from(
    [
        lambda value: yaml.safe_dump(value, allow_unicode=True, width=2**20),
        lambda value: f"# flow\n{yaml.safe_dump(value, default_flow_style=True, width=2**20)}",
        lambda value: f"# Source: x\n{yaml.safe_dump(value)}# end\n",
        lambda value: json.dumps(value) + "\n",
        lambda value: json.dumps(value, indent=4, ensure_ascii=False) + "\n",
    ]
)
TEXTS = st.lists(st.builds(lambda write, value: (write(value), value), WRITERS, DOCUMENTS), min_size=1, max_size=3)


def add(document: Any) -> None:
    document["added by us"] = {"list": [1, "yes"]}


@given(TEXTS, st.data())
def test_a_change_of_one_document_leaves_the_others_byte_for_byte(
    written: list[tuple[str, Any]], data: st.DataObject
) -> None:
    parts = [one for one, _ in written]
    number = data.draw(st.integers(0, len(parts) - 1))
    manifest = Manifest("---\n".join(parts), "it")
    assert manifest.changed({})[1] == "---\n".join(parts)
    value = copy.deepcopy(manifest.documents[number])
    before, after = manifest.changed({number: add})
    head, tail = "".join(f"{one}---\n" for one in parts[:number]), "".join(f"---\n{one}" for one in parts[number + 1 :])
    assert after.startswith(head)
    assert after.endswith(tail)
    assert to_json(Manifest(before, "it").documents) == to_json(manifest.documents)
    again = Manifest(after, "it").documents
    assert len(again) == len(parts)
    add(value)
    assert to_json(again[number]) == to_json(value)


@given(DOCUMENTS, st.sampled_from([None, 1, 4, "\t"]))
def test_json_stays_json(value: Any, indent: int | str | None) -> None:
    manifest = Manifest(json.dumps(value, indent=indent), "it")
    assert manifest.is_json
    before, after = manifest.changed({0: add})
    assert json.loads(before) == value
    assert json.loads(after) == {**value, "added by us": {"list": [1, "yes"]}}


REFUSED = [
    pytest.param('{"a": 1,\n "b": ]}', r"^it line 2 column 7: expected JSON: Expecting value$", id="broken JSON"),
    pytest.param("a: 1\n---\nb: 1\nb: 2\n", r'^it line 4: expected YAML: found duplicate key "b"$', id="a key twice"),
    pytest.param('a: 1\n---\n{"b": 1,}', r"^it line 3 column 9: expected JSON: ", id="broken JSON after YAML"),
    pytest.param('{"a": ' + "[" * 300 + "]" * 300 + "}", r"^it: .* nested too deep", id="deep JSON"),
    pytest.param('{"a": ' + "[" * 200_000 + "]" * 200_000 + "}", r"^it: .* nested too deep", id="deeper JSON"),
    pytest.param('{"a": %s}' % ("9" * 5000), r"^it: expected JSON, found", id="too many digits"),
]


@pytest.mark.parametrize(("text", "said"), REFUSED)
def test_what_cannot_be_read_is_refused_with_the_place(text: str, said: str) -> None:
    with pytest.raises(ManifestError, match=said):
        Manifest(text, "it")


LAID_OUT = """\
metadata:
  creationTimestamp: null
  started: 2026-01-15T09:30:00Z
data: !custom {a:   !Ref b}
binary: !!binary aGVsbG8=
text: >
  folded
  twice

  and
command: ["a",
  'b']
numbers: [010, 0x1E, 1e3]
? null
: {1: &twice a, 2: &twice b}
"""


def test_before_and_after_differ_by_the_change_alone() -> None:
    before, after = Manifest(LAID_OUT, "it").changed({0: add})
    assert after == before + "added by us:\n  list:\n  - 1\n  - yes\n"
    assert "data: !custom {a: !Ref b}\n" in after


def test_documents_that_only_an_end_marker_separates_are_changed_too() -> None:
    _, after = Manifest("a: 1\n...\nb: 2\n", "it").changed({1: add})
    assert next(iter(yaml.safe_load_all(after))) == {"a": 1}
    assert Manifest(after, "it").documents[1]["added by us"] == {"list": [1, "yes"]}


def test_a_stream_of_json_is_no_yaml_and_a_mixture_is() -> None:
    assert Manifest('{"a": 1}\n{"b": 2} {"c": 3}', "it").is_json
    mixed = Manifest('{"a": 1}\n---\nb: 2\n', "it")
    assert not mixed.is_json
    assert mixed.documents == [{"a": 1}, {"b": 2}]


def test_what_is_null_is_no_document() -> None:
    assert Manifest("null\n---\n~\n---\n", "it").documents == []
    assert Manifest('{"a": 1} null', "it").documents == [{"a": 1}]


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(b"a: \xff\n")
    with pytest.raises(ManifestError, match=f"^{path}: cannot be read: it is not UTF-8: "):
        read_yaml(path)
    with pytest.raises(ManifestError, match=f"^{tmp_path}: cannot be read: Is a directory$"):
        read_yaml(tmp_path)
