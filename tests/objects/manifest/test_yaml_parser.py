"""A text that cannot be read is refused with the place, and a small text does not become a huge value."""

import pytest

from webhook.objects.manifest.yaml_parser import MAX_ADDED, MAX_DEPTH, parse_yaml
from webhook.words.errors import ManifestError

REFUSED = [
    ("a: secret\na: other\n", r'^it line 2: expected YAML: found duplicate key "a"$'),
    ('"\\u202e": 1\n"\\u202e": 2\n', r'^it line 2: expected YAML: found duplicate key "\\u202e"$'),
    (
        f"{'a' * 900}: 1\n{'a' * 900}: 2\n",
        r'^it line 2: expected YAML: found duplicate key "a{139}\.\.\. \(922 characters\)$',
    ),
    ("a: \x07", r"^it line 1: expected YAML: found the control character U\+0007\. [ -~]+$"),
    ("a: [\n", r"^it line 2: expected YAML: [ -~]+$"),
    ("a:\n\tb: 1\n", r"^it line 2: .*\. Indent with blanks: YAML takes no tabs$"),
    ("a: {{ .Values.a }}\n{{- end }}\n", r"\. If this is a template, render it first"),
    ("%YAML 1.1\n", r"^it line 2: .* Remove the lines that begin with %$"),
    ("a: 1\nb: !!bool x\n", r"^it line 1: .* a value that is not of its type$"),
    ("a: &a [*a]\n", r"^it line 1: .* contains itself$"),
    ("a: " + "[" * 300 + "]" * 300, r"^it line 1: .* nested too deep"),
    ("a: " + "[" * 700 + "]" * 700, r"^it: .* nested too deep"),
]


def test_what_cannot_be_read_is_refused_with_the_place(subtests: pytest.Subtests) -> None:
    for text, said in REFUSED:
        with subtests.test(said), pytest.raises(ManifestError, match=said):
            parse_yaml(text, "it")


def doubling(levels: int, item: str = "[{}]") -> str:
    lines = ["a0: &a0 {k: v, l: w}"]
    lines += [f"a{n}: &a{n} " + item.format(", ".join([f"*a{n - 1}"] * 9)) for n in range(1, levels)]
    return "\n".join(lines)


BOMBS = {
    "aliases of aliases": doubling(30),
    "merge keys of merge keys": doubling(30, "{{<<: [{}]}}"),
    "a large mapping that many merge": f"a: &a {{{', '.join(f'k{n}: 1' for n in range(600))}}}\nb:\n"
    + "- <<: *a\n" * 200,
    "a long text": f"a: &a {'x' * 64_000}\nb: [{', '.join(['*a'] * 1000)}]\n",
    "a long key": f"a: &a {'x' * 64_000}\nb: [{', '.join(['{? *a : 1}'] * 1000)}]\n",
}


@pytest.mark.parametrize("text", BOMBS.values(), ids=BOMBS.keys())
def test_aliases_of_much_are_refused_before_they_are_written_out(text: str) -> None:
    with pytest.raises(ManifestError, match=rf"^it line \d: .* more than {MAX_ADDED} values"):
        parse_yaml(text, "it")


def test_a_few_aliases_and_a_deep_value_are_no_harm() -> None:
    (document,) = parse_yaml(doubling(4), "it")
    assert document["a1"] == [{"k": "v", "l": "w"}] * 9
    parse_yaml("[" * MAX_DEPTH + "]" * MAX_DEPTH, "it")


def test_dates_stay_texts_and_tags_of_the_author_are_ignored() -> None:
    text = "at: 2026-01-15T09:30:00Z\nno: 2026-02-30\ndata: !custom {a: !Ref b}\n"
    assert parse_yaml(text, "it") == [{"at": "2026-01-15T09:30:00Z", "no": "2026-02-30", "data": {"a": "b"}}]
