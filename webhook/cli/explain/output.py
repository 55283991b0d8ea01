"""The report for people and for programs: first the failures, then the other conditions, then one sentence."""

import json
from collections.abc import Iterator, Sequence
from itertools import count

from rich.text import Text

from webhook.insight.drawings.lines import EMPTY, Line, line, plain
from webhook.insight.explain.findings import Finding, Report, Verdict
from webhook.words.printable import printable

_MARKS = {
    Verdict.HOLDS: "ok",
    Verdict.FAILS: "FAIL",
    Verdict.UNKNOWN: "?",
    Verdict.NOT_NEEDED: "-",
    Verdict.HINT: "hint",
}
_STYLES = {
    Verdict.HOLDS: "green",
    Verdict.FAILS: "bold red",
    Verdict.UNKNOWN: "yellow",
    Verdict.NOT_NEEDED: "dim",
    Verdict.HINT: "cyan",
}
_INDENT = " " * 10


def as_text(report: Report) -> str:
    """Return the report for files and pipes, without colours and with one line for each condition.

    Control characters are escaped.
    """
    return plain(report_lines(report))


def as_json(report: Report) -> str:
    """Return the report as one JSON object, with the conditions in their order."""
    document = {
        "pod": report.pod,
        "node": report.node,
        "reach": report.reach.value,
        "conclusion": report.conclusion,
        "findings": [_document(group.title, finding) for group in report.groups for finding in group.findings],
    }
    return json.dumps(document, indent=2) + "\n"


def _document(group: str, finding: Finding) -> dict[str, str | bool]:
    return {
        "group": group,
        "condition": finding.condition,
        "verdict": finding.verdict.value,
        "evidence": finding.evidence,
        "remedy": finding.remedy,
        "code": finding.code,
        "stops": finding.stops,
    }


def report_lines(report: Report) -> Iterator[Line]:
    """Yield the lines for people. Conditions are numbered in their order, wherever they are printed."""
    number = count(1)
    groups = [(group.title, [(next(number), finding) for finding in group.findings]) for group in report.groups]
    failing = [(place, finding) for _, findings in groups for place, finding in findings if finding.fails]
    where = f"on node {report.node}" if report.node else "without a node"
    yield line(printable(f"pod {report.pod} {where}"), "bold")
    if failing:
        every = next(number) - 1
        yield from _section(f"{len(failing)} of {every} conditions {'fails' if len(failing) == 1 else 'fail'}", failing)
    for title, findings in groups:
        others = [(place, finding) for place, finding in findings if not finding.fails]
        if others:
            yield from _section(title, others)
    yield EMPTY
    yield line(printable(report.conclusion), "bold")


def _section(title: str, findings: Sequence[tuple[int, Finding]]) -> Iterator[Line]:
    yield EMPTY
    yield line(title, "bold")
    for number, finding in findings:
        yield from _condition(number, finding)


def _condition(number: int, finding: Finding) -> Iterator[Line]:
    style = _STYLES[finding.verdict]
    begin = Text(f"{number:3}. ").append(f"{_MARKS[finding.verdict]:<4}", style=style).append(" ")
    not_needed = finding.verdict is Verdict.NOT_NEEDED
    text = Text(style="dim" if not_needed else "").append(
        printable(finding.condition), style="" if not_needed else "bold"
    )
    text.append(f": {printable(finding.evidence)}")
    if finding.code:
        text.append(f" ({finding.code})", style="dim")
    yield Line(begin, text)
    if finding.remedy:
        yield Line(Text(f"{_INDENT}-> ", style="cyan"), Text(printable(finding.remedy), style="cyan"))
