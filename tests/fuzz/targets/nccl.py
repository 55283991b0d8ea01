"""Topology files for NCCL: any bytes get a verdict."""

from collections.abc import Iterator

from tests.fuzz import effort
from tests.topology import nccl_files
from tests.topology.machines import MACHINES
from webhook.draw.lines import plain
from webhook.draw.nccl_check import report_lines
from webhook.topology.nccl.check import check
from webhook.topology.nccl.writer import format_nccl_topology

FIXED_CALLS, CALLS_EACH = 3000, 20.0
FINDING_LIMIT = 4096
"""Characters of a finding."""


def seeds() -> Iterator[bytes]:
    """Files of ours, and those of others in the tests."""
    for machine in MACHINES.values():
        yield format_nccl_topology(machine).encode()
    for name in sorted(vars(nccl_files)):
        text = getattr(nccl_files, name)
        if isinstance(text, str) and text.startswith("<system"):
            yield text.encode()


def target(data: bytes) -> None:
    """Fails where there is no verdict, or one that cannot be shown."""
    report = effort.sampled(data, fixed=FIXED_CALLS, each=CALLS_EACH, work=lambda: check(data))
    shown = plain(report_lines(report))
    assert all(line.isprintable() for line in shown.split("\n")), shown[:1000]
    for finding in report.findings:
        assert 1 <= finding.line <= data.count(b"\n") + 1
        assert len(str(finding)) <= FINDING_LIMIT, str(finding)[:300]
    assert report.accepted or report.findings
