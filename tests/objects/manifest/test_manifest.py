"""What is not changed comes back byte for byte; what is changed has every other value as it was."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from webhook.objects.manifest.documents import read_yaml
from webhook.objects.manifest.extent import MAX_YAML
from webhook.objects.manifest.manifest import Manifest
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
        lambda value: yaml.safe_dump(value, default_flow_style=True, width=2**20),
        lambda value: f"# Source: x\n{yaml.safe_dump(value)}# end\n",
        lambda value: json.dumps(value) + "\n",
        lambda value: json.dumps(value, indent=4, ensure_ascii=False) + "\n",
    ]
)
TEXTS = st.lists(st.builds(lambda write, value: (write(value), value), WRITERS, DOCUMENTS), min_size=1, max_size=3)


def add(document: Any) -> None:
    document["added by us"] = {"list": [1, "yes"]}


@given(TEXTS)
def test_a_text_that_is_left_alone_comes_back_byte_for_byte(written: list[tuple[str, Any]]) -> None:
    text = "---\n".join(one for one, _ in written)
    assert Manifest(text, "it").text({}) == text


@given(TEXTS, st.data())
def test_a_change_of_one_document_leaves_the_others_byte_for_byte(
    written: list[tuple[str, Any]], data: st.DataObject
) -> None:
    parts = [one for one, _ in written]
    number = data.draw(st.integers(0, len(parts) - 1))
    manifest = Manifest("---\n".join(parts), "it")
    before = manifest.documents[number].value
    after = manifest.text({number: add})
    head, tail = "".join(f"{one}---\n" for one in parts[:number]), "".join(f"---\n{one}" for one in parts[number + 1 :])
    assert after.startswith(head)
    assert after.endswith(tail)
    again = Manifest(after, "it").documents
    assert len(again) == len(parts)
    add(before)
    assert to_json(again[number].value) == to_json(before)


@given(DOCUMENTS, st.sampled_from([None, 1, 4, "\t"]))
def test_json_stays_json_with_the_indentation_of_its_author(value: Any, indent: int | str | None) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    (document,) = Manifest(text, "it").documents
    assert document.is_json
    after = document.changed(add)
    expected = {**value, "added by us": {"list": [1, "yes"]}}
    assert json.loads(after) == expected
    assert after == json.dumps(expected, indent=indent, ensure_ascii=text.isascii())


REFUSED = [
    pytest.param('{"a": 1,\n "b": ]}', r"^it line 2 column 7: expected JSON: Expecting value$", id="broken JSON"),
    pytest.param('{"a": 1,\n "a": 2}', r'^it line 1: expected JSON, found key "a" twice', id="a key twice in JSON"),
    pytest.param("a: 1\n---\nb: 1\nb: 2\n", r'^it line 4: expected YAML: found duplicate key "b"$', id="a key twice"),
    pytest.param("a: 1\n---\n\tb: 1\n", r"^it line 3: .*\. Indent with blanks: YAML takes no tabs$", id="a tab"),
    pytest.param("a: {{ .Values.a }}\n{{- end }}\n", r"\. If this is a template, render it first", id="a template"),
    pytest.param("---\na: \x00\n", r"^it line 2: .* U\+0000", id="a NUL"),
    pytest.param("a: 1\n---\nb: 2026-02-30\n", r"^it line 3: .* a value that is not of its type$", id="no date"),
    pytest.param("a: &a [*a]\n", r"^it: expected a manifest, found one that contains itself$", id="itself"),
    pytest.param("a: " + "[" * 300 + "]" * 300, r"^it: .* nested too deep", id="deep YAML"),
    pytest.param('{"a": ' + "[" * 300 + "]" * 300 + "}", r"^it: .* nested too deep", id="deep JSON"),
    pytest.param(
        '{"a": ' + "[" * 20_000 + "]" * 20_000 + "}",
        r"^it: .* nested too deep",
        id="deeper JSON",
        marks=pytest.mark.slow,
    ),
    pytest.param("a\r---\rb\r", r"^it line 1: expected lines of their own", id="line ends of old"),
    pytest.param('{"a": %s}' % ("9" * 5000), r"^it: expected JSON, found", id="too many digits"),
    pytest.param("a: " + "x" * MAX_YAML, r"^it: expected at most 8 MiB of YAML, found more\. Give JSON", id="too long"),
]


@pytest.mark.parametrize(("text", "said"), REFUSED)
def test_what_cannot_be_read_is_refused_with_the_place(text: str, said: str) -> None:
    with pytest.raises(ManifestError, match=said):
        Manifest(text, "it")


def test_tags_of_the_author_are_passed_over_and_stay() -> None:
    text = "data: !custom {a: !Ref b}\nbinary: !!binary aGVsbG8=\n"
    (document,) = (manifest := Manifest(text, "it")).documents
    assert document.value["data"] == {"a": "b"}
    assert manifest.text({0: add}).startswith("data: !custom {a: !Ref b}\n")


def test_a_stream_of_json_is_no_yaml_and_a_mixture_is() -> None:
    assert Manifest('{"a": 1}\n{"b": 2} {"c": 3}', "it").is_json
    mixed = Manifest('{"a": 1}\n---\nb: 2\n', "it")
    assert not mixed.is_json
    assert [one.value for one in mixed.documents] == [{"a": 1}, {"b": 2}]


def test_what_is_null_is_no_document() -> None:
    assert Manifest("null\n---\n~\n---\n", "it").documents == []
    assert Manifest("null {}", "it").documents != []


@pytest.mark.slow
def test_the_limits_of_a_text_hold_for_all_its_documents_together() -> None:
    with pytest.raises(ManifestError, match=r"^it: expected at most 8 MiB of YAML, found more"):
        Manifest(f"a: {'x' * 9000}\n---\nb: {'x' * (MAX_YAML - 9000)}\n", "it")
    merging = f"a: &a {{{', '.join(f'k{number}: 1' for number in range(600))}}}\nb:\n" + "- <<: *a\n" * 100
    with pytest.raises(ManifestError, match=r"^it line \d+: .*merge keys that stand for more than 100000 keys"):
        Manifest(f"{merging}---\n{merging}", "it")


def test_files_of_others_have_the_limits_of_a_manifest(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    for text, said in (
        ('{"a": ' + "[" * 300 + "]" * 300 + "}", "nested too deep"),
        ("a: " + "x" * MAX_YAML, "expected at most 8 MiB of YAML"),
        ("a: !Ref b\n", "expected YAML"),
    ):
        path.write_text(text)
        with pytest.raises(ManifestError, match=f"^{path}.*{said}"):
            read_yaml(path)
