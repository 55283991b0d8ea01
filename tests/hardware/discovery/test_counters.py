"""The counters of traffic: what the driver says, in bytes, link by link; and nothing that it does not say."""

import ctypes

import pytest

from tests.nvml.library import LIBRARY
from tests.nvml.machines import Machine, h20, hgx_a100, hgx_b200, hgx_h100, l40s
from tests.nvml.stub import Play
from webhook.hardware.discovery.counters import CounterReader
from webhook.hardware.discovery.facts import ByteCounter, CardCounters, Direction

TX, RX = Direction.TX, Direction.RX
KIB = 1024
ALL_LINKS = 2**32 - 1
"""The scope that stands for the sum of all links."""
IN_BYTES_TX, IN_BYTES_RX = 202, 204
DATA_TX, DATA_RX = 138, 139
PCIE_TX, PCIE_RX = 197, 198


def read(play: Play, machine: Machine) -> tuple[CardCounters, ...]:
    play(machine)
    return CounterReader().read()


def nvlink_bytes(card: CardCounters, direction: Direction) -> int | None:
    """The sum over all links; None if none of them says it."""
    found = [counter.bytes for (told, _), counter in card.nvlink.items() if told is direction]
    return sum(found) if found else None


def with_lines(*lines: str) -> Machine:
    return hgx_h100().with_card(0, lines=lines)


@pytest.fixture
def calls(play: Play) -> ctypes.CDLL:
    """The stub, which counts how often it is called."""
    play(hgx_h100())
    return ctypes.CDLL(LIBRARY)


def test_nvlink_is_the_sum_of_the_links_that_the_gpu_has(play: Play) -> None:
    first = read(play, hgx_h100().with_counters(0, nvlink_kib=(10, 20)))[0]
    assert (nvlink_bytes(first, TX), nvlink_bytes(first, RX)) == (18 * 10 * KIB, 18 * 20 * KIB)
    assert first.nvlink[RX, 17] == ByteCounter(20 * KIB, 2**64 * KIB)


def test_the_cards_are_told_apart_by_uuid(play: Play) -> None:
    machine = hgx_h100().with_counters(0, pcie=(1, 2)).with_counters(3, pcie=(5, 6))
    found = {card.uuid[-1]: card for card in read(play, machine)}
    assert found["3"].pcie == {TX: ByteCounter(5, 2**64), RX: ByteCounter(6, 2**64)}
    assert (found["3"].index, found["1"].pcie) == (3, {})


def test_what_a_driver_does_not_say_is_absent_and_not_zero(play: Play) -> None:
    for card in read(play, hgx_h100()):
        assert (card.nvlink, card.pcie, card.utilization) == ({}, {}, None)
        assert nvlink_bytes(card, TX) is None


def test_zero_is_a_value(play: Play) -> None:
    first = read(play, hgx_h100().with_counters(0, nvlink_kib=(0, 0), pcie=(0, 0), busy=0))[0]
    assert (nvlink_bytes(first, TX), first.pcie[RX].bytes, first.utilization) == (0, 0, 0.0)


def test_utilisation_is_a_share(play: Play) -> None:
    assert read(play, hgx_h100().with_counters(0, busy=87))[0].utilization == 0.87


def test_more_than_all_the_time_is_no_utilisation(play: Play) -> None:
    assert read(play, hgx_h100().with_counters(0, busy=101))[0].utilization is None


def test_a_card_without_nvlink_has_no_traffic_over_it(play: Play) -> None:
    machine = l40s().with_card(0, lines=(f"value {DATA_TX} 0 ulonglong 5", f"value {PCIE_TX} 0 ulonglong 7"))
    first = read(play, machine)[0]
    assert (first.nvlink, first.pcie) == ({}, {TX: ByteCounter(7, 2**64)})


def test_links_that_are_not_there_are_not_asked_for(play: Play) -> None:
    lines = [f"value {DATA_TX} {link} ulonglong 1" for link in range(18)]  # as NVIDIA's mock of an A100 answers
    first = read(play, hgx_a100().with_slots(18).with_card(0, lines=("slots 18 0 0", *lines)))[0]
    assert sorted(link for _, link in first.nvlink) == list(range(12))


def test_the_sum_of_the_driver_is_never_asked_for(play: Play) -> None:
    first = read(play, with_lines(f"value {DATA_TX} {ALL_LINKS} ulonglong 0", f"value {DATA_TX} 2 ulonglong 9"))[0]
    assert first.nvlink == {(TX, 2): ByteCounter(9 * KIB, 2**64 * KIB)}


def test_a_driver_that_does_not_count_its_links_has_no_traffic_over_them(play: Play) -> None:
    assert read(play, hgx_h100().with_counters(0, nvlink_kib=(1, 1)).without_link_count())[0].nvlink == {}


def test_bytes_are_preferred_to_kib(play: Play) -> None:
    lines = [f"value {IN_BYTES_TX} 0 ulonglong 5000", f"value {DATA_TX} 0 ulonglong 4"]
    first = read(play, hgx_b200().with_card(0, lines=tuple(lines)))[0]
    assert first.nvlink == {(TX, 0): ByteCounter(5000, 2**64)}


