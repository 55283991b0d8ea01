"""The rules by which tests judge files for NCCL take what is right, and notice what is wrong."""

from tests.hardware.topology.nccl_files import BRIDGED, GRACE, REFUSED_BY_NCCL, SPOILT, SWITCHED, spoilt
from tests.hardware.topology.nccl_rules import faults


def test_nothing_is_found_in_files_written_by_hand() -> None:
    for name, text in {"bridged": BRIDGED, "switched": SWITCHED, "grace": GRACE}.items():
        assert faults(text) == [], name


def test_each_spoilt_file_is_noticed() -> None:
    unnoticed = [what for what in SPOILT if not faults(spoilt(what))]
    assert unnoticed == []
    assert set(REFUSED_BY_NCCL) <= SPOILT.keys()
