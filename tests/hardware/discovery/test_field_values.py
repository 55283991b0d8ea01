"""Field values come back with the type and the error that NVML gives each of them."""

from typing import Any

import pynvml  # type: ignore[import-untyped]  # NVIDIA's bindings carry no types
import pytest

from tests.nvml.machines import h20
from tests.nvml.stub import Play
from webhook.hardware.discovery.facts import FieldValue, ValueType
from webhook.hardware.discovery.field_values import read_fields

TIME = 1_700_000_000_000_000
DATA_TX, DATA_RX = 138, 139
"""Payload of an NVLink in KiB since the driver was loaded; the scope is the link."""
ALL_LINKS = 2**32 - 1
"""The scope that stands for the sum of all links."""


class Gpu:
    """The first GPU of a machine whose fields have these values."""

    def __init__(self, play: Play) -> None:
        self._play = play

    def read(self, lines: list[str], *ids: int | tuple[int, int]) -> tuple[FieldValue, ...]:
        self._play(h20().with_card(0, lines=tuple(lines)))
        pynvml.nvmlInit()
        try:
            return read_fields(pynvml.nvmlDeviceGetHandleByIndex(0), ids)
        finally:
            pynvml.nvmlShutdown()


@pytest.fixture
def gpu(play: Play) -> Gpu:
    return Gpu(play)


@pytest.mark.parametrize(
    ("word", "type_", "value"),
    [
        ("double", ValueType.DOUBLE, 0.25),
        ("double", ValueType.DOUBLE, -3.5),
        ("uint", ValueType.UNSIGNED_INT, 2**32 - 1),
        ("ulong", ValueType.UNSIGNED_LONG, 2**64 - 1),
        ("ulonglong", ValueType.UNSIGNED_LONG_LONG, 2**64 - 1),
        ("ulonglong", ValueType.UNSIGNED_LONG_LONG, 2**32),
        ("slonglong", ValueType.SIGNED_LONG_LONG, -(2**63)),
        ("slonglong", ValueType.SIGNED_LONG_LONG, 2**63 - 1),
        ("sint", ValueType.SIGNED_INT, -(2**31)),
        ("ushort", ValueType.UNSIGNED_SHORT, 2**16 - 1),
    ],
)
def test_a_value_is_read_by_its_type(word: str, type_: ValueType, value: float, gpu: Gpu) -> None:
    found = gpu.read([f"value {DATA_TX} 3 {word} {value}"], (DATA_TX, 3))
    assert found == (FieldValue(field=DATA_TX, scope=3, value=value, type=type_, timestamp_us=TIME),)
    assert type(found[0].value) is type(value)


def test_a_counter_of_more_than_four_tebibytes_does_not_begin_anew(gpu: Gpu) -> None:
    (found,) = gpu.read([f"value {DATA_TX} 0 ulonglong {5 * 2**30}"], DATA_TX)
    assert found.value == 5 * 2**30  # KiB: 5 TiB; its lower 32 bits are 1 TiB


def test_a_counter_that_a_driver_gives_in_32_bits_says_so(gpu: Gpu) -> None:
    (found,) = gpu.read([f"value {DATA_TX} 0 uint 7"], DATA_TX)
    assert (found.value, found.type) == (7, ValueType.UNSIGNED_INT)


def test_the_answers_stand_in_the_order_of_the_question_each_with_its_scope(gpu: Gpu) -> None:
    lines = [f"value {DATA_TX} 0 ulonglong 1", f"value {DATA_TX} 1 ulonglong 2", f"value {DATA_RX} 0 ulonglong 3"]
    found = gpu.read(lines, (DATA_RX, 0), (DATA_TX, 1), 91, (DATA_TX, 0))
    assert [(value.field, value.scope, value.value) for value in found] == [
        (DATA_RX, 0, 3),
        (DATA_TX, 1, 2),
        (91, 0, 18),
        (DATA_TX, 0, 1),
    ]


def test_the_sum_of_all_links_is_a_scope_of_its_own(gpu: Gpu) -> None:
    (found,) = gpu.read([f"value {DATA_TX} {ALL_LINKS} ulonglong 9"], (DATA_TX, ALL_LINKS))
    assert (found.scope, found.value) == (ALL_LINKS, 9)


@pytest.mark.parametrize("code", [2, 3, 4, 10, 15, 999])
def test_a_field_that_fails_costs_only_its_own_value(code: int, gpu: Gpu) -> None:
    lines = [f"value {DATA_TX} 0 ulonglong 1", f"field {DATA_RX} {code}"]
    sent, received = gpu.read(lines, DATA_TX, DATA_RX)
    assert (sent.value, sent.error) == (1, 0)
    assert received == FieldValue(field=DATA_RX, error=code)


def test_a_field_that_the_driver_does_not_know_has_no_value(gpu: Gpu) -> None:
    assert gpu.read([], 4711) == (FieldValue(field=4711, error=pynvml.NVML_ERROR_NOT_SUPPORTED),)


def test_a_type_that_the_bindings_do_not_know_is_no_value_and_no_error(gpu: Gpu) -> None:
    assert gpu.read([f"value {DATA_TX} 0 new 1"], DATA_TX) == (FieldValue(field=DATA_TX),)


@pytest.mark.parametrize(("code", "said"), [(2, "Invalid Argument"), (13, "Function Not Found"), (15, "GPU is lost")])
def test_a_call_that_fails_as_a_whole_is_an_error_of_nvml(code: int, said: str, gpu: Gpu) -> None:
    with pytest.raises(pynvml.NVMLError, match=said):
        gpu.read([f"error nvmlDeviceGetFieldValues {code}"], 91)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, 0), (12, 12), (2**64 - 1, 2**64 - 1), (-1, None), (0.0, None), (12.0, None), (None, None)],
)
def test_a_count_is_a_whole_number_that_is_not_negative(value: Any, expected: int | None) -> None:
    assert FieldValue(field=91, value=value).unsigned == expected
