"""CPUs, PCI devices, GPUs and ports of NCCL topology files that NCCL takes for others."""

import pytest

from tests.topology.nccl_files import (
    DEVICE_ADVICE,
    DUMP,
    PORT,
    SKELETON,
    SWITCHED,
    aborts,
    advice,
    edited,
    misreads,
    verdicts,
)
from webhook.topology.nccl.check import Severity, check


@pytest.mark.parametrize("numa", ["00", "0x0", "", "node0", "+1"])
def test_a_numa_id_is_compared_as_text(numa: str) -> None:
    reason = misreads(edited(SWITCHED, ('numaid="0"', f'numaid="{numa}"')))
    assert "expected a decimal numaid" in reason
    assert "never finds this CPU" in reason


def test_an_unknown_numa_node_is_minus_one() -> None:
    assert check(edited(SWITCHED, ('numaid="0"', 'numaid="-1"'))).findings == ()


def test_two_cpus_of_one_numa_node_remain_two() -> None:
    assert misreads(edited(SKELETON, ('numaid="1"', 'numaid="0"'))) == (
        'line 8: cpu 0: expected each numaid once, found "0" of line 2 again: '
        "NCCL makes two CPUs of one NUMA node and searches other rings"
    )


def test_cpus_of_two_machines_are_taken_for_one() -> None:
    text = edited(SKELETON, ('<cpu numaid="0"', '<cpu host_hash="0x1" numaid="0"'), ('numaid="1"', 'numaid="0"'))
    assert misreads(text) == (
        "line 8: cpu 0: expected the CPUs of one node, found host_hash values of 2 nodes: "
        "NCCL takes all of them for its own node's"
    )


@pytest.mark.parametrize(
    ("mask", "found"),
    [("0-31", '"0-31"'), ("1ffffffff", '"1ffffffff"'), ("ff,zz", '"ff,zz"'), (",".join("0" * 33), "33 words")],
)
def test_a_mask_that_means_other_cpus_is_named(mask: str, found: str) -> None:
    reason = misreads(edited(SWITCHED, ("ffffffff,00000000", mask)))
    assert f"found {found}: NCCL " in reason


def test_a_mask_may_have_28_full_words() -> None:
    assert check(edited(SWITCHED, ("ffffffff,00000000", ",".join(["ffffffff"] * 28)))).findings == ()
    assert not check(edited(SWITCHED, ("ffffffff,00000000", ",".join(["ffffffff"] * 29)))).accepted


def test_an_empty_mask_binds_nothing() -> None:
    assert "expected an affinity mask, or no affinity" in advice(edited(SWITCHED, ("ffffffff,00000000", "")))


@pytest.mark.parametrize(("old", "new"), [("x86_64", "amd64"), ("x86_64", ""), ("AuthenticAMD", "AMD")])
def test_an_unknown_cpu_has_no_limit_between_sockets(old: str, new: str) -> None:
    reason = misreads(edited(SWITCHED, (old, new)))
    assert reason.startswith("line 2: cpu 0: expected a")
    assert reason.endswith(f'found "{new}": NCCL takes 5000 GB/s for the way to other NUMA nodes')


def test_only_x86_has_vendors() -> None:
    text = edited(SWITCHED, ("x86_64", "arm64"), ("AuthenticAMD", "ARM Ltd"), (' modelid="1"', ""))
    assert check(text).findings == ()


@pytest.mark.parametrize(
    ("removed", "key"),
    [
        ('arch="x86_64" ', "arch"),
        ('vendor="GenuineIntel" ', "vendor"),
        (' familyid="6" modelid="143"', "familyid"),
    ],
)
def test_the_first_of_several_cpus_must_be_complete(removed: str, key: str) -> None:
    """Read from ncclTopoFillNet and ncclTopoGetXmlFromCpu, and seen with NCCL's own code."""
    report = check(edited(SKELETON, (removed, "")))
    reason = verdicts(report, Severity.ABORTS)[0]
    assert reason == (
        f"line 2: cpu 0: expected {key} of the first of several CPUs, found none: "
        "NCCL puts NICs that are no PCI devices, such as eth0 of a pod, there, and completes only the CPU of its "
        f'own GPU. NCCL fails with ncclInternalError ("Attribute {key} of node cpu not found")'
    )


def test_the_first_of_several_cpus_needs_its_mask_so_that_it_stays_one() -> None:
    reason = misreads(edited(SKELETON, ('affinity="000000ff" ', "")))
    assert "expected affinity of the first of several CPUs" in reason
    assert "two CPUs of this one" in reason


def test_the_other_cpus_need_not_be_complete() -> None:
    rest = ' affinity="0000ff00" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143"'
    assert check(edited(SKELETON, (rest, ""))).findings == ()


