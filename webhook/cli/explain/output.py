"""The report as people and as programs read it: what fails first, then the other conditions, then one sentence."""

import json
from collections.abc import Iterator, Sequence
from itertools import chain, count
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

from webhook.explain.findings import Finding, Report, Verdict
from webhook.printable import printable

_MARKS = {Verdict.HOLDS: "ok", Verdict.FAILS: "FAIL", Verdict.UNKNOWN: "?", Verdict.NOT_NEEDED: "-"}
_STYLES = {Verdict.HOLDS: "green", Verdict.FAILS: "bold red", Verdict.UNKNOWN: "yellow", Verdict.NOT_NEEDED: "dim"}
_INDENT = " " * 10
_LEAST = 20
"""Characters of a line after its indentation; a narrower terminal breaks the lines itself."""


def as_text(report: Report) -> str:
    """For files and pipes: no colours, and each condition in one line. Control characters are escaped."""
    return "".join(f"{line.begin.plain}{line.text.plain}\n" for line in _lines(report))


def for_terminal(report: Report, console: Console) -> Text:
    """For a terminal: in colours, where the console has some, and wrapped to its width."""
    return Text("\n").join(chain.from_iterable(_wrapped(line, console) for line in _lines(report)))


def as_json(report: Report) -> str:
    """The same as one JSON object, with the conditions in their order."""
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


class _Line(NamedTuple):
    """A line that may be wrapped: what follows its beginning is indented by it."""

    begin: Text
    text: Text


def _line(text: str, style: str = "") -> _Line:
    return _Line(Text(), Text(printable(text), style=style))


_EMPTY = _line("")


def _lines(report: Report) -> Iterator[_Line]:
    """The numbers are those of the conditions in their order, wherever a condition stands."""
    number = count(1)
    groups = [(group.title, [(next(number), finding) for finding in group.findings]) for group in report.groups]
    failing = [(place, finding) for _, findings in groups for place, finding in findings if finding.fails]
    yield _line(f"pod {report.pod} " + (f"on node {report.node}" if report.node else "without a node"), "bold")
    if failing:
        every = next(number) - 1
        yield from _section(f"{len(failing)} of {every} conditions {'fails' if len(failing) == 1 else 'fail'}", failing)
    for title, findings in groups:
        others = [(place, finding) for place, finding in findings if not finding.fails]
        if others:
            yield from _section(title, others)
    yield _EMPTY
    yield _line(report.conclusion, "bold")


def _section(title: str, findings: Sequence[tuple[int, Finding]]) -> Iterator[_Line]:
    yield _EMPTY
    yield _line(title, "bold")
    for number, finding in findings:
        yield from _condition(number, finding)


def _condition(number: int, finding: Finding) -> Iterator[_Line]:
    style = _STYLES[finding.verdict]
    begin = Text(f"{number:3}. ").append(f"{_MARKS[finding.verdict]:<4}", style=style).append(" ")
    not_needed = finding.verdict is Verdict.NOT_NEEDED
    text = Text(style="dim" if not_needed else "").append(
        printable(finding.condition), style="" if not_needed else "bold"
    )
    text.append(f": {printable(finding.evidence)}")
    if finding.code:
        text.append(f" ({finding.code})", style="dim")
    yield _Line(begin, text)
    if finding.remedy:
        yield _Line(Text(f"{_INDENT}-> ", style="cyan"), Text(printable(finding.remedy), style="cyan"))


def _wrapped(line: _Line, console: Console) -> Iterator[Text]:
    indent = line.begin.cell_len
    begin = line.begin
    for part in line.text.wrap(console, max(console.width - indent, _LEAST)) or [Text()]:
        part.rstrip()
        yield begin + part
        begin = Text(" " * indent)
