"""The report for people and for programs: first the failures, then the other conditions, then one sentence."""

import json
from collections.abc import Iterator, Sequence
from itertools import count

import msgspec
from rich.text import Text

from webhook.insight.drawings.lines import EMPTY, Line, line, plain
from webhook.insight.explain.causes import sureness
from webhook.insight.explain.findings import Change, Finding, Nvlink, Report, Verdict
from webhook.words.listing import counted
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
_WORDS = {word: str(word) for word in Nvlink} | {Nvlink.NOTHING_TO_JOIN: "nothing to join"}
_WORD_STYLES = {
    Nvlink.YES: "bold green",
    Nvlink.NO: "bold red",
    Nvlink.UNKNOWN: "bold yellow",
    Nvlink.NOTHING_TO_JOIN: "bold",
}
_SHOWN = (Verdict.UNKNOWN, Verdict.HINT)
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
        "nvlink": report.judgement.nvlink.value,
        "decided_by": report.judgement.code,
        "sureness": report.judgement.sureness,
        "change": _change(report.judgement.change),
        "reach": report.reach.value,
        "conclusion": report.conclusion,
        "findings": [_document(group.title, finding) for group in report.groups for finding in group.findings],
    }
    return json.dumps(document, indent=2) + "\n"


def _change(change: Change | None) -> dict[str, object] | None:
    """Return the remedy as data: what is patched, and a JSON Patch; None if there is none."""
    if change is None:
        return None
    return {"target": change.target.name.lower(), "patch": msgspec.to_builtins(change.patch)}


def _document(group: str, finding: Finding) -> dict[str, str | bool]:
    return {
        "group": group,
        "condition": finding.condition,
        "verdict": finding.verdict.value,
        "evidence": finding.evidence,
        "remedy": finding.remedy,
        "code": finding.code,
        "stops": finding.stops,
        "sureness": sureness(finding) or "",
    }


def report_lines(report: Report, *, is_verbose: bool = True) -> Iterator[Line]:
    """Yield the lines for people: the verdict, what fails, what decides and is not known, then the other conditions.

    Conditions are numbered in their order, wherever they are printed.

    Args:
        report: The report.
        is_verbose: Whether the other conditions are printed too.
    """
    number = count(1)
    groups = [(group.title, [(next(number), finding) for finding in group.findings]) for group in report.groups]
    every = [each for _, findings in groups for each in findings]
    failing = [(place, finding) for place, finding in every if finding.fails]
    yield _verdict(report)
    if not is_verbose:
        yield from _without_those_that_hold(report, every)
        return
    if failing:
        yield from _section(
            f"{len(failing)} of {len(every)} conditions {'fails' if len(failing) == 1 else 'fail'}", failing
        )
    for title, findings in groups:
        others = [(place, finding) for place, finding in findings if not finding.fails]
        if others:
            yield from _section(title, others)
    yield EMPTY
    yield line(printable(report.conclusion), "bold")


def _without_those_that_hold(report: Report, every: Sequence[tuple[int, Finding]]) -> Iterator[Line]:
    """Yield what fails or is not known besides what the verdict tells, and the number of the other conditions."""
    judgement = report.judgement
    others = [each for each in every if (each[1].code, each[1].evidence) != (judgement.code, judgement.reason)]
    failing = [each for each in others if each[1].fails]
    open_ones = [each for each in others if each[1].verdict in _SHOWN]
    yield from _section("What fails besides" if len(others) < len(every) else "What fails", failing) if failing else ()
    yield from _section("Not known, or remarkable", open_ones) if open_ones else ()
    rest = len(others) - len(failing) - len(open_ones)
    if rest:
        yield EMPTY
        yield line(f"{counted(rest, 'other condition')}: add -v to see them", "dim")


def _verdict(report: Report) -> Line:
    """Return whether the pod has NVLink, what decides, and what to do first."""
    judgement = report.judgement
    where = f"on node {printable(report.node)}" if report.node else "without a node"
    word = Text(f"NVLink: {_WORDS[judgement.nvlink]}", style=_WORD_STYLES[judgement.nvlink])
    decides = f"{judgement.condition}: " if judgement.condition else ""
    text = Text(f", pod {printable(report.pod)} {where}: {printable(decides + judgement.reason)}", style="bold")
    text.append(_aside(judgement.code, judgement.sureness))
    if judgement.remedy:
        text.append(f". First: {printable(judgement.remedy)}")
    return Line(Text(), word.append_text(text))


def _aside(code: str, how_sure: str) -> Text:
    """Return the code of a message and how sure its cause is, in parentheses; nothing where neither is known."""
    said = ", ".join(filter(None, (code, how_sure)))
    return Text(f" ({said})" if said else "", style="dim")


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
    text.append(_aside(finding.code, sureness(finding) or ""))
    yield Line(begin, text)
    if finding.remedy:
        yield Line(Text(f"{_INDENT}-> ", style="cyan"), Text(printable(finding.remedy), style="cyan"))
