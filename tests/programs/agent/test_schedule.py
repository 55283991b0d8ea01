"""Discovery keeps its interval; publishing backs off."""

import pytest

from webhook.programs.agent.schedule import Schedule

START = Schedule(interval=60.0, discover_at=1000.0)


def test_the_first_discovery_and_publication_are_at_once() -> None:
    assert START.wake_at == 1000.0
    assert START.may_publish(1000.0)


@pytest.mark.parametrize(("chance", "next_discovery"), [(0.0, 1054.0), (0.5, 1060.0), (0.75, 1063.0)])
def test_the_next_discovery_is_about_an_interval_later(chance: float, next_discovery: float) -> None:
    assert START.discovered(1000.0, chance).published().wake_at == pytest.approx(next_discovery)


@pytest.mark.parametrize(
    ("failures", "chance", "delay"),
    [
        (1, 0.0, 2.0),
        (1, 0.5, 3.0),
        (2, 0.0, 4.0),
        (3, 0.0, 8.0),
        (4, 0.0, 16.0),
        (7, 0.0, 128.0),
        (8, 0.0, 150.0),
        (8, 0.5, 225.0),
        (5000, 0.0, 150.0),
    ],
)
def test_each_failure_doubles_the_wait_up_to_five_minutes(failures: int, chance: float, delay: float) -> None:
    schedule = START
    for _ in range(failures):
        schedule = schedule.failed(2000.0, chance)
    assert schedule.failures == failures
    assert schedule.retry_at == pytest.approx(2000.0 + delay)


def test_the_wait_that_the_api_server_asks_for_is_kept() -> None:
    assert START.failed(2000.0, 0.0, asked=30.0).retry_at == 2030.0
    assert START.failed(2000.0, 0.5, asked=1.0).retry_at == 2003.0


def test_no_wait_is_longer_than_five_minutes() -> None:
    assert START.failed(2000.0, 0.0, asked=86400.0).retry_at == 2300.0


def test_a_retry_does_not_wait_for_the_next_discovery() -> None:
    schedule = START.discovered(1000.0, 0.5).failed(1001.0, 0.0)
    assert schedule.wake_at == 1003.0
    assert not schedule.may_publish(1002.9)
    assert schedule.may_publish(1003.0)


def test_discovery_goes_on_while_publishing_waits() -> None:
    schedule = START.discovered(1000.0, 0.5)
    for _ in range(8):
        schedule = schedule.failed(1001.0, 0.0)
    assert schedule.wake_at == 1060.0
    later = schedule.discovered(1060.0, 0.5)
    assert later.wake_at == 1120.0
    assert not later.may_publish(1060.0)
    assert later.may_publish(1151.0)


def test_success_ends_the_waiting() -> None:
    schedule = START.discovered(1000.0, 0.5).failed(1001.0, 0.0).published()
    assert schedule.failures == 0
    assert schedule.wake_at == 1060.0
    assert schedule.may_publish(1001.5)
