"""Findings as a table for people and as JSON for programs."""

import json
from typing import Any

from webhook.cluster.snapshot.model import Snapshot
from webhook.insight.analyze.analyzers import Analysis
from webhook.insight.analyze.diagnosis import Severity
from webhook.insight.analyze.rows import Row, counts, rows
from webhook.insight.explain.findings import Nvlink
from webhook.insight.explain.nvlink import numbers, numbers_text
from webhook.words.listing import counted, listed
from webhook.words.printable import printable

_STYLES = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: "", Severity.HINT: "dim"}
_NOUNS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "open question", Severity.HINT: "hint"}


def as_json(judged: Analysis) -> str:
    """Return one JSON object. Findings that are reported together are one member of ``findings``."""
    found = judged.findings
    document = {
        "findings": [_document(row) for row in rows(found)],
        "counts": counts(found),
        "nvlink": numbers(_words(judged)),
    }
    return json.dumps(document, indent=2) + "\n"


def _document(row: Row) -> dict[str, Any]:
    first = row.first
    return {
        "severity": first.severity.value,
        "code": first.code,
        "owner": first.holder.owner,
        "count": len(row.holders),
        "objects": [
            {
                "kind": each.holder.kind,
                "namespace": each.holder.namespace,
                "name": each.holder.name,
                "text": each.text,
                "fix": each.fix,
            }
            for each in row.found
        ],
        "page": first.page,
    }


def print_table(judged: Analysis, snapshot: Snapshot, *, namespace: str | None, wide: bool = False) -> None:
    """Print a row for findings that are reported together, and their numbers. Control characters are escaped."""
    from rich.table import Table
    from rich.text import Text

    from webhook.cli.columns import print_parts, table_console

    found = judged.findings
    console = table_console(wide=wide)
    if found:
        table = Table(box=None, pad_edge=False, show_edge=False)
        table.add_column("LEVEL")
        table.add_column("CODE")
        table.add_column("OBJECT", overflow="fold", ratio=2)
        table.add_column("FINDING", overflow="fold", ratio=5)
        for row in rows(found):
            first = row.first
            level = Text(first.severity, style=_STYLES[first.severity])
            table.add_row(level, first.code, Text(printable(row.title)), Text(_told(row)))
        print_parts(console, [table, Text()])
    console.print(_summary(judged, snapshot, namespace), soft_wrap=True)


def _words(judged: Analysis) -> list[Nvlink]:
    return [each.nvlink for each in judged.pods.values()]


def _told(row: Row) -> str:
    fix = f"\n-> {printable(row.first.fix)}" if row.first.fix else ""
    return printable(row.first.text) + fix


def _summary(judged: Analysis, snapshot: Snapshot, namespace: str | None) -> str:
    where = f"namespace {namespace}" if namespace else counted(len(snapshot.namespaces), "namespace")
    looked = f"{counted(len(snapshot.pods), 'pod')} of {where}, {counted(len(snapshot.nodes), 'node')}"
    said = [counted(number, _NOUNS[severity]) for severity, number in counts(judged.findings).items() if number]
    return f"{listed(said) or 'nothing found'}: {looked}\n{numbers_text(_words(judged))}"
