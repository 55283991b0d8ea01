"""The agent discovers in one thread and samples counters in another: NVML may be used by both at the same time."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

import pytest

from tests.nvml import machines
from tests.nvml.stub import Play
from webhook.hardware.discovery.counters import CounterReader
from webhook.hardware.discovery.nvml import read_nvml

ROUNDS = 40
Answer = TypeVar("Answer")


@pytest.mark.slow
def test_counters_that_are_read_meanwhile_take_no_gpu_from_discovery(play: Play) -> None:
    play(machines.h20())
    both = Barrier(2)

    def at_once(read: Callable[[], Answer]) -> list[Answer]:
        answers = []
        for _ in range(ROUNDS):
            both.wait()
            answers.append(read())
        return answers

    with ThreadPoolExecutor(max_workers=2) as threads:
        sampled = threads.submit(at_once, lambda: len(CounterReader().read()))
        discovered = threads.submit(at_once, read_nvml)
    assert {(facts.problem, len(facts.gpus)) for facts in discovered.result()} == {("", 8)}
    assert set(sampled.result()) == {8}
