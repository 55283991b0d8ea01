"""From counters that begin anew to totals that only grow, and to what the cards did lately."""

from collections.abc import Callable, Iterator, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hardware.traffic.windows import AT, MB
from webhook.hardware.discovery.facts import ByteCounter, CardCounters, Direction
from webhook.hardware.traffic.model import Window, format_traffic, parse_traffic, unused
from webhook.programs.agent.growth import LENGTHS, MOST_BYTES_PER_SECOND, CardTotals, Growth

TX, RX = Direction.TX, Direction.RX
A = "GPU-a"
WIDE, NARROW = 2**64, 2**32


def card(
    nvlink: int | None = None,
    *,
    pcie: int | None = None,
    busy: float | None = None,
    uuid: str = A,
    links: int = 1,
    anew: int = WIDE,
) -> CardCounters:
    """A card whose counters are all the same in both directions."""
    counter = None if nvlink is None else ByteCounter(nvlink, anew)
    return CardCounters(
        index=0,
        uuid=uuid,
        nvlink={(way, link): counter for way in Direction for link in range(links)} if counter else {},
        pcie=dict.fromkeys(Direction, ByteCounter(pcie, anew)) if pcie is not None else {},
        utilization=busy,
    )


def totals(*readings: CardCounters | None, step: float = 15.0) -> Iterator[Mapping[str, CardTotals]]:
    growth = Growth()
    for number, reading in enumerate(readings):
        yield growth.add((reading,) if reading else (), step * number)


def sent(*readings: CardCounters | None) -> list[int | None]:
    """The total over NVLink after each reading."""
    return [found[A].nvlink.get(TX) if A in found else None for found in totals(*readings)]


def test_a_total_begins_with_zero_and_grows_with_its_counters() -> None:
    assert sent(card(10**15), card(10**15 + 7), card(10**15 + 9)) == [0, 7, 9]


def test_the_links_are_added_up() -> None:
    assert sent(card(5, links=18), card(6, links=18)) == [0, 18]


def test_a_driver_that_is_loaded_anew_takes_nothing_off() -> None:
    assert sent(card(10**12), card(10**12 + 100), card(3), card(10)) == [0, 100, 100, 107]


def test_a_counter_of_32_bits_goes_round() -> None:
    assert sent(card(NARROW - 10, anew=NARROW), card(5, anew=NARROW)) == [0, 15]


def test_a_jump_that_no_link_can_carry_is_no_traffic() -> None:
    assert sent(card(0), card(int(MOST_BYTES_PER_SECOND * 15) + 1), card(int(MOST_BYTES_PER_SECOND * 15) + 2)) == [
        0,
        0,
        1,
    ]


def test_one_counter_that_begins_anew_means_that_all_did() -> None:
    before = CardCounters(
        index=0, uuid=A, nvlink={(TX, 0): ByteCounter(10**12, WIDE)}, pcie={TX: ByteCounter(NARROW - 1, NARROW)}
    )
    after = CardCounters(index=0, uuid=A, nvlink={(TX, 0): ByteCounter(5, WIDE)}, pcie={TX: ByteCounter(9, NARROW)})
    *_, last = totals(before, after)
    assert (last[A].nvlink[TX], last[A].pcie[TX]) == (0, 0)


def test_a_counter_that_changes_its_type_begins_anew() -> None:
    assert sent(card(7, anew=NARROW), card(9), card(10)) == [0, 0, 1]


def test_a_link_that_is_silent_once_is_caught_up_with() -> None:
    assert sent(card(0, links=2), card(10, links=1), card(20, links=2)) == [0, 10, 40]


def test_what_is_not_told_any_more_is_absent_and_goes_on_where_it_was() -> None:
    assert sent(card(0), card(10), card(None, busy=1.0), card(15)) == [0, 10, None, 15]


def test_a_card_that_is_lost_is_gone_and_goes_on_where_it_was() -> None:
    assert sent(card(0), card(10), None, card(15)) == [0, 10, None, 15]


def test_cards_are_known_by_uuid() -> None:
    growth = Growth()
    growth.add((card(0), card(0, uuid="GPU-b")), 0.0)
    found = growth.add((card(5, uuid="GPU-b"), card(3)), 15.0)
    assert (found[A].nvlink[TX], found["GPU-b"].nvlink[TX]) == (3, 5)


