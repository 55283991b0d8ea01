"""How often the planner decides: soon after each change, and never so often that it slows down its neighbours."""

import pytest

from webhook.programs.planner import rounds


@pytest.mark.parametrize("spent", [0.0, 0.001, 0.04])
def test_a_rest_keeps_rounds_to_their_share_of_a_core(spent: float) -> None:
    assert spent == pytest.approx(rounds.MOST_OF_A_CORE * (spent + rounds.rest_after(spent)))


def test_no_rest_is_longer_than_the_time_between_rounds() -> None:
    assert rounds.rest_after(60.0) == rounds.EVERY_SECONDS
