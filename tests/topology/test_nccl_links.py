"""Links of NCCL topology files, which need both directions."""

import pytest

from tests.topology.nccl_files import BRIDGED, DUMP, SWITCHED, SWITCHES, aborts, advice, edited, misreads, verdicts
from webhook.topology.nccl.check import GpuEntry, Severity, check


@pytest.mark.parametrize(
    "other", ["", '<nvlink target="0000:c4:00.0" count="12" tclass="0x068000"/>'], ids=["no link", "another link"]
)
def test_a_link_in_one_direction_fails(other: str) -> None:
    text = edited(BRIDGED, ('<nvlink target="0000:17:00.0" count="12" tclass="0x030200"/>', other))
    silent = ("", "") if other else (", which lists no links", " unless NVML shows it")
    assert aborts(text) == (
        "line 5: nvlink of gpu 0000:17:00.0: expected an nvlink in the other direction too, "
        f"found none from gpu 0000:65:00.0{silent[0]}: "
        'NCCL fails with ncclInternalError ("Failed to find reverse path") '
        f"where both are part of the job{silent[1]}"
    )


def test_a_way_back_without_a_class_may_be_none() -> None:
    text = edited(BRIDGED, ('"0000:17:00.0" count="12" tclass="0x030200"', '"0000:17:00.0" count="12"'))
    assert aborts(text).endswith(
        "found one without tclass in line 10: NCCL fails with ncclInternalError "
        '("Failed to find reverse path") where both are part of the job unless /sys shows the GPUs'
    )


@pytest.mark.parametrize("text", [SWITCHED, BRIDGED])
def test_a_target_without_a_class_may_become_an_nvswitch(text: str) -> None:
    report = check(text.replace(' tclass="0x030200"', "").replace(' tclass="0x068000"', ""))
    assert report.accepted
    reasons = verdicts(report, Severity.MISREADS)
    assert len(reasons) == 2
    assert reasons[0].endswith(
        "expected tclass, found none: NCCL looks into /sys, and takes the target for an NVSwitch where it finds nothing"
    )


def test_a_hidden_switch_needs_no_class() -> None:
    text = SWITCHED.replace('"0000:c4:00.0" count="12" tclass="0x068000"', '"fffffff:ffff:ff" count="12"')
    assert check(text).findings == ()
    assert check(text).contents.switch_links == 24


@pytest.mark.parametrize("target_class", ["0x060400", "0x020000", "nvswitch", ""])
def test_a_target_of_another_class_is_an_nvswitch(target_class: str) -> None:
    assert misreads(edited(SWITCHED, ("0x068000", target_class))).endswith(
        f'found "{target_class}": NCCL takes it for an NVSwitch'
    )


def test_a_cpu_may_be_a_target() -> None:
    assert check(SWITCHED.replace("0x068000", "0x068001")).findings == ()
    assert check(SWITCHED.replace("0x068000", "0x068001")).contents.switch_links == 0


def test_a_gpu_is_not_its_own_peer() -> None:
    """The published file for Azure's NCv4 does that: NCCL then sees no NVLink at all."""
    own = BRIDGED.replace('target="0000:65', 'target="X').replace('target="0000:17', 'target="0000:65')
    own = own.replace('target="X', 'target="0000:17')
    report = check(own)
    assert report.accepted
    first, second = verdicts(report, Severity.MISREADS)
    assert first == (
        'line 5: nvlink of gpu 0000:17:00.0: expected the bus id of the other GPU, found its own, "0000:17:00.0": '
        "NCCL makes no link of it, and asks NVML for no others of this GPU"
    )
    assert second.startswith("line 10: nvlink of gpu 0000:65:00.0: expected the bus id of the other GPU")


