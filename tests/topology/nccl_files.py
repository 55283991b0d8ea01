"""NCCL topology files that are right, and how tests spoil and judge them."""

from webhook.topology.nccl.check import Report, Severity, check

SWITCHED = """\
<system version="1">
  <cpu numaid="0" affinity="ffffffff,00000000" arch="x86_64" vendor="AuthenticAMD" familyid="25" modelid="1">
    <pci busid="0000:40:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
      <pci busid="0000:41:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu sm="80">
          <nvlink target="0000:c4:00.0" count="12" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:42:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu sm="80">
          <nvlink target="0000:c4:00.0" count="12" tclass="0x068000"/>
        </gpu>
      </pci>
    </pci>
  </cpu>
</system>
"""
"""Two GPUs below a PCIe switch, all NVLinks to NVSwitches."""

BRIDGED = """\
<system version="1">
  <cpu numaid="0" affinity="0000ffff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="106">
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
"""Two GPUs that are joined by an NVLink bridge."""

SKELETON = """\
<system version="1">
  <cpu numaid="0" affinity="000000ff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="ffff:ff:01.0" class="0x060400" link_speed="32 GT/s" link_width="16">
      <pci busid="0001:00:00.0" class="0x030200" link_speed="32 GT/s" link_width="16"/>
      <pci busid="0101:00:00.0" class="0x020700" link_speed="32 GT/s" link_width="16"/>
    </pci>
  </cpu>
  <cpu numaid="1" affinity="0000ff00" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="ffff:ff:02.0" class="0x060400" link_speed="32 GT/s" link_width="16">
      <pci busid="0002:00:00.0" class="0x030200" link_speed="32 GT/s" link_width="16"/>
    </pci>
  </cpu>
</system>
"""
"""What clouds ship for virtual machines: only where devices are. NCCL detects the rest."""

DUMP = """\
<system version="1">
  <cpu host_hash="0x5c1b2a" numaid="0" affinity="ff" arch="arm64">
    <pci busid="0008:01:00.0" class="0x030200" vendor="0x10de" device="0x2941" subsystem_vendor="0x10de" \
subsystem_device="0x2046" link_speed="32.0 GT/s PCIe" link_width="16">
      <gpu dev="0" sm="100" mlopart="-1" rank="0" gdr="1">
        <nvlink target="fffffff:ffff:ff" count="18" tclass="0x068000"/>
        <c2c bw="44712" count="10"/>
      </gpu>
    </pci>
    <pci busid="0000:01:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16">
      <nic>
        <net name="mlx5_0" dev="0" latency="0" speed="400000" port="1" guid="0x5c" maxconn="131072" gdr="1" net="1"/>
      </nic>
    </pci>
  </cpu>
</system>
"""
"""In the form in which NCCL writes what it has detected."""

SWITCHES = """\
<system version="1">
  <cpu numaid="0" affinity="ff" arch="arm64">
    <pci busid="0000:40:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
      <pcilink target="0000:80:00.0"/>
      <pci busid="0000:41:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16"/>
    </pci>
    <pci busid="0000:80:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
      <pcilink target="0000:40:00.0"/>
      <pci busid="0000:81:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16"/>
    </pci>
  </cpu>
</system>
"""
"""Two Broadcom switches with a link between them."""

PORT = """\
<system version="1">
  <cpu numaid="0" affinity="ff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:10:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
      <pci busid="0000:11:00.0" class="0x020000" link_speed="16.0 GT/s PCIe" link_width="16">
        <nic>
          <net name="mlx5_0"/>
        </nic>
      </pci>
    </pci>
  </cpu>
</system>
"""
"""A NIC with its port."""


DEVICE_ADVICE = 'expected no dev where the ranks share a container, and one for every gpu where they do not, found "0"'


def edited(text: str, *edits: tuple[str, str]) -> str:
    """``text`` with the first of each thing replaced."""
    for old, new in edits:
        assert old in text
        text = text.replace(old, new, 1)
    return text


def verdicts(report: Report, severity: Severity) -> list[str]:
    return [str(finding) for finding in report.findings if finding.severity is severity]


def aborts(text: str) -> str:
    """The one reason for which NCCL fails."""
    report = check(text)
    assert not report.accepted
    assert not report.clean
    (reason,) = verdicts(report, Severity.ABORTS)
    return reason


def misreads(text: str) -> str:
    """The one thing that NCCL takes for another."""
    report = check(text)
    assert report.accepted
    assert not report.clean
    (reason,) = verdicts(report, Severity.MISREADS)
    return reason


def advice(text: str) -> str:
    """The one thing to know about a file that is read as it is meant."""
    report = check(text)
    assert report.clean
    (reason,) = verdicts(report, Severity.ADVICE)
    return reason
