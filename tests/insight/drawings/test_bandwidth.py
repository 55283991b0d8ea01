"""A BandwidthReport as text: what was not measured has no rate, and what was skipped has its reason."""

import msgspec
import pytest

from tests.hardware.measurement.test_document import report
from webhook.hardware.measurement.report import Omission, Skipped
from webhook.insight.drawings.bandwidth import lines, measured_matrix


def test_the_direction_that_was_not_measured_has_no_rate() -> None:
    assert measured_matrix(report([370.0])).plain.split() == ["GPU0", "GPU1", "GPU0", "X", "370.0", "GPU1", "n/a", "X"]


@pytest.mark.parametrize(
    ("code", "said", "told"),
    [
        (2, "No space left on device", "2: a call of the system failed: see NCCL_DEBUG=INFO; No space left on device"),
        (7, None, "7: the call goes on in the background"),
        (8, None, "8: another rank gave no answer in time"),
    ],
)
def test_what_nccl_said_stands_behind_its_code(code: int, said: str | None, told: str) -> None:
    lost = Omission(cards=[], reason=Skipped.FAILED, function="ncclAllReduce", code=code, problem=said)
    found = msgspec.structs.replace(report([370.0]), skipped=[lost])
    assert f"NCCL: skipped, call-failed (ncclAllReduce returned {told})" in list(lines(found))


def test_what_was_skipped_says_which_function_refused() -> None:
    assert "GPU1 to GPU0: skipped, call-failed (cuInit returned 999: unknown error)" in list(lines(report([370.0])))