def test_the_form_that_moved_is_believed_where_the_other_answers_0(play: Play) -> None:
    lines = [f"value {IN_BYTES_TX} 0 ulonglong 0", f"value {DATA_TX} 0 ulonglong 4"]
    first = read(play, with_lines(*lines))[0]
    assert first.nvlink == {(TX, 0): ByteCounter(4 * KIB, 2**64 * KIB)}
    assert first.nvlink_forms == ({(TX, 0): ByteCounter(0, 2**64)}, first.nvlink)


def test_of_two_forms_that_stand_at_0_the_one_in_bytes_is_taken(play: Play) -> None:
    lines = [f"value {IN_BYTES_TX} 0 ulonglong 0", f"value {DATA_TX} 0 ulonglong 0"]
    assert read(play, with_lines(*lines))[0].nvlink == {(TX, 0): ByteCounter(0, 2**64)}


def test_kib_are_read_where_bytes_are_not_supported(play: Play) -> None:
    lines = [f"field {IN_BYTES_TX} 3", f"field {IN_BYTES_RX} 3", f"value {DATA_RX} 4 ulonglong 4"]
    assert read(play, with_lines(*lines))[0].nvlink == {(RX, 4): ByteCounter(4 * KIB, 2**64 * KIB)}


@pytest.mark.parametrize(("type_", "bits"), [("uint", 32), ("ulong", 64), ("ulonglong", 64), ("ushort", 16)])
def test_where_a_counter_begins_anew_follows_from_its_type(type_: str, bits: int, play: Play) -> None:
    first = read(play, with_lines(f"value {PCIE_TX} 0 {type_} 7", f"value {DATA_TX} 0 {type_} 3"))[0]
    assert first.pcie[TX] == ByteCounter(7, 2**bits)
    assert first.nvlink[TX, 0] == ByteCounter(3 * KIB, 2**bits * KIB)


@pytest.mark.parametrize(
    ("type_", "value"), [("uint", 2**32 - 1), ("ulonglong", 2**64 - 1), ("double", 4.5), ("slonglong", -1)]
)
def test_what_stands_for_no_value_is_none(type_: str, value: float, play: Play) -> None:
    assert read(play, with_lines(f"value {PCIE_TX} 0 {type_} {value}"))[0].pcie == {}


def test_a_field_with_an_error_is_left_out_and_the_others_stay(play: Play) -> None:
    machine = hgx_h100().with_counters(0, nvlink_kib=(1, 1), pcie=(3, 4))
    card = machine.cards[0]
    first = read(play, machine.with_card(0, lines=(*card.lines, f"field {PCIE_RX} 999")))[0]
    assert (first.pcie, nvlink_bytes(first, RX)) == ({TX: ByteCounter(3, 2**64)}, 18 * KIB)


def test_a_lost_gpu_is_left_out_and_the_others_stay(play: Play) -> None:
    assert [card.index for card in read(play, hgx_h100().with_lost(2))] == [0, 1, 3, 4, 5, 6, 7]


def test_a_gpu_that_is_lost_meanwhile_is_left_out(play: Play) -> None:
    machine = h20().with_error(1, "nvmlDeviceGetFieldValues", 15).with_error(2, "nvmlDeviceGetUtilizationRates", 15)
    assert 1 not in (found := [card.index for card in read(play, machine)])
    assert 2 not in found


def test_a_driver_without_fields_still_tells_utilisation(play: Play) -> None:
    machine = hgx_h100().with_counters(0, busy=50).with_lines("error nvmlDeviceGetFieldValues 13")
    assert read(play, machine)[0].utilization == 0.5


def test_without_a_driver_there_are_no_counters(play: Play) -> None:
    assert read(play, hgx_h100().with_lines("error nvmlInitWithFlags 9")) == ()
    assert read(play, hgx_h100().with_lines("error nvmlDeviceGetCount_v2 999")) == ()


def test_a_value_that_goes_away_is_gone_and_may_come_back(play: Play) -> None:
    reader, there, gone = CounterReader(), hgx_h100().with_counters(0, nvlink_kib=(1, 1)), hgx_h100()
    seen = []
    for machine in (there, gone, there, there):
        play(machine)
        seen.append(nvlink_bytes(reader.read()[0], TX))
    assert seen == [18 * KIB, None, 18 * KIB, 18 * KIB]


def test_a_reading_of_eight_cards_takes_four_calls_for_each(play: Play, calls: ctypes.CDLL) -> None:
    """Handle, UUID, fields and utilisation, and the first time the number of links; one call counts the cards."""
    machine = hgx_h100()
    for index in range(8):
        machine = machine.with_counters(index, nvlink_kib=(1, 1), pcie=(1, 1), busy=1)
    play(machine)
    reader, numbers = CounterReader(), []
    for _ in range(3):
        before = calls.nvml_stub_calls()
        reader.read()
        numbers.append(calls.nvml_stub_calls() - before)
    assert numbers == [1 + 8 * 5, 1 + 8 * 4, 1 + 8 * 4]
