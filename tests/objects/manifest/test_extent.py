"""A small text does not become a huge value."""

import json
from typing import Any

import pytest

from webhook.objects.manifest.extent import MAX_COPIES, MAX_DEPTH, check_depth, check_extent
from webhook.objects.manifest.json_text import read_json
from webhook.objects.manifest.yaml_parser import parse_yaml
from webhook.words.errors import ManifestError


def doubling(levels: int, item: str = "[{}]") -> str:
    lines = ["a0: &a0 {k: v, l: w}"]
    lines += [f"a{n}: &a{n} " + item.format(", ".join([f"*a{n - 1}"] * 9)) for n in range(1, levels)]
    return "\n".join(lines)


def test_aliases_of_aliases_are_refused_before_they_are_written_out() -> None:
    with pytest.raises(ManifestError, match=f"^it: .* more than {MAX_COPIES} lists and mappings"):
        parse_yaml(doubling(30), "it")


def test_merge_keys_of_merge_keys_are_refused_too() -> None:
    with pytest.raises(ManifestError, match=r"^it line \d+: .*merge keys that stand for more than 10000 keys"):
        parse_yaml(doubling(30, "{{<<: [{}]}}"), "it")


@pytest.mark.slow
def test_a_large_mapping_that_many_merge_is_refused_too() -> None:
    text = f"a: &a {{{', '.join(f'k{number}: 1' for number in range(1100))}}}\nb:\n" + "- <<: *a\n" * 100
    with pytest.raises(ManifestError, match=r"^it line 9\d: .*merge keys that stand for more than 100000 keys"):
        parse_yaml(text, "it")


def test_a_long_text_that_many_aliases_repeat_is_refused() -> None:
    text = f"a: &a {'x' * 64_000}\nb: [{', '.join(['*a'] * 1000)}]\n"
    with pytest.raises(ManifestError, match=r"^it: .* aliases"):
        parse_yaml(text, "it")


def test_a_long_key_that_many_aliases_repeat_is_refused() -> None:
    text = f"a: &a {'x' * 64_000}\nb: [{', '.join(['{? *a : 1}'] * 1000)}]\n"
    with pytest.raises(ManifestError, match=r"^it: .* aliases"):
        parse_yaml(text, "it")


@pytest.mark.slow
@pytest.mark.parametrize("item", ["{number}", "k{number}: {number}"])
def test_many_short_values_that_many_aliases_repeat_are_refused(item: str) -> None:
    items = ", ".join(item.format(number=number) for number in range(6400))
    brackets = "{}" if ":" in item else "[]"
    text = f"a: &a {brackets[0]}{items}{brackets[1]}\nb: [{', '.join(['*a'] * 1000)}]\n"
    with pytest.raises(ManifestError, match=r"^it: .* aliases"):
        parse_yaml(text, "it")


def test_a_few_aliases_are_no_harm() -> None:
    (document,) = parse_yaml(doubling(4), "it")
    assert document["a1"] == [{"k": "v", "l": "w"}] * 9


@pytest.mark.slow
def test_a_large_document_without_aliases_is_no_bomb() -> None:
    document: Any = [{"a": [str(number)]} for number in range(MAX_COPIES)]
    check_extent(document, "it")


def test_json_has_no_aliases_however_often_it_repeats_a_long_key() -> None:
    text = json.dumps([{"k" * 64: 1}] * (MAX_COPIES + 1))
    ((document, *_),) = read_json(text, "it", 1)
    assert len(document) == MAX_COPIES + 1


@pytest.mark.parametrize(("opened", "closed"), [("[", "]"), ("{1: ", "}")], ids=["lists", "mappings"])
def test_both_checks_have_one_bound_of_depth(opened: str, closed: str) -> None:
    (deepest,) = parse_yaml(opened * MAX_DEPTH + closed * MAX_DEPTH, "it")
    check_depth(deepest, "it")
    for check in (check_depth, check_extent):
        with pytest.raises(ManifestError, match=r"^it: .* nested too deep \(more than 200\)$"):
            check([deepest], "it")
