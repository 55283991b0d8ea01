"""What is read of NCCL's debug log."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gpu.logs import BROKEN, NVLS_ALONE, UNREAD, WITH_LINKS, WITH_NVLS, WITHOUT_LINKS
from tests.gpu.nccl_log import Channel, NcclLog, read_nccl_log


def read(text: str) -> NcclLog:
    return read_nccl_log(text.splitlines())


def test_a_job_over_nvlink() -> None:
    assert read(WITH_LINKS) == NcclLog(
        version="2.27.3",
        topology_file="/work/topology/nccl-topo.xml",
        max_bandwidth=370.8,
        channels=frozenset({Channel("0", "1", "P2P"), Channel("1", "0", "P2P")}),
    )
    assert read(WITH_LINKS).transports == {"P2P"}


def test_a_job_without() -> None:
    assert read(WITHOUT_LINKS).transports == {"SHM", "NET"}
    assert read(WITHOUT_LINKS).max_bandwidth == 48.0


def test_nvls_beside_rings_and_alone() -> None:
    assert (read(WITH_NVLS).nvls_channels, sorted(read(WITH_NVLS).transports)) == (16, ["P2P"])
    assert (read(NVLS_ALONE).nvls_channels, sorted(read(NVLS_ALONE).transports)) == (16, [])
    assert read(WITHOUT_LINKS).nvls_channels == 0


def test_a_card_of_an_old_nccl_is_named_by_its_bus_id() -> None:
    line = "host:1:1 [0] NCCL INFO Channel 00/0 : 0[1b000] -> 1[2b000] via P2P/IPC/read"
    assert read(line).channels == {Channel("1b000", "2b000", "P2P")}


def test_a_file_that_cannot_be_opened() -> None:
    found = read(UNREAD)
    assert (found.topology_file, found.is_file_opened) == ("/work/topology/nccl-topo.xml", False)


def test_a_warning() -> None:
    assert read(BROKEN).warnings == ("XML Parse error : expecting '<', got '?'",)


def test_a_list_of_channels_connects_nothing() -> None:
    assert not read("host:1:1 [0] NCCL INFO Channel 00/02 :    0   1   2   3").is_told


@pytest.mark.parametrize("said", ["via P2P/IPC", "NCCL version of my own", "maxBw 3 of P2P"])
def test_what_another_program_says_counts_for_nothing(said: str) -> None:
    assert read(f"training: {said}") == NcclLog()


def test_there_are_at_most_sixteen_warnings() -> None:
    assert len(read("\n".join(f"NCCL WARN {number}" for number in range(100))).warnings) == 16


@given(st.lists(st.one_of(st.text(), st.sampled_from((WITH_LINKS + WITHOUT_LINKS).splitlines()))))
def test_any_text_is_read(lines: list[str]) -> None:
    found = read_nccl_log(lines)
    assert found.transports <= {"P2P", "SHM", "NET"}
    assert found == read_nccl_log([*lines, ""])
