"""The report as people and as programs read it."""

import json
from collections.abc import Iterator
from itertools import count

from webhook.explain.findings import Finding, Report, Verdict
from webhook.printable import printable

_MARKS = {Verdict.HOLDS: "ok", Verdict.FAILS: "FAIL", Verdict.UNKNOWN: "?", Verdict.NOT_NEEDED: "-"}
_INDENT = " " * 10


def as_text(report: Report) -> str:
    """The conditions, numbered, and one sentence. Control characters, which a terminal obeys, are escaped."""
    return "".join(printable(line) + "\n" for line in _lines(report))


def as_json(report: Report) -> str:
    """The same as one JSON object."""
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


def _lines(report: Report) -> Iterator[str]:
    yield f"pod {report.pod} " + (f"on node {report.node}" if report.node else "without a node")
    number = count(1)
    for group in report.groups:
        yield ""
        yield group.title
        for finding in group.findings:
            code = f" ({finding.code})" if finding.code else ""
            yield f"{next(number):3}. {_MARKS[finding.verdict]:<4} {finding.condition}: {finding.evidence}{code}"
            if finding.remedy:
                yield f"{_INDENT}-> {finding.remedy}"
    yield ""
    yield report.conclusion
