"""NCCL's own topology beside the file that is written for it."""

import pytest

from tests.gpu.nccl_dump import difference, read_cards
from tests.hardware.topology.machines import MACHINES, a100_pcie_bridged, gb200_tray, h20
from webhook.hardware.topology.nccl_file import format_nccl_topology

OURS = """\
<system version="1">
  <cpu numaid="0" affinity="ffffffff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:17:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:18:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu sm="90">
          <nvlink target="0000:c3:00.0" count="18" tclass="0x068000"/>
        </gpu>
      </pci>
    </pci>
  </cpu>
  <cpu numaid="1" affinity="ffffffff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:AB:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
      <gpu sm="90">
        <nvlink target="0000:c3:00.0" count="18" tclass="0x068000"/>
      </gpu>
    </pci>
  </cpu>
</system>
"""
THEIRS = """\
<system version="1">
  <cpu host_hash="0x6d2ac1a0f4e9b1d2" numaid="0" affinity="ffffffff" arch="x86_64" vendor="GenuineIntel" familyid="6">
    <pci busid="0000:17:00.0" class="0x060400" vendor="0x1000" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:18:00.0" class="0x030200" vendor="0x10de" link_speed="2.5 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="90" rank="0" gdr="1">
          <nvlink target="0000:c3:00.0" count="4" tclass="0x068000"/>
          <nvlink target="0000:c4:00.0" count="5" tclass="0x068000"/>
          <nvlink target="0000:c5:00.0" count="5" tclass="0x068000"/>
          <nvlink target="0000:c6:00.0" count="4" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:19:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16">
        <nic><net name="mlx5_0" dev="0" speed="400000" port="1" gdr="1"/></nic>
      </pci>
    </pci>
  </cpu>
  <cpu host_hash="0x6d2ac1a0f4e9b1d2" numaid="1" affinity="ffffffff" arch="x86_64" vendor="GenuineIntel" familyid="6">
    <pci busid="0000:ab:00.0" class="0x030200" vendor="0x10de" link_speed="32.0 GT/s PCIe" link_width="16">
      <gpu dev="1" sm="90" rank="1" gdr="1">
        <nvlink target="0000:c3:00.0" count="18" tclass="0x068000"/>
      </gpu>
    </pci>
  </cpu>
</system>
"""


def test_links_of_all_switches_count_together_and_speeds_of_the_moment_do_not() -> None:
    assert difference(read_cards(OURS), read_cards(THEIRS)) == ""
    assert set(read_cards(THEIRS)) == {"0000:18:00.0", "0000:ab:00.0"}


@pytest.mark.parametrize(
    ("here", "there", "said"),
    [
        ('count="4"', 'count="3"', "0000:18:00.0 has 18 NVLinks to NVSwitches here, and 16 as NCCL finds"),
        ('numaid="1"', 'numaid="0"', "0000:ab:00.0 is at NUMA node 1 here, and at 0 as NCCL finds"),
        ("0000:ab:00.0", "0000:ac:00.0", "our file has no card 0000:ac:00.0"),
        ('"0x068000"/>', '"0x068000"/><c2c bw="1" count="2"/>', "0000:18:00.0 has 0 C2C links here, and 8 as"),
    ],
)
def test_a_difference_is_told_with_both_sides(here: str, there: str, said: str) -> None:
    assert difference(read_cards(OURS), read_cards(THEIRS.replace(here, there))).startswith(said)


def test_a_link_to_a_card_is_missing_on_either_side() -> None:
    ours = format_nccl_topology(a100_pcie_bridged())
    theirs = ours.replace('count="12"', 'count="8"', 1)
    assert theirs != ours
    assert "has 12 NVLinks to 0000:" in difference(read_cards(ours), read_cards(theirs))
    assert "has 8 NVLinks to 0000:" in difference(read_cards(theirs), read_cards(ours))


def test_what_nccl_leaves_out_for_one_rank_is_no_difference() -> None:
    ours = read_cards(format_nccl_topology(a100_pcie_bridged()))
    bus_id, card = next(iter(ours.items()))
    alone = {bus_id: type(card)(links={}, c2c=card.c2c, numa_node=card.numa_node)}
    assert difference(ours, alone) == ""
    assert difference(ours, {**ours, bus_id: alone[bus_id]}) != ""


@pytest.mark.parametrize("name", MACHINES)
def test_each_file_is_the_same_as_itself(name: str) -> None:
    found = read_cards(format_nccl_topology(MACHINES[name]))
    assert len(found) == len(MACHINES[name].gpus)
    assert difference(found, found) == ""


def test_switches_and_c2c_are_read() -> None:
    switched = read_cards(format_nccl_topology(h20()))
    assert {tuple(card.links.items()) for card in switched.values()} == {(("NVSwitches", 18),)}
    assert all(card.c2c for card in read_cards(format_nccl_topology(gb200_tray())).values())


@pytest.mark.parametrize("text", ["", "<system", "<system/>", "no XML", '<cpu><pci busid="a"/></cpu>'])
def test_a_text_without_cards_has_none(text: str) -> None:
    assert read_cards(text) == {}