def test_a_file_without_cpus_says_nothing() -> None:
    assert advice('<system version="1"/>') == (
        "line 1: system: expected cpu elements, found none: NCCL detects everything itself, as without a file"
    )


@pytest.mark.parametrize("bus_id", ["0001:00:00.A", "00000001:00:00.0", "01:00.0", "0001:00:00", "gpu0", ""])
def test_a_bus_id_in_another_form_is_never_found(bus_id: str) -> None:
    assert misreads(edited(SKELETON, ("0001:00:00.0", bus_id))).endswith(
        f'expected a lower-case bus id such as 0000:1b:00.0, found "{bus_id}": '
        "NCCL never finds this device by its own name for it and detects it anew elsewhere"
    )


def test_an_upper_case_bus_id_is_never_found() -> None:
    text = edited(SKELETON, ("0001:00:00.0", "00AB:00:00.0"))
    assert misreads(text).startswith("line 4: pci 00AB:00:00.0: expected a lower-case bus id")


@pytest.mark.parametrize("function", "123567")
def test_a_gpu_at_a_partition_bit_fails(function: str) -> None:
    text = SWITCHED.replace("0000:41:00.0", f"0000:41:00.{function}")
    reason = aborts(text)
    assert "expected a GPU at PCI function 0 or 4" in reason
    assert f'("BusId 0x4100{function} has non-zero bits in MLOPart mask")' in reason


def test_a_gpu_may_be_function_4() -> None:
    assert check(SWITCHED.replace("0000:41:00.0", "0000:41:00.4")).findings == ()


def test_a_bus_id_stands_for_one_device() -> None:
    assert misreads(SWITCHED.replace("0000:42:00.0", "0000:41:00.0")) == (
        'line 9: pci 0000:41:00.0: expected each busid once, found "0000:41:00.0" of line 4 again: '
        "NCCL finds only the first device, and merges equal switches"
    )


@pytest.mark.parametrize(
    "speed",
    [
        *("2.5 GT/s", "5 GT/s", "8 GT/s", "16 GT/s", "32 GT/s", "16 GT/s and more"),
        *("2.5 GT/s PCIe", "5.0 GT/s PCIe", "8.0 GT/s PCIe", "16.0 GT/s PCIe", "32.0 GT/s PCIe", "64.0 GT/s PCIe"),
    ],
)
def test_speeds_that_nccl_knows(speed: str) -> None:
    assert check(edited(SWITCHED, ("16.0 GT/s PCIe", speed))).findings == ()


@pytest.mark.parametrize(
    ("speed", "better"),
    [
        ("16.0 GT/s", "16.0 GT/s PCIe"),
        ("32.0 GT/s", "32.0 GT/s PCIe"),
        ("64.0 GT/s", "64.0 GT/s PCIe"),
        ("64 GT/s", "16.0 GT/s PCIe"),
        ("Gen5", "16.0 GT/s PCIe"),
        ("", "16.0 GT/s PCIe"),
    ],
)
def test_any_other_speed_is_8_gigatransfers(speed: str, better: str) -> None:
    assert misreads(edited(SWITCHED, ("16.0 GT/s PCIe", speed))) == (
        f'line 3: pci 0000:40:00.0: expected a link_speed such as "{better}", found "{speed}": NCCL takes it for 8 GT/s'
    )


def test_8_gigatransfers_are_right_by_chance() -> None:
    assert "NCCL takes it for 8 GT/s" in advice(edited(SWITCHED, ("16.0 GT/s PCIe", "8.0 GT/s")))


@pytest.mark.parametrize("width", ["0", ""])
def test_no_width_is_16_lanes(width: str) -> None:
    assert misreads(edited(SWITCHED, ('link_width="16"', f'link_width="{width}"'))) == (
        f'line 3: pci 0000:40:00.0: expected link_width in lanes, found "{width}": NCCL takes it for 16 lanes'
    )


@pytest.mark.parametrize(("width", "read"), [("x16", "0"), ("16x", "16"), ("010", "8")])
def test_a_width_that_is_no_number(width: str, read: str) -> None:
    assert misreads(edited(SWITCHED, ('link_width="16"', f'link_width="{width}"'))) == (
        f'line 3: pci 0000:40:00.0: expected a whole number as link_width, found "{width}": NCCL reads {read}'
    )


def test_a_width_below_zero() -> None:
    assert "less than nothing" in misreads(edited(SWITCHED, ('link_width="16"', 'link_width="-8"')))


@pytest.mark.parametrize(("old", "new"), [('"0x10de" device', '"10de" device'), ("0x2941", "H100"), ("0x2046", "")])
def test_device_ids_are_hexadecimal(old: str, new: str) -> None:
    assert 'such as "0x10de", found' in misreads(edited(DUMP, (old, new)))