def test_what_is_not_told_has_no_total() -> None:
    assert next(iter(totals(card()))) == {A: CardTotals(index=0)}


def test_the_used_time_is_weighted_with_the_utilisation() -> None:
    *_, last = totals(*(card(busy=share) for share in (1.0, 0.5, 0.49, 1.0)))
    assert last[A].used == pytest.approx(15 * (0.5 + 0.49 + 1.0))


def test_a_sample_stands_for_a_minute_at_most() -> None:
    *_, last = totals(card(busy=1.0), card(busy=1.0), step=3600.0)
    assert last[A].used == 60.0


@given(st.lists(st.none() | st.tuples(st.integers(0, 2**64 - 2), st.sampled_from([NARROW, WIDE])), max_size=30))
def test_totals_never_fall_and_never_jump(readings: list[tuple[int, int] | None]) -> None:
    given_ = [
        None if each is None else card(each[0] % each[1], pcie=each[0] % each[1], anew=each[1]) for each in readings
    ]
    last, gap = {"nvlink": 0, "pcie": 0}, 1
    for found in totals(*given_):
        if A not in found:
            gap += 1
            continue
        now = {"nvlink": found[A].nvlink[TX], "pcie": found[A].pcie[TX]}
        assert all(0 <= now[carrier] - before <= MOST_BYTES_PER_SECOND * 15 * gap for carrier, before in last.items())
        last = now
        gap = 1


def after(hours: float, reading: Callable[[float], CardCounters], step: float = 15.0) -> Growth:
    """So long a time in which the card was read."""
    growth = Growth()
    for number in range(int(hours * 3600 / step) + 1):
        growth.add((reading(number * step),), number * step)
    return growth


def test_the_windows_are_as_long_as_promised() -> None:
    windows = after(2, lambda at: card(int(at * MB), pcie=int(at), busy=0.8)).traffic(AT).cards[A]
    assert tuple(each.seconds for each in windows) == LENGTHS
    assert all(each.nvlink == 2 * MB * each.seconds for each in windows)
    assert {each.utilization for each in windows} == {0.8}


def test_where_samples_are_rare_one_window_is_as_long_as_their_distance() -> None:
    assert [each.seconds for each in after(2, lambda at: card(int(at)), step=600).traffic(AT).cards[A]] == [600]


def test_readings_with_next_to_equal_ages_are_one_window() -> None:
    growth = Growth()
    for at in (0.0, 0.4, 300.3):
        growth.add((card(int(at)),), at)
    assert [each.seconds for each in growth.traffic(AT).cards[A]] == [300]


def test_a_young_agent_tells_what_it_has_watched() -> None:
    assert [each.seconds for each in after(0.05, lambda at: card(int(at))).traffic(AT).cards[A]] == [60]


def test_a_first_reading_tells_nothing() -> None:
    assert after(0.0, lambda _: card(5)).traffic(AT).cards == {A: ()}
    assert Growth().traffic(AT).cards == {}


def test_no_window_reaches_behind_a_driver_that_was_loaded_anew() -> None:
    windows = after(1, lambda at: card(int(10**12 + at if at < 3450 else at))).traffic(AT).cards[A]
    assert [each.seconds for each in windows] == [60]


def test_few_earlier_readings_are_kept_however_long_the_agent_runs() -> None:
    assert after(48, lambda at: card(int(at))).kept <= 300 / 15 + 1


def test_what_is_not_told_is_absent_from_windows() -> None:
    windows = after(0.2, lambda at: card(None, pcie=int(at))).traffic(AT).cards[A]
    assert windows[0] == Window(seconds=60, pcie=120)


def test_what_the_agent_writes_is_what_readers_judge() -> None:
    growth = Growth()
    for number in range(30):
        at = number * 15.0
        growth.add([card(123, pcie=int(at * 50 * MB), busy=0.99, uuid=uuid) for uuid in (A, "GPU-b")], at)
    read = parse_traffic(format_traffic(growth.traffic(AT)), "a Lease")
    found = unused(read, (A, "GPU-b"), AT.replace(hour=2))
    assert found
    assert found.nvlink == 0
