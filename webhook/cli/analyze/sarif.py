"""Findings as SARIF 2.1.0 (OASIS, "Static Analysis Results Interchange Format"), for code scanning of forges."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from webhook import __version__
from webhook.insight.analyze.diagnosis import Diagnosis, Holder, Severity
from webhook.insight.analyze.rows import Row, rows
from webhook.words.printable import printable

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note", Severity.HINT: "note"}
_LOCATIONS = 100
"""The most locations of one result; forges show a few."""


def as_sarif(found: Sequence[Diagnosis], sources: Mapping[tuple[str, str, str], str]) -> str:
    """Return the findings as one run.

    Args:
        found: The findings.
        sources: The file of each object, by kind, namespace and name.
    """
    codes = dict.fromkeys(each.code for each in found)
    driver = {"name": "gpu-topology", "version": __version__, "rules": [_rule(code, found) for code in codes]}
    results = [_result(row, sources) for row in rows(found)]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(code: str, found: Sequence[Diagnosis]) -> dict[str, Any]:
    first = next(each for each in found if each.code == code)
    return {"id": code, "help": {"text": f"docs/{first.page}"}}


def _result(row: Row, sources: Mapping[tuple[str, str, str], str]) -> dict[str, Any]:
    first = row.first
    text = f"{row.title}: {first.text}" + (f". {first.fix}" if first.fix else "")
    return {
        "ruleId": first.code,
        "level": _LEVELS[first.severity],
        "message": {"text": printable(text)},
        "locations": [_location(holder, sources) for holder in row.holders[:_LOCATIONS]],
        "occurrenceCount": len(row.holders),
        "partialFingerprints": {"object/v1": f"{first.code}/{first.holder.owner or first.holder}"},
    }


def _location(holder: Holder, sources: Mapping[tuple[str, str, str], str]) -> dict[str, Any]:
    name = f"{holder.namespace}/{holder.name}" if holder.namespace else holder.name
    logical = {"name": holder.name, "fullyQualifiedName": f"{holder.kind}/{name}", "kind": "resource"}
    source = sources.get((holder.kind, holder.namespace, holder.name))
    where = {"physicalLocation": {"artifactLocation": {"uri": _uri(source)}}} if source else {}
    return where | {"logicalLocations": [logical]}


def _uri(path: str) -> str:
    from urllib.parse import quote

    return quote(path)
