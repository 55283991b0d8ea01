"""``--preflight``: what was tried goes with the topology, and when it is tried again."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from threading import Event

import pytest

from tests.hardware.topology.machines import dgx1_v100, h20
from tests.programs.agent.test_measuring import AT, Lines, log
from tests.programs.server.conftest import until
from webhook.hardware.topology.model import NodeTopology, Preflight, Trial, TrialResult
from webhook.hardware.topology.preflight import AGAIN_AFTER, AT_START_AFTER, NOT_PROMISED, NOT_TRIED
from webhook.programs.agent.log import AgentLog
from webhook.programs.agent.preflight import PreflightTrials
from webhook.programs.agent.rounds import begin_in_turn
from webhook.words.errors import GpuTopologyError
from webhook.words.timestamp import format_timestamp

__all__ = ["log"]

WORKS, UNKNOWN = Trial(result=TrialResult.WORKS), Trial(result=TrialResult.UNKNOWN, problem="no answer")
FAILS = Trial(result=TrialResult.FAILS, problem="cuMulticastBindMem returned 401")


def results(multicast: Trial, at: datetime = AT) -> Preflight:
    return Preflight(at=format_timestamp(at), multicast=multicast, fabric=WORKS)


def trials(log: Lines, attempt: Callable[[str], Preflight]) -> PreflightTrials:
    """As of an agent that has just started; each attempt is counted."""

    def count(at: str) -> Preflight:
        log.counted.append(None)
        return attempt(at)

    return PreflightTrials(count, AgentLog(log.descriptor, node="node-1"))


def finding(multicast: Trial) -> Callable[[str], Preflight]:
    return lambda at: Preflight(at=at, multicast=multicast, fabric=WORKS)


def busy(_: str) -> Preflight:
    raise GpuTopologyError("0 of 8 GPUs are free")


def round_of(
    trial: PreflightTrials, at: datetime, published: NodeTopology | None = None, *, now: NodeTopology | None = None
) -> NodeTopology:
    """What one round publishes; it returns when nothing is tried any more."""
    topology = trial.announced(trial.told(now or h20()), published, at)
    trial.begin()
    until(lambda: not trial.is_running, "the end of the trials")
    return topology


def test_it_is_announced_tried_once_and_told(log: Lines) -> None:
    trial = trials(log, finding(WORKS))
    announced = round_of(trial, AT)
    assert announced.preflight == Preflight(at=format_timestamp(AT), multicast=NOT_TRIED, fabric=NOT_TRIED)
    assert round_of(trial, AT + timedelta(days=9)).preflight == results(WORKS)
    assert len(log.counted) == 1
    (line,) = log.read()
    assert (line["level"], line["message"], line["multicast"], line["fabric"]) == ("info", "tried", "works", "works")


def test_a_failure_is_logged_with_its_cause_and_tried_again_after_an_hour(log: Lines) -> None:
    trial = trials(log, finding(FAILS))
    for minutes, times in ((0, 1), (30, 1), (60, 2)):
        round_of(trial, AT + timedelta(minutes=minutes))
        assert len(log.counted) == times
    assert {(line["level"], line["multicast"]) for line in log.read()} == {
        ("warning", "fails: cuMulticastBindMem returned 401")
    }
    assert trial.told(h20()).preflight == results(FAILS, AT + timedelta(hours=1))


def test_while_no_card_is_free_earlier_results_hold(log: Lines) -> None:
    trial = trials(log, busy)
    published = replace(h20(), preflight=results(FAILS))
    later = AT + timedelta(hours=2)
    assert round_of(trial, later, published).preflight == results(FAILS, later)
    assert [line["text"] for line in log.read()] == ["0 of 8 GPUs are free"]


def test_a_bug_is_told_and_ends_nothing(log: Lines) -> None:
    def odd(_: str) -> Preflight:
        raise ZeroDivisionError("an odd driver")

    round_of(trials(log, odd), AT)
    assert "an odd driver" in str(log.read())


@pytest.mark.parametrize(
    ("published", "later", "tries"),
    [
        (None, timedelta(0), True),
        (results(WORKS), AT_START_AFTER - timedelta(seconds=1), False),
        (results(WORKS), AT_START_AFTER, True),
        (results(UNKNOWN), AGAIN_AFTER - timedelta(seconds=1), False),
        (results(UNKNOWN), AGAIN_AFTER, True),
        (results(NOT_PROMISED), AT_START_AFTER - timedelta(seconds=1), False),
        (results(NOT_PROMISED), AT_START_AFTER, True),
        (replace(results(WORKS), at="yesterday"), timedelta(0), True),
        (results(WORKS, AT + timedelta(days=400)), timedelta(0), True),
    ],
    ids=[
        "never",
        "works",
        "worked a day ago",
        "not known",
        "not known for an hour",
        "promised nothing",
        "promised nothing a day ago",
        "at no time",
        "in the future",
    ],
)
def test_an_agent_that_starts_anew_goes_by_what_was_published(
    published: Preflight | None, later: timedelta, log: Lines, *, tries: bool
) -> None:
    round_of(trials(log, finding(WORKS)), AT + later, replace(h20(), preflight=published))
    assert len(log.counted) == tries


def test_results_of_another_driver_do_not_count(log: Lines) -> None:
    trial = trials(log, finding(WORKS))
    published = replace(h20(), preflight=results(FAILS), driver_version="1.0")
    assert round_of(trial, AT, published).preflight == Preflight(
        at=format_timestamp(AT), multicast=NOT_TRIED, fabric=NOT_TRIED
    )
    newer = replace(h20(), driver_version="999.0")
    assert trial.told(newer).preflight is None
    round_of(trial, AT + timedelta(minutes=1), now=newer)
    assert len(log.counted) == 2


def test_a_driver_that_gives_no_answer_for_a_while_takes_nothing_back(log: Lines) -> None:
    trial = trials(log, finding(FAILS))
    round_of(trial, AT)
    mute = replace(h20(), driver_version="", gpus=(), problem="NVML does not start")
    assert round_of(trial, AT + timedelta(minutes=1), now=mute).preflight is None
    assert round_of(trial, AT + timedelta(minutes=2)).preflight == results(FAILS)
    assert len(log.counted) == 1


@pytest.mark.parametrize(("then", "expected"), [(UNKNOWN, FAILS), (WORKS, WORKS)], ids=["not known", "works"])
def test_a_failure_holds_until_it_works(then: Trial, expected: Trial, log: Lines) -> None:
    later = AT + timedelta(hours=2)
    trial = trials(log, finding(then))
    round_of(trial, later, replace(h20(), preflight=results(FAILS)))
    assert trial.told(h20()).preflight == results(expected, later)


def test_work_waits_for_other_work_on_the_cards(log: Lines) -> None:
    ended = Event()

    def slow(_: str) -> Preflight:
        ended.wait(60)
        return results(WORKS)

    first, second = trials(log, finding(FAILS)), trials(log, slow)
    second.announced(h20(), None, AT)
    begin_in_turn((first, second))
    first.announced(h20(), None, AT)
    begin_in_turn((first, second))
    assert (first.is_running, second.is_running, len(log.counted)) == (False, True, 1)
    ended.set()
    until(lambda: not second.is_running, "the end of the other work")
    begin_in_turn((first, second))
    until(lambda: not first.is_running, "the end of the trials")
    assert first.told(h20()).preflight == results(FAILS)


def test_where_nccl_has_no_nvlink_sharp_nothing_is_tried(log: Lines) -> None:
    assert round_of(trials(log, finding(WORKS)), AT, now=dgx1_v100()).preflight is None
    assert log.counted == []
