"""Pods of the grammar: what they are, that their check finds what it is for, and what the longest of them cost."""

import itertools
import json
import time

import pytest

from tests.figures import ShowFigures
from tests.fuzz import effort
from tests.fuzz.grammar import FIELDS, TEXTS, WORST, Recipe, read_recipe, recipes
from tests.fuzz.scenes import Scene
from tests.fuzz.targets.pod import check_growth, decide, scene_of

LONG = 3 * 1024 * 1024
"""Bytes of the body of a request that the API server takes (apiserver pkg/server/config.go, MaxRequestBodyBytes)."""
ALLOWED = {"allowed": True}


def long_recipes() -> list[Recipe]:
    """The fields and texts that take the most work."""
    return [Recipe((part,), profile) for part in WORST for profile in ("exclusive", "pod-peers")]


@pytest.mark.parametrize("field", FIELDS)
def test_a_field_takes_as_much_of_a_pod_as_it_is_told(field: str) -> None:
    for text in TEXTS:
        small, large = (len(json.dumps(Recipe(((field, text),)).grown(size))) for size in (16_384, 65_536))
        assert 10_000 < small < 49_152, text
        assert large > 2.5 * small, text


def test_each_field_and_each_text_is_in_a_seed() -> None:
    parts = [tuple(part) for recipe in recipes() for part in recipe["parts"]]
    assert {field for field, _ in parts} == FIELDS.keys()
    assert {text for _, text in parts} == TEXTS.keys()


@pytest.mark.parametrize(
    "document",
    [None, {"parts": 7}, {"parts": [["no field", "plain"], ["arguments", []], ["arguments"]]}],
)
def test_what_is_no_recipe_makes_no_pod(document: object) -> None:
    assert read_recipe(document) is None


def test_work_that_grows_with_the_square_of_a_field_is_found() -> None:
    def compare_all(scene: Scene) -> object:
        variables = json.loads(scene.body)["request"]["object"]["spec"]["containers"][0]["env"]
        return [one["name"].startswith(other["name"]) for one, other in itertools.product(variables, repeat=2)]

    recipe = Recipe((("variables", "plain"),))
    small, large = (scene_of(recipe, ALLOWED, size) for size in (8192, 16_384))
    with pytest.raises(effort.TooMuchWork, match=r"\d+ calls for \d+ bytes, \d+ for \d+"):
        check_growth(small, large, compare_all)
    check_growth(small, large)


@pytest.mark.long
def test_the_longest_pods_take_work_with_their_length(show_figures: ShowFigures) -> None:
    figures = []
    for recipe in long_recipes():
        small, large = (scene_of(recipe, ALLOWED, size) for size in (LONG // 2, LONG - 64 * 1024))
        check_growth(small, large)
        began = time.process_time_ns()
        decide(large)
        taken = time.process_time_ns() - began
        figures.append((taken, len(large.body), recipe))
    with show_figures():
        print(f"reviews of {len(figures)} pods of up to 3 MiB, by CPU on this machine:")
        for taken, length, recipe in sorted(figures, key=lambda each: -each[0])[:5]:
            parts = ", ".join("/".join(part) for part in recipe.parts)
            print(
                f"  {taken / 1e6:5.0f} ms, {taken / length:5.1f} ns a byte: {parts}, profile {recipe.profile or 'none'}"
            )
