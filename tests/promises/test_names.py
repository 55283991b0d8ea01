"""What docs/promises.md says of names holds: none that was promised is missing, and each new one is promised."""

from tests.promises.names import NAMES, found, members, promised

FOUND = found()


def test_no_promised_name_has_left_the_code() -> None:
    """Until its removal is announced: docs/promises.md, How something is removed."""
    assert sorted(promised() - FOUND) == []


def test_each_name_of_the_code_is_promised() -> None:
    assert sorted(FOUND - promised()) == [], "run make reference"


def test_the_list_is_sorted_and_has_every_kind() -> None:
    lines = NAMES.read_text(encoding="utf-8").splitlines()
    assert lines == sorted(set(lines))
    kinds = {line.partition(" ")[0] for line in lines}
    assert kinds == {"annotation", "exit-code", "json", "label", "metric", "option", "reason", "setting", "value"}


def test_a_name_that_differs_in_its_labels_or_its_number_is_another() -> None:
    for line in (
        "metric gpu_topology_admissions_total counter outcome profile",
        "exit-code remap 11 OTHER_GPUS",
        "json explain .findings[].codes",
    ):
        assert line not in FOUND
    assert {
        "metric gpu_topology_admissions_total counter outcome profile reason",
        "exit-code remap 12 OTHER_GPUS",
        "json explain .findings[].code",
    } <= FOUND


def test_members_are_found_at_every_depth() -> None:
    assert list(members({"a": [{"b": 1}, {"c": {}}], "d": None})) == [".a", ".a[].b", ".a[].c", ".d"]
