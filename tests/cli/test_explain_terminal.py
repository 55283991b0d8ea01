"""``gpu-topology explain`` on a terminal: colours, width, and what stands first."""

import re

import pytest

from tests.cli.command import gpu_topology
from tests.cli.terminal import ESCAPE, on_terminal

SLOW = ("explain", "-v", "ml-workloads/slow", "--state", "examples/state")
MARKS = re.compile(r"^ *\d+\. (ok|FAIL|\?|-) ", re.MULTILINE)


@pytest.mark.parametrize("width", [60, 80, 140])
def test_lines_are_wrapped_to_the_width_of_the_terminal_and_indented(width: int) -> None:
    code, shown = on_terminal(*SLOW, width=width, NO_COLOR="1")
    lines = shown.splitlines()
    assert code == 3
    assert width - 20 < max(map(len, lines)) <= width
    assert "4 of 18 conditions fail" in lines
    wrapped = "".join(shown.split())
    assert wrapped == "".join(gpu_topology(*SLOW).out.split())


def test_a_terminal_gets_colours_unless_the_user_wants_none() -> None:
    _, coloured = on_terminal(*SLOW)
    assert f"{ESCAPE}[1;31mFAIL" in coloured
    for _, plain in (on_terminal(*SLOW, NO_COLOR="1"), on_terminal(*SLOW, TERM="dumb")):
        assert ESCAPE not in plain
        assert re.sub(ESCAPE + r"\[[\d;]*m", "", coloured) == plain


def test_a_pipe_gets_each_condition_in_one_line_without_colours() -> None:
    shown = gpu_topology(*SLOW).out
    assert ESCAPE not in shown
    assert max(map(len, shown.splitlines())) > 200
    assert len(MARKS.findall(shown)) == 18


def test_conditions_that_fail_stand_first_and_keep_their_numbers() -> None:
    shown = gpu_topology(*SLOW).out
    assert [mark == "FAIL" for mark in MARKS.findall(shown)] == [True] * 4 + [False] * 14
    numbers = [int(number) for number in re.findall(r"^ *(\d+)\. ", shown, re.MULTILINE)]
    assert numbers[:4] == [1, 2, 4, 5]
    assert sorted(numbers) == list(range(1, 19))
