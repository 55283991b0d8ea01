"""The findings of ``analyze``, sorted by the objects that they belong to."""

from collections.abc import Mapping
from typing import Final

import msgspec

from webhook.insight.analyze.analyzers import Analysis
from webhook.insight.analyze.diagnosis import Diagnosis, Severity
from webhook.insight.explain.findings import Judgement
from webhook.insight.overview.model import Finding, Level
from webhook.words.printable import fitted

_LEVELS: Final = {
    Severity.ERROR: Level.ERROR,
    Severity.WARNING: Level.WARNING,
    Severity.INFO: Level.INFO,
    Severity.HINT: Level.HINT,
}


class SortedFindings(msgspec.Struct, frozen=True, kw_only=True):
    """Findings, by their objects."""

    of_nodes: Mapping[str, tuple[Finding, ...]]
    """Findings about nodes, by name of the node."""
    of_pods: Mapping[str, tuple[Finding, ...]]
    """Findings about pods, by ``namespace/name``."""
    others: tuple[Finding, ...]
    judgements: Mapping[str, Judgement]
    """The judgements of pods, by ``namespace/name``."""


def sort_findings(found: Analysis) -> SortedFindings:
    """Returns the findings by their objects, in the order of ``analyze``: the worst first."""
    nodes: dict[str, list[Finding]] = {}
    pods: dict[str, list[Finding]] = {}
    others: list[Finding] = []
    for each in found.findings:
        holder = each.holder
        if holder.kind == "Node":
            nodes.setdefault(holder.name, []).append(_finding(each))
        elif holder.kind == "Pod":
            pods.setdefault(f"{holder.namespace}/{holder.name}", []).append(_finding(each))
        else:
            others.append(_finding(each, about=fitted(str(holder))))
    return SortedFindings(
        of_nodes={name: tuple(listed) for name, listed in nodes.items()},
        of_pods={key: tuple(listed) for key, listed in pods.items()},
        others=tuple(others),
        judgements=found.pods,
    )


def _finding(each: Diagnosis, *, about: str = "") -> Finding:
    return Finding(
        level=_LEVELS[each.severity], code=each.code, text=each.text, fix=each.fix, page=each.page, about=about
    )