def test_a_link_to_a_gpu_that_is_not_there_is_ignored() -> None:
    text = edited(BRIDGED, ("<nvlink", '<nvlink target="0000:99:00.0" count="2" tclass="0x0302"/><nvlink'))
    assert misreads(text) == (
        'line 5: nvlink of gpu 0000:17:00.0: expected the bus id of a GPU of this file, found "0000:99:00.0": '
        "NCCL ignores the link, or fails where a rank has that GPU and NVML shows no link back"
    )


def test_a_gpu_with_a_bus_id_that_nccl_does_not_find_is_no_peer() -> None:
    report = check(edited(BRIDGED, ('<pci busid="0000:65:00.0"', '<pci busid="00000000:65:00.0"')))
    assert report.accepted
    messages = [finding.message for finding in report.findings]
    assert 'expected the bus id of a GPU of this file, found "0000:65:00.0"' in messages


def test_targets_are_compared_by_their_numbers() -> None:
    assert advice(edited(BRIDGED, ('target="0000:65:00.0"', 'target="00000000:65:00.0"'))).endswith(
        'as target, found "00000000:65:00.0": NCCL compares only the number in it'
    )


def test_directions_with_different_counts_are_taken_as_they_are() -> None:
    assert advice(edited(BRIDGED, ('count="12"', 'count="6"'))) == (
        "line 5: nvlink of gpu 0000:17:00.0: expected as many links in both directions, found 6 there and 12 back: "
        "NCCL takes each direction as it is written"
    )


@pytest.mark.parametrize("count", ["0", "-1"])
def test_a_link_needs_links(count: str) -> None:
    assert misreads(edited(SWITCHED, ('count="12"', f'count="{count}"'))).endswith(
        f'expected a count above 0, found "{count}": NCCL makes a link that carries nothing'
    )


def test_links_of_only_some_gpus_are_mixed_with_nvmls() -> None:
    text = edited(SWITCHED, ('<nvlink target="0000:c4:00.0" count="12" tclass="0x068000"/>', ""))
    assert advice(text) == (
        "line 4: pci 0000:41:00.0: expected NVLinks of all GPUs or of none, found none of this GPU: "
        "NCCL asks NVML for their links, and takes those of the others from the file"
    )


def test_only_the_links_of_the_first_gpu_element_count() -> None:
    links = '<nvlink target="0000:65:00.0" count="12" tclass="0x030200"/>'
    text = edited(BRIDGED, (f'<gpu sm="80">\n        {links}', f'<gpu sm="80"></gpu><gpu sm="80">{links}'))
    report = check(text)
    assert not report.accepted
    assert report.contents.gpus[0] == GpuEntry("0000:17:00.0")


@pytest.mark.parametrize(("old", "new"), [('bw="44712"', 'bw="0"'), ('count="10"', 'count="-1"')])
def test_a_c2c_link_needs_numbers_above_zero(old: str, new: str) -> None:
    assert "NCCL makes a link that carries nothing" in misreads(edited(DUMP, (old, new)))


def test_a_link_of_switches_in_one_direction_fails() -> None:
    assert aborts(edited(SWITCHES, ('<pcilink target="0000:40:00.0"/>', ""))) == (
        "line 4: pcilink of pci 0000:40:00.0: expected a pcilink in the other direction too, found none: "
        'NCCL fails with ncclInternalError ("Failed to find reverse path")'
    )


def test_a_link_of_switches_to_no_switch_is_ignored() -> None:
    text = edited(SWITCHES, ("<pcilink", '<pcilink target="0000:41:00.0"/><pcilink'))
    assert misreads(text).endswith(
        'expected the bus id of a switch of this file, found "0000:41:00.0": NCCL ignores the link'
    )


def test_a_link_of_switches_from_no_switch_fails() -> None:
    text = edited(SWITCHES, ('link_width="16"/>', 'link_width="16"><pcilink target="0000:80:00.0"/></pci>'))
    assert aborts(text).endswith(
        "expected it in a switch, found another device: "
        'NCCL fails with ncclInternalError ("Add PCI Link error : could not find PCI SW")'
    )
