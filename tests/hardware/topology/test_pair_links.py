"""From links by pair to links by GPU."""

from itertools import combinations

import pytest

from webhook.hardware.topology.model import NvLink
from webhook.hardware.topology.readers.pair_links import links_by_gpu
from webhook.words.errors import FormatError

V100, A100, H100 = 70, 80, 90


def to(target: str, links: int) -> NvLink:
    return NvLink(target=target, count=links, active=links)


def found(counts: dict[tuple[int, int], int], sm: int, *, gpus: int) -> dict[int, tuple[NvLink, ...]]:
    return links_by_gpu(counts, dict.fromkeys(range(gpus), sm), source="file a.txt")


def every_pair(gpus: int, links: int) -> dict[tuple[int, int], int]:
    return dict.fromkeys(combinations(range(gpus), 2), links)


@pytest.mark.parametrize(
    ("gpus", "links", "sm"),
    [
        pytest.param(8, 18, H100, id="HGX H100"),
        pytest.param(8, 12, A100, id="HGX A100"),
        pytest.param(16, 6, V100, id="DGX-2"),
        pytest.param(16, 6, 0, id="DGX-2 without names"),
        pytest.param(4, 18, 100, id="GB200 tray"),
        pytest.param(3, 12, 0, id="three GPUs of a board, without names"),
    ],
)
def test_more_links_than_a_chip_has_lead_to_switches(gpus: int, links: int, sm: int) -> None:
    assert found(every_pair(gpus, links), sm, gpus=gpus) == dict.fromkeys(range(gpus), (to("nvswitch", links),))


@pytest.mark.parametrize(
    ("gpus", "links", "sm"),
    [
        pytest.param(2, 12, A100, id="a bridge"),
        pytest.param(2, 18, H100, id="GH200 NVL2"),
        pytest.param(4, 4, A100, id="HGX A100 with four GPUs"),
        pytest.param(4, 6, H100, id="HGX H100 with four GPUs"),
        pytest.param(4, 6, 0, id="the same without names"),
    ],
)
def test_as_many_links_as_a_chip_has_may_be_direct(gpus: int, links: int, sm: int) -> None:
    expected = {gpu: tuple(to(f"GPU{peer}", links) for peer in range(gpus) if peer != gpu) for gpu in range(gpus)}
    assert found(every_pair(gpus, links), sm, gpus=gpus) == expected


def test_four_v100_with_six_links_by_pair_have_a_switch_if_their_name_is_known() -> None:
    assert found(every_pair(4, 6), V100, gpus=4)[0] == (to("nvswitch", 6),)


@pytest.mark.parametrize(
    ("links", "sm", "switched"),
    [(18, H100, True), (8, H100, True), (12, A100, True), (6, V100, True), (6, H100, False), (4, A100, False)],
)
def test_on_a_board_more_than_a_third_of_the_links_to_one_peer_lead_to_switches(
    *, links: int, sm: int, switched: bool
) -> None:
    every = links_by_gpu(every_pair(2, links), {0: sm, 1: sm}, source="file a.txt", on_boards=(0, 1))
    assert every[0] == ((to("nvswitch", links),) if switched else (to("GPU1", links),))


def test_partitions_of_a_board_stay_pairs() -> None:
    counts = every_pair(4, 0) | {(0, 1): 18, (2, 3): 18}
    every = links_by_gpu(counts, dict.fromkeys(range(4), H100), source="file a.txt", on_boards=range(4))
    assert every[3] == (to("GPU2", 18),)


def test_a_gpu_without_links_stays_without() -> None:
    counts = every_pair(4, 18) | {(0, 3): 0, (1, 3): 0, (2, 3): 0}
    assert found(counts, H100, gpus=4) == dict.fromkeys(range(3), (to("nvswitch", 18),)) | {3: ()}


def test_a_degraded_gpu_reaches_the_switches_by_fewer_links() -> None:
    counts = every_pair(4, 18) | {(0, 2): 10, (1, 2): 10, (2, 3): 10}
    full, degraded = (to("nvswitch", 18),), (to("nvswitch", 10),)
    assert found(counts, H100, gpus=4) == {0: full, 1: full, 2: degraded, 3: full}


def test_two_degraded_gpus_are_told_apart() -> None:
    counts = every_pair(4, 18) | {(0, 2): 10, (1, 2): 10, (2, 3): 10, (0, 3): 12, (1, 3): 12}
    links = found(counts, H100, gpus=4)
    assert (links[0], links[2], links[3]) == ((to("nvswitch", 18),), (to("nvswitch", 10),), (to("nvswitch", 12),))


def test_an_unknown_pair_contradicts_nothing() -> None:
    counts = every_pair(4, 18)
    del counts[1, 2]
    assert found(counts, H100, gpus=4) == dict.fromkeys(range(4), (to("nvswitch", 18),))


def test_switches_that_do_not_join_all_gpus_are_refused() -> None:
    counts = every_pair(3, 18) | {(one, other): 0 for one in range(3) for other in range(3, 6)}
    counts |= {(3, 4): 18, (3, 5): 18, (4, 5): 18}
    wanted = (
        r'^file a.txt: GPU0 to GPU3: expected NV18, .*, found "no NVLink". NVSwitches that are split into partitions'
    )
    with pytest.raises(FormatError, match=wanted):
        found(counts, H100, gpus=6)


def test_a_count_that_fits_to_no_gpu_is_refused() -> None:
    with pytest.raises(FormatError, match=r'^file a.txt: GPU0 to GPU1: expected NV18, .*, found "NV17"'):
        found(every_pair(4, 18) | {(0, 1): 17}, H100, gpus=4)


def test_no_gpu_has_a_hundred_links() -> None:
    with pytest.raises(FormatError, match=r'^file a.txt: GPU0 to GPU1: expected at most 72 NVLinks, found "100"'):
        found({(0, 1): 100}, H100, gpus=2)
