"""Several things, and durations, in words."""

import pytest

from webhook.words.duration import duration
from webhook.words.listing import counted, listed, ranges


@pytest.mark.parametrize(
    ("words", "most", "said"),
    [
        ([], None, ""),
        (["a"], None, "a"),
        (["a", "b"], None, "a and b"),
        (["a", "b", "c"], None, "a, b and c"),
        (["a", "b", "c"], 3, "a, b and c"),
        (["a", "b", "c", "d"], 2, "a, b and 2 more"),
    ],
)
def test_words_are_joined_as_in_a_sentence(words: list[str], most: int | None, said: str) -> None:
    assert listed(words, most) == said


@pytest.mark.parametrize(("number", "said"), [(0, "0 GPUs"), (1, "1 GPU"), (2, "2 GPUs")])
def test_one_thing_is_singular(number: int, said: str) -> None:
    assert counted(number, "GPU") == said


@pytest.mark.parametrize(
    ("indices", "said"),
    [([], ""), ([3], "3"), ([0, 1, 2, 3], "0-3"), ([7, 0, 2, 1], "0-2, 7"), ([0, 2, 4], "0, 2, 4"), ([4, 5], "4, 5")],
)
def test_three_indices_in_a_row_are_a_range(indices: list[int], said: str) -> None:
    assert ranges(indices) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(-5, "0 s"), (119, "119 s"), (120, "2 minutes"), (7199, "119 minutes"), (7200, "2 hours"), (172_800, "2 days")],
)
def test_durations_are_as_long_as_people_say_them(seconds: float, said: str) -> None:
    assert duration(seconds) == said
