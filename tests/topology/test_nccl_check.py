"""What NCCL makes of a topology file as a whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.topology.nccl_files import (
    BRIDGED,
    DEVICE_ADVICE,
    DUMP,
    PORT,
    SKELETON,
    SWITCHED,
    SWITCHES,
    aborts,
    edited,
    misreads,
    verdicts,
)
from webhook.topology.nccl.check import Contents, GpuEntry, Report, Severity, check


@pytest.mark.parametrize("text", [SWITCHED, BRIDGED, SKELETON, SWITCHES, PORT])
def test_nothing_is_found_in_them(text: str) -> None:
    report = check(text)
    assert report.findings == ()
    assert report.accepted
    assert report.clean


def test_a_report_says_what_nccl_reads() -> None:
    assert check(SWITCHED).contents == Contents(
        elements=9, cpus=("0",), gpus=(GpuEntry("0000:41:00.0", 12), GpuEntry("0000:42:00.0", 12)), nics=()
    )
    assert check(SWITCHED).contents.switch_links == 24


def test_direct_links_are_listed_with_their_targets() -> None:
    assert check(BRIDGED).contents.gpus == (
        GpuEntry("0000:17:00.0", 0, (("0000:65:00.0", 12),)),
        GpuEntry("0000:65:00.0", 0, (("0000:17:00.0", 12),)),
    )


def test_a_skeleton_has_devices_without_links() -> None:
    assert check(SKELETON).contents == Contents(
        elements=8,
        cpus=("0", "1"),
        gpus=(GpuEntry("0001:00:00.0"), GpuEntry("0002:00:00.0")),
        nics=("0101:00:00.0",),
    )


def test_links_to_one_target_are_bonded() -> None:
    text = edited(
        BRIDGED, ('count="12" tclass', 'count="4" tclass'), ("        <nvlink", "<nvlink target='0'/><nvlink")
    ).replace("<nvlink target='0'/>", '<nvlink target="0000:65:00.0" count="8" tclass="0x030200"/>')
    assert check(text).clean
    assert check(text).contents.gpus[0].direct_links == (("0000:65:00.0", 12),)


def test_a_dump_of_nccl_is_clean_and_what_nccl_ignores_in_it_is_named() -> None:
    report = check(DUMP)
    assert report.clean
    unused = "expected nothing that NCCL keeps for itself, found"
    assert [finding.partition(": NCCL")[0] for finding in verdicts(report, Severity.ADVICE)] == [
        f"line 2: cpu 0: {unused} host_hash here",
        f"line 4: gpu 0008:01:00.0: {DEVICE_ADVICE}",
        f"line 4: gpu 0008:01:00.0: {unused} rank here",
        f"line 4: gpu 0008:01:00.0: {unused} mlopart here",
    ]
    assert report.contents.nics == ("0000:01:00.0",)


def test_the_way_to_a_gpu_in_another_node_of_the_file_may_be_long() -> None:
    text = edited(SKELETON, ('<pci busid="0001', '<pci busid="ffff:ff:03.0" class="0x060400"><pci busid="0001'))
    text = edited(text, ('link_width="16"/>', 'link_width="16"/></pci>'))
    assert check(text).findings == ()


@pytest.mark.parametrize(
    ("text", "attribute", "reason"),
    [
        (SWITCHED, 'numaid="0" ', "line 2: cpu: expected numaid, found none: "),
        (SWITCHED, 'count="12" ', "line 6: nvlink of gpu 0000:41:00.0: expected count, found none: "),
        (DUMP, 'bw="44712" ', "line 6: c2c of gpu 0008:01:00.0: expected bw, found none: "),
        (DUMP, ' count="10"', "line 6: c2c of gpu 0008:01:00.0: expected count, found none: "),
        (SWITCHES, ' target="0000:80:00.0"', "line 4: pcilink of pci 0000:40:00.0: expected target, found none: "),
        (BRIDGED, 'target="0000:65:00.0" ', "line 5: nvlink of gpu 0000:17:00.0: expected the bus id of a GPU as"),
    ],
)
def test_without_them_nccl_fails(text: str, attribute: str, reason: str) -> None:
    found = verdicts(check(edited(text, (attribute, ""))), Severity.ABORTS)[0]
    assert found.startswith(reason)
    assert "ncclInternalError" in found
    assert f'("Attribute {attribute.strip().partition("=")[0]} of node ' in found


def test_a_switch_needs_its_bus_id() -> None:
    assert aborts(edited(SWITCHED, ('busid="0000:40:00.0" ', ""))) == (
        "line 3: pci: expected busid, found none: NCCL uses it unchecked and crashes"
    )


def test_a_device_without_a_bus_id_is_never_found() -> None:
    assert misreads(edited(SKELETON, ('busid="0101:00:00.0" ', ""))) == (
        "line 5: pci: expected busid, found none: NCCL never finds this device and detects it anew elsewhere"
    )


def test_a_switch_needs_its_class() -> None:
    assert aborts(edited(SWITCHED, ('class="0x060400" ', ""))) == (
        "line 3: pci 0000:40:00.0: expected class, found none: "
        'NCCL fails with ncclInternalError ("Attribute class of node pci not found") '
        "where /sys does not show this switch"
    )


@pytest.mark.parametrize("attribute", ['class="0x030200" ', 'link_speed="16.0 GT/s PCIe" ', ' link_width="16"'])
def test_nccl_completes_a_gpu(attribute: str) -> None:
    assert check(SWITCHED.replace(attribute, "")).accepted
    assert check(BRIDGED.replace(attribute, "")).findings == ()


def test_nccl_completes_the_only_cpu() -> None:
    bare = edited(
        SWITCHED,
        (' affinity="ffffffff,00000000" arch="x86_64" vendor="AuthenticAMD" familyid="25" modelid="1"', ""),
    )
    assert check(bare).findings == ()


def test_an_nvlink_needs_a_class_or_a_target() -> None:
    assert aborts(edited(SWITCHED, (' target="0000:c4:00.0"', ""), (' tclass="0x068000"', ""))) == (
        "line 6: nvlink of gpu 0000:41:00.0: expected tclass, found neither tclass nor target: "
        "NCCL looks for the class of a target that is not there and crashes"
    )


def test_a_link_to_a_switch_needs_no_target() -> None:
    assert check(SWITCHED.replace(' target="0000:c4:00.0"', "")).findings == ()


def test_a_model_is_needed_beside_a_family() -> None:
    assert aborts(edited(BRIDGED, (' modelid="106"', ""))).startswith(
        "line 2: cpu 0: expected modelid beside familyid, found none: NCCL fails with ncclInternalError "
        '("Attribute modelid of node cpu not found")'
    )
    assert check(edited(SWITCHED, (' modelid="1"', ""))).findings == (), "NCCL asks for no model of AMD"


def test_a_model_without_a_family_is_replaced() -> None:
    assert "expected familyid beside modelid" in misreads(edited(BRIDGED, (' familyid="6"', "")))


def test_one_that_nccl_does_not_know_is_ignored() -> None:
    assert misreads(edited(SWITCHED, ("link_speed", "linkspeed"))) == (
        "line 3: pci 0000:40:00.0: expected only busid, class, link_speed, link_width, vendor, device, "
        'subsystem_vendor, subsystem_device, found "linkspeed": NCCL ignores it'
    )


def test_a_nic_has_none() -> None:
    assert "nic of pci 0000:11:00.0: expected no attributes, found " in misreads(edited(PORT, ("<nic", '<nic x="1"')))


def test_the_first_of_two_counts() -> None:
    assert misreads(edited(SWITCHED, ('sm="80"', 'sm="80" sm="90"'))) == (
        'line 5: gpu 0000:41:00.0: expected "sm" once, found it 2 times: NCCL takes the first and ignores the others'
    )


def test_findings_stand_in_the_order_of_lines_and_the_worst_of_a_line_first() -> None:
    text = edited(
        SWITCHED,
        ('sm="80"', 'x="1" dev="-1"'),
        ('tclass="0x068000"', 'tclass="x"'),
        ('link_width="16"', 'link_width=""'),
    )
    assert [(finding.line, finding.severity) for finding in check(text).findings] == [
        (3, Severity.MISREADS),
        (5, Severity.ABORTS),
        (5, Severity.MISREADS),
        (5, Severity.ADVICE),
        (6, Severity.MISREADS),
    ]
    assert str(check(text).findings[0]).startswith("line 3: pci 0000:40:00.0: expected ")


def test_a_second_system_with_gpus_fails() -> None:
    assert "NCCL uses the first. " in aborts(SWITCHED + BRIDGED)


def test_bytes_and_text_get_the_same_report() -> None:
    assert check(DUMP.encode()) == check(DUMP)


FRAGMENTS = [
    *("<", ">", "/", "/>", '"', "'", " ", "\n", "\t", "=", "\0", "<!--", "-->", "</", "\ufeff", "\udc80", "é"),
    *("system", "cpu", "pci", "gpu", "nvlink", "c2c", "nic", "net", "pcilink", 'version="1"', 'busid="0000:1b:00.0"'),
    *('<system version="1">', "</system>", '<cpu numaid="0">', "</cpu>", "<pci>", "</pci>", "<gpu>", "</gpu>", "<nic>"),
    *(
        'target="0000:1b:00.0"',
        'count="1"',
        'tclass="0x03"',
        'dev="-1"',
        'keep="1"',
        '<nvlink count="1"/>',
        "<pcilink/>",
    ),
]
GOOD = [SWITCHED, BRIDGED, SKELETON, DUMP, SWITCHES, PORT]
VALUES = ["", "0", "-1", "1", "x", "0x03", "0x060400", "0x068000", "0000:1b:00.0", "0000:41:00.0", "9" * 250, "é"]


@given(st.one_of(st.binary(), st.text(), st.lists(st.sampled_from(FRAGMENTS), max_size=60).map("".join)))
def test_any_text_gets_a_report(text: bytes | str) -> None:
    report = check(text)
    assert report.accepted or report.findings
    assert all(line.isprintable() for finding in report.findings for line in str(finding).split("\n"))


@given(st.sampled_from(GOOD), st.data())
def test_any_damage_gets_a_report(text: str, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(start + 30, len(text))))
        text = text[:start] + data.draw(st.sampled_from(["", *FRAGMENTS])) + text[end:]
    report = check(text)
    assert all(finding.line <= text.count("\n") + 1 for finding in report.findings)


@given(st.sampled_from(GOOD), st.data())
def test_any_values_get_a_report(text: str, data: st.DataObject) -> None:
    parts = text.split('"')
    for position in data.draw(st.lists(st.integers(1, len(parts) // 2 - 1), max_size=5)):
        parts[2 * position + 1] = data.draw(st.sampled_from(VALUES))
    assert str(check('"'.join(parts)))


SPEEDS = ["8.0 GT/s PCIe", "16.0 GT/s PCIe", "32.0 GT/s PCIe", "64.0 GT/s PCIe", "16 GT/s"]


@st.composite
def machines(draw: st.DrawFn) -> tuple[str, Contents]:
    """A valid file with up to 8 GPUs on up to 2 CPUs, and what stands in it."""
    cpus, gpus = draw(st.integers(1, 2)), draw(st.integers(1, 8))
    switched = draw(st.booleans())
    pairs = [(one, other) for one in range(gpus) for other in range(one)]
    mesh = {} if switched else {pair: draw(st.integers(1, 4)) for pair in pairs}
    bus_ids = [f"0000:{number:02x}:00.0" for number in draw(st.permutations(range(16, 16 + gpus)))]
    system, entries, elements = ['<system version="1">'], [], 1
    for cpu in range(cpus):
        system.append(
            f'<cpu numaid="{cpu}" affinity="f" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">'
        )
        elements += 1
        for gpu in range(cpu, gpus, cpus):
            link = f'link_speed="{draw(st.sampled_from(SPEEDS))}" link_width="{draw(st.sampled_from([4, 8, 16]))}"'
            peers = [(other, mesh[max(gpu, other), min(gpu, other)]) for other in range(gpus) if mesh and other != gpu]
            system.append(f'<pci busid="{bus_ids[gpu]}" class="0x030200" {link}><gpu sm="90">')
            system += [f'<nvlink target="{bus_ids[other]}" count="{n}" tclass="0x0302"/>' for other, n in peers]
            system += ['<nvlink target="0000:07:00.0" count="18" tclass="0x068000"/>'] * switched
            system.append("</gpu></pci>")
            elements += 2 + len(peers) + switched
            entries.append(GpuEntry(bus_ids[gpu], 18 * switched, tuple((bus_ids[other], n) for other, n in peers)))
        system.append("</cpu>")
    system.append("</system>")
    return draw(st.sampled_from(["\n", "", "\r\n"])).join(system), Contents(
        elements, tuple(map(str, range(cpus))), tuple(entries)
    )


@given(machines())
def test_a_valid_file_is_clean_and_read_as_it_was_written(machine: tuple[str, Contents]) -> None:
    text, contents = machine
    assert check(text) == Report((), contents)


HAND_MADE = """\
<system version="1">
  <cpu numaid="0" affinity="0x1" arch="x86_64" vendor="AuthenticAMD">
    <pci busid="0000:01:00.0" class="0x030200" link_speed="16 GT/s" link_width="16">
      <gpu dev="0" sm="80" rank="0"/>
    </pci>
    <pci busid="0000:09:00.0" class="0x030200" link_speed="16 GT/s" link_width="16">
      <gpu dev="1" sm="80" rank="1"/>
    </pci>
  </cpu>
  <nvlink><link gpu="0" tgpu="1" count="12" bw="300"/></nvlink>
</system>
"""
"""As schedulers write it that list the links beside the GPUs."""


def test_a_file_that_lists_links_beside_the_gpus_gives_nccl_none() -> None:
    report = check(HAND_MADE)
    assert report.contents.gpus == (GpuEntry("0000:01:00.0"), GpuEntry("0000:09:00.0"))
    _, beside = verdicts(report, Severity.MISREADS)
    assert 'found "nvlink": NCCL skips it with everything in it' in beside


def test_such_a_file_with_a_comment_in_the_words_of_a_shell_is_refused() -> None:
    assert 'found "# NCCL Topology File"' in aborts(f"# NCCL Topology File\n{HAND_MADE}")
