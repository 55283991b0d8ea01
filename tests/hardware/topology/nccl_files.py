"""NCCL topology files that were written by hand."""

BRIDGED = """\
<system version="1">
  <cpu numaid="0" affinity="000fffff,ff000000,0fffffff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="106">
    <pci busid="0000:17:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
      <gpu sm="80">
        <nvlink target="0000:65:00.0" count="12" tclass="0x030200"/>
      </gpu>
    </pci>
    <pci busid="0000:65:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
      <gpu sm="80">
        <nvlink target="0000:17:00.0" count="12" tclass="0x030200"/>
      </gpu>
    </pci>
  </cpu>
</system>
"""
"""Two A100 that are joined by an NVLink bridge."""

SWITCHED = """\
<system version="1">
  <cpu numaid="0" affinity="0000ffff,ffffffff,00000000,0000ffff,ffffffff" arch="x86_64" vendor="GenuineIntel" \
familyid="6" modelid="143">
    <pci busid="0000:0c:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:0f:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="90">
          <nvlink target="0000:07:00.0" count="18" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:0e:00.0" class="0x020700" link_speed="16.0 GT/s PCIe" link_width="16"/>
    </pci>
    <pci busid="0000:20:00.0" class="0x020000" link_speed="16.0 GT/s PCIe" link_width="16"/>
  </cpu>
  <cpu numaid="1" affinity="ffffffff,ffff0000,00000000,ffffffff,ffff0000,00000000" arch="x86_64" \
vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:84:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:87:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="4" sm="90">
          <nvlink target="0000:07:00.0" count="18" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:86:00.0" class="0x020700" link_speed="16.0 GT/s PCIe" link_width="16"/>
    </pci>
  </cpu>
</system>
"""
"""Two of the eight H20 of a node, one for each socket, with indices of the host; InfiniBand beside each and one NIC of
Ethernet below a root port of its own."""

GRACE = """\
<system version="1">
  <cpu numaid="0" affinity="000000ff,ffffffff,ffffffff" arch="arm64">
    <pci busid="0008:01:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
      <gpu sm="100">
        <nvlink target="fffffff:ffff:ff" count="18" tclass="0x068000"/>
        <c2c bw="44712" count="10"/>
      </gpu>
    </pci>
  </cpu>
  <cpu numaid="1" affinity="0000ffff,ffffffff,ffffff00,00000000,00000000" arch="arm64">
    <pci busid="0018:01:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
      <gpu sm="100">
        <nvlink target="fffffff:ffff:ff" count="18" tclass="0x068000"/>
        <c2c bw="44712" count="10"/>
      </gpu>
    </pci>
  </cpu>
</system>
"""
"""Two of the four GPUs of a GB200 tray, one for each Grace CPU: C2C, and switches in other trays."""

SPOILT = {
    "a declaration": (SWITCHED, "<system", '<?xml version="1.0"?>\n<system'),
    "a comment": (SWITCHED, "<system", "<!-- by hand -->\n<system"),
    "a tab": (SWITCHED, "  <cpu", "\t<cpu"),
    "single quotes": (SWITCHED, 'arch="x86_64"', "arch='x86_64'"),
    "no end": (SWITCHED, "</system>\n", ""),
    "a version that NCCL does not know": (SWITCHED, 'version="1"', 'version="2"'),
    "no version": (SWITCHED, ' version="1"', ""),
    "an element that NCCL does not know": (SWITCHED, '<gpu dev="0" sm="90">', '<card dev="0" sm="90">'),
    "an attribute that NCCL does not know": (SWITCHED, "link_speed", "linkspeed"),
    "no numaid": (SWITCHED, 'numaid="0" ', ""),
    "a list of CPUs for a mask": (GRACE, "000000ff,ffffffff,ffffffff", "0-71"),
    "a mask without room": (GRACE, "000000ff,", "00000000," * 31),
    "an unknown architecture": (GRACE, "arm64", "amd64"),
    "no vendor": (SWITCHED, 'vendor="GenuineIntel" ', ""),
    "an empty vendor": (SWITCHED, "GenuineIntel", ""),
    "no model": (SWITCHED, ' modelid="143"', ""),
    "one NUMA node twice": (SWITCHED, 'numaid="1"', 'numaid="0"'),
    "no bus id": (SWITCHED, 'busid="0000:0c:00.0" ', ""),
    "a bus id in capitals": (SWITCHED, "0000:0c:00.0", "0000:0C:00.0"),
    "one bus id twice": (SWITCHED, "0000:87:00.0", "0000:0f:00.0"),
    "a partition": (SWITCHED, "0000:0f:00.0", "0000:0f:00.1"),
    "no class": (SWITCHED, 'class="0x060400" ', ""),
    "devices below a GPU": (SWITCHED, 'class="0x060400"', 'class="0x030200"'),
    "a GPU of the class of a switch": (SWITCHED, 'class="0x030200"', 'class="0x060400"'),
    "a speed that NCCL takes for another": (SWITCHED, "16.0 GT/s PCIe", "16.0 GT/s"),
    "no width": (SWITCHED, 'link_width="16"', 'link_width=""'),
    "an index without room": (SWITCHED, 'dev="4"', 'dev="32"'),
    "one index twice": (SWITCHED, 'dev="4"', 'dev="0"'),
    "an index of one GPU alone": (SWITCHED, 'dev="4" ', ""),
    "a capability with a point": (SWITCHED, 'sm="90"', 'sm="9.0"'),
    "no count": (SWITCHED, 'count="18" ', ""),
    "a link of nothing": (SWITCHED, 'count="18"', 'count="0"'),
    "no class of the target": (SWITCHED, ' tclass="0x068000"', ""),
    "a link without its way back": (
        BRIDGED,
        '        <nvlink target="0000:17:00.0" count="12" tclass="0x030200"/>\n',
        "",
    ),
    "a link to a GPU that is not there": (BRIDGED, "0000:65:00.0", "0000:66:00.0"),
    "a link to itself": (BRIDGED, 'target="0000:65:00.0"', 'target="0000:17:00.0"'),
    "no bandwidth of C2C": (GRACE, 'bw="44712" ', ""),
    "more than 255 elements": (
        SWITCHED,
        "</system>",
        "".join(
            f'  <cpu numaid="{node}" affinity="00000001" arch="arm64"/>\n' for node in range(2, 260)
        )
        + "</system>",
    ),
    "no CPU": ('<system version="1">\n</system>\n', "", ""),
}  # fmt: skip
"""What one change of a good file makes wrong: the file, what is replaced, and by what."""

REFUSED_BY_NCCL = (
    *("a declaration", "a tab", "no end", "a version that NCCL does not know", "no version", "no numaid"),
    "more than 255 elements",
)
"""The spoilt files of which NCCL makes no topology, whatever the machine is; of others that depends on the ranks."""


def spoilt(what: str) -> str:
    """The file of that name in ``SPOILT``."""
    text, old, new = SPOILT[what]
    assert old in text
    return text.replace(old, new, 1)
