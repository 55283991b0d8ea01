"""Who uses the GPUs, as NVML says."""

from tests.nvml.machines import hgx_h100
from tests.nvml.stub import Play
from webhook.hardware.discovery.usage import read_usage


def test_a_card_tells_its_processes_and_memory_without_what_the_driver_keeps(play: Play) -> None:
    play(hgx_h100().with_card(1, lines=("used 2097152", "reserved 4096", "processes 2")))
    idle, used = read_usage()[:2]
    assert (idle.processes, idle.used_bytes) == (0, 0)
    assert (used.processes, used.used_bytes) == (2, 2097152)


def test_an_old_driver_tells_memory_with_what_it_keeps(play: Play) -> None:
    play(hgx_h100().with_card(0, lines=("used 8", "reserved 4096")).with_error(0, "nvmlDeviceGetMemoryInfo_v2", 13))
    old, new = read_usage()[:2]
    assert (old.used_bytes, old.is_reserved_counted, new.is_reserved_counted) == (4104, True, False)


def test_what_a_card_does_not_say_is_absent(play: Play) -> None:
    quiet = hgx_h100()
    for function in ("ComputeRunningProcesses_v3", "GraphicsRunningProcesses_v3", "MemoryInfo_v2", "MemoryInfo"):
        quiet = quiet.with_error(0, f"nvmlDeviceGet{function}", 3)
    play(quiet)
    assert (read_usage()[0].processes, read_usage()[0].used_bytes) == (None, None)


def test_a_lost_card_says_nothing_and_the_others_do(play: Play) -> None:
    play(hgx_h100().with_lost(0))
    assert len(read_usage()) == 7


def test_without_a_driver_there_is_no_usage(play: Play) -> None:
    play(hgx_h100().with_lines("error nvmlInitWithFlags 9"))
    assert read_usage() == ()