@pytest.mark.parametrize("device_class", ["0x060400", "0x080100", "0302", "3D controller", ""])
def test_a_gpu_below_a_switch_class_fails(device_class: str) -> None:
    reason = aborts(edited(SWITCHED, ("0x030200", device_class)))
    assert reason == (
        f'line 4: pci 0000:41:00.0: expected a class of "0x03..." for a GPU, found "{device_class}": '
        "NCCL takes the pci for a switch and the gpu for a device in it. "
        'NCCL fails with ncclInternalError ("Attribute class of node gpu not found")'
    )


@pytest.mark.parametrize("device_class", ["0x020000", "0x068000"])
def test_a_gpu_of_another_class_is_added_all_the_same(device_class: str) -> None:
    assert "NCCL adds the GPU all the same" in advice(edited(SWITCHED, ("0x030200", device_class)))


def test_a_leaf_of_no_known_class_is_a_switch() -> None:
    reason = misreads(edited(SKELETON, ("0x020700", "0207")))
    assert reason.endswith(
        'found "0207": NCCL takes it for a switch, and fails if a GPU is there that /sys does not show'
    )


def test_a_switch_of_no_known_class_is_a_switch() -> None:
    assert advice(edited(SKELETON, ("0x060400", "0x0604"))).endswith('found "0x0604": NCCL takes it for a switch')


@pytest.mark.parametrize("device_class", ["0x030200", "0x068000", "0x068001"])
def test_devices_below_something_else_than_a_switch_are_lost(device_class: str) -> None:
    assert aborts(edited(SKELETON, ("0x060400", device_class))) == (
        'line 3: pci ffff:ff:01.0: expected a switch, class "0x060400", around other pci elements, '
        f'found the class "{device_class}": NCCL leaves out everything in it. '
        'NCCL fails with ncclInternalError ("ncclTopoRankToIndex could not find rank") for each GPU there'
    )


def test_devices_below_a_nic_are_lost() -> None:
    text = edited(SKELETON, ("0x060400", "0x020000"))
    assert 'expected a switch, class "0x060400", around other pci elements, found a nic: ' in aborts(text)


def test_a_nic_below_something_else_than_a_switch_is_lost() -> None:
    assert misreads(edited(PORT, ("0x060400", "0x020000"))).endswith("NCCL leaves out everything in it")


def test_a_switch_with_a_port_loses_its_devices() -> None:
    text = edited(SKELETON, ('<pci busid="0001', '<nic><net name="mlx5_0"/></nic><pci busid="0001'))
    assert "found a nic: NCCL leaves out everything in it" in aborts(text)


@pytest.mark.parametrize("name", ["gpu", "nic"])
def test_only_one_gpu_and_one_nic_of_a_device_count(name: str) -> None:
    text = edited(SKELETON, ('"32 GT/s" link_width="16"/>', f'"32 GT/s" link_width="16"><{name}/><{name}/></pci>'))
    assert misreads(text) == (
        f"line 4: pci 0001:00:00.0: expected one {name}, found 2 of them: NCCL uses the first and ignores the others"
    )


def test_a_gpu_that_is_called_minus_one_disappears() -> None:
    assert aborts(edited(SWITCHED, ("<gpu ", '<gpu dev="-1" '))) == (
        'line 5: gpu 0000:41:00.0: expected an NVML index as dev, found "-1": NCCL fails with ncclInternalError '
        '("ncclTopoRankToIndex could not find rank") for this GPU'
    )


@pytest.mark.parametrize("index", ["32", "100", "-2"])
def test_an_index_outside_of_the_table_is_read_there(index: str) -> None:
    reason = aborts(edited(SWITCHED, ("<gpu ", f'<gpu dev="{index}" ')))
    assert f'expected a dev from 0 to 31, found "{index}": NCCL reads P2P states outside of its table' in reason


def test_an_index_belongs_to_one_gpu() -> None:
    assert misreads(SWITCHED.replace("<gpu ", '<gpu dev="3" ')) == (
        'line 10: gpu 0000:42:00.0: expected each dev once, found "3" of line 5 again: '
        "NCCL takes the first where it looks for a GPU by its index"
    )


def test_an_index_is_right_only_for_some_containers() -> None:
    text = edited(SWITCHED, ("<gpu ", '<gpu dev="0" '), ('<gpu sm="80"', '<gpu dev="31" sm="80"'))
    assert advice(text) == (
        f"line 5: gpu 0000:41:00.0: {DEVICE_ADVICE}: "
        "NCCL takes it for the NVML index in the container that reads the file"
    )


def test_some_indices_are_worse_than_none() -> None:
    assert 'found "0", and none for 1: ' in advice(edited(SWITCHED, ("<gpu ", '<gpu dev="0" ')))


