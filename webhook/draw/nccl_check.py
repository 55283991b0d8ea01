"""What NCCL makes of a topology file, in sentences and a table."""

from collections.abc import Iterator, Sequence

from rich.text import Text

from webhook.draw.columns import columns
from webhook.draw.lines import EMPTY, Line, line
from webhook.draw.sentences import counted, listed
from webhook.printable import printable
from webhook.topology.nccl.check import Contents, Diagnostic, GpuEntry, Report, Severity

_TITLES = {
    Severity.ABORTS: "What stops NCCL",
    Severity.MISREADS: "What NCCL reads as something else",
    Severity.ADVICE: "What NCCL 2.30 reads as it is meant, but older releases do not, or only under a condition",
}
_STYLES = {Severity.ABORTS: "bold red", Severity.MISREADS: "bold yellow", Severity.ADVICE: "bold cyan"}
_PLACES = 8
"""That are listed of one finding."""
_INDENT = "  "


def verdict(report: Report) -> str:
    """One sentence."""
    if not report.accepted:
        return "NCCL refuses to start with this file."
    if not report.clean:
        return "NCCL takes this file, but reads something else than is written there."
    return "NCCL takes this file as it is written."


def report_lines(report: Report) -> Iterator[Line]:
    """The verdict, what was found in which lines, and what NCCL reads."""
    yield line(verdict(report), "bold" if report.clean else "bold red")
    for severity in Severity:
        found = [finding for finding in report.findings if finding.severity is severity]
        if found:
            yield EMPTY
            yield line(_TITLES[severity], _STYLES[severity])
            yield from _findings(found)
    yield EMPTY
    yield from _contents(report.contents)


def _findings(found: Sequence[Diagnostic]) -> Iterator[Line]:
    """What is wrong in many places is said once."""
    places: dict[tuple[str, str], list[Diagnostic]] = {}
    for finding in found:
        places.setdefault((finding.message, finding.consequence), []).append(finding)
    for (message, consequence), where in places.items():
        sentence = f"{message[:1].upper()}{message[1:]}. {consequence}."
        yield Line(Text(f"{_INDENT}- "), Text(printable(sentence)))
        width = max(len(str(each.line)) for each in where[:_PLACES])
        for each in where[:_PLACES]:
            begin = Text(f"{_INDENT * 2}line {each.line:<{width}}  ", style="dim")
            yield Line(begin, Text(printable(each.where)))
        if len(where) > _PLACES:
            yield Line(Text(_INDENT * 2), Text(f"and {len(where) - _PLACES} more", style="dim"))


def _contents(contents: Contents) -> Iterator[Line]:
    if not contents.elements:
        yield line("NCCL reads nothing from it.")
        return
    kinds = ((contents.cpus, "CPU"), (contents.gpus, "GPU"), (contents.nics, "NIC"))
    has = listed(counted(len(found), kind) for found, kind in kinds if found)
    yield line(f"NCCL reads {counted(contents.elements, 'element')}" + (f", with {has}." if has else "."))
    rows = [
        *(("CPU", f"NUMA node {numa}", "") for numa in contents.cpus),
        *(("GPU", gpu.bus_id, _nvlinks(gpu)) for gpu in contents.gpus),
        *(("NIC", nic, "") for nic in contents.nics),
    ]
    if rows:
        yield EMPTY
        shown = [tuple(map(printable, row)) for row in rows]
        yield from (Line(each, Text()) for each in columns(("", "which", "NVLinks"), shown).split("\n"))


def _nvlinks(gpu: GpuEntry) -> str:
    switched = [f"{gpu.switch_links} to NVSwitches"] if gpu.switch_links else []
    return ", ".join([*switched, *(f"{count} to {target}" for target, count in gpu.direct_links)]) or "none"