@pytest.mark.parametrize(("sm", "found"), [("9.0", "NCCL reads 9"), ("9", "chooses the speed"), ("", "NCCL reads 0")])
def test_the_compute_capability_has_no_point(sm: str, found: str) -> None:
    assert found in misreads(edited(SWITCHED, ('sm="80"', f'sm="{sm}"')))


@pytest.mark.parametrize(("junk", "spaces", "accepted"), [(11, 0, True), (12, 0, False), (10, 1, True), (11, 1, False)])
def test_14_attributes_fit_into_a_gpu_with_index_capability_and_gdr(junk: int, spaces: int, *, accepted: bool) -> None:
    names = " ".join(f'a{number}="1"' for number in range(junk)) + " " * spaces
    report = check(edited(SWITCHED, ('<gpu sm="80"', f'<gpu dev="0" sm="80" gdr="1" {names}')))
    assert report.accepted is accepted


def test_nccl_adds_more_to_a_gpu_that_says_less() -> None:
    eleven, twelve = (" ".join(f'a{number}="1"' for number in range(count)) for count in (11, 12))
    assert check(edited(SWITCHED, ('sm="80"', eleven))).accepted
    assert aborts(edited(SWITCHED, ('sm="80"', twelve))) == (
        "line 5: gpu 0000:41:00.0: expected at most 11 attributes, surplus spaces counted, found 12: "
        "NCCL adds up to 6 of its own, writes behind the end of the element and crashes or reads nonsense"
    )


def test_what_nccl_keeps_for_itself_is_named_once() -> None:
    assert advice(SWITCHED.replace("<gpu ", '<gpu rank="0" ')) == (
        "line 5: gpu 0000:41:00.0: expected nothing that NCCL keeps for itself, found rank here and in 1 more: "
        "NCCL writes its own"
    )


@pytest.mark.parametrize("element", ["nvlink", "gpu", "pci", "cpu", "system"])
def test_keep_makes_nccl_keep_gpus_of_others(element: str) -> None:
    reason = aborts(edited(SWITCHED, (f"<{element} ", f'<{element} keep="1" ')))
    assert 'expected no keep, found "1": NCCL keeps GPUs that are not part of the job. ' in reason
    assert '("Add NVLink error : could not find DEV for GPU")' in reason


@pytest.mark.parametrize(("text", "keep"), [(SKELETON, "1"), (SWITCHED, "0")])
def test_keep_does_no_harm_without_links_or_with_another_value(text: str, keep: str) -> None:
    assert "found keep here: NCCL writes its own" in advice(edited(text, ("<pci ", f'<pci keep="{keep}" ')))


def test_a_port_in_a_gpu_makes_nccl_keep_it_too() -> None:
    reason = aborts(edited(SWITCHED, ("</gpu>", '</gpu><nic><net name="mlx5_0"/></nic>')))
    assert "expected a GPU and a port in pci elements of their own, found one for both" in reason


@pytest.mark.parametrize(
    ("element", "attribute", "key"),
    [
        ("line 2: cpu 0", ' arch="x86_64"', "arch"),
        ("line 2: cpu 0", ' vendor="GenuineIntel"', "vendor"),
        ("line 3: pci 0000:10:00.0", ' link_speed="16.0 GT/s PCIe"', "link_speed"),
        ("line 3: pci 0000:10:00.0", ' link_width="16"', "link_width"),
        ("line 4: pci 0000:11:00.0", ' class="0x020000"', "class"),
    ],
)
def test_what_is_above_a_listed_port_must_be_complete(element: str, attribute: str, key: str) -> None:
    """Read from ncclTopoFillNet, and seen with NCCL's own code."""
    assert aborts(edited(PORT, (attribute, ""))) == (
        f"{element}: expected {key} above a net, found none: NCCL completes nothing above a port that it finds in "
        f"the file, unless its own GPU is there too. NCCL fails with ncclInternalError "
        f'("Attribute {key} of node {element.split()[2]} not found")'
    )


def test_a_port_is_known_by_its_name() -> None:
    assert misreads(edited(PORT, (' name="mlx5_0"', ""))) == (
        "line 6: net: expected the plugin's name of the port as name, found none: "
        "NCCL never finds this port and adds it anew elsewhere"
    )
    assert "NCCL finds only the first port" in misreads(edited(PORT, ("<net", '<net name="mlx5_0"/><net')))


@pytest.mark.parametrize("speed", ["0", "-1"])
def test_a_port_without_a_speed_has_10_gigabit(speed: str) -> None:
    assert misreads(edited(PORT, ("<net ", f'<net speed="{speed}" '))).endswith("NCCL takes it for 10000 Mbit/s")


def test_a_speed_with_a_unit_is_read_without_it() -> None:
    assert misreads(edited(PORT, ("<net ", '<net speed="200Gb/s" '))).endswith(
        'expected a whole number as speed, found "200Gb/s": NCCL reads 200'
    )
