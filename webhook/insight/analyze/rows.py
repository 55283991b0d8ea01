"""Findings that are shown as one row: those of one code about the pods of one workload, or about nodes."""

from collections.abc import Iterable

import msgspec

from webhook.insight.analyze.diagnosis import Diagnosis, Holder, Severity
from webhook.words.listing import counted


class Row(msgspec.Struct, frozen=True):
    """Findings of one code that are shown together."""

    found: tuple[Diagnosis, ...]
    """The findings, at least one. The text of the first one is shown."""

    @property
    def first(self) -> Diagnosis:
        """The finding whose text is shown."""
        return self.found[0]

    @property
    def holders(self) -> tuple[Holder, ...]:
        """The objects of the findings, each once: an object may have several findings of one code."""
        return tuple(dict.fromkeys(each.holder for each in self.found))

    @property
    def title(self) -> str:
        """The objects in words: ``Deployment team-a/train (500 pods)``, ``Node a and 2 more``, ``Pod team-a/train``."""
        first, count = self.first.holder, len(self.holders)
        if first.owner:
            kind, _, name = first.owner.partition(" ")
            return f"{kind} {first.namespace}/{name} ({counted(count, 'pod')})"
        return f"{first} and {count - 1} more" if count > 1 else str(first)


def rows(found: Iterable[Diagnosis]) -> list[Row]:
    """Returns the findings in their order, those that belong together as one row."""
    grouped: dict[tuple[str, ...], list[Diagnosis]] = {}
    for each in found:
        grouped.setdefault(_key(each), []).append(each)
    return [Row(tuple(group)) for group in grouped.values()]


def _key(each: Diagnosis) -> tuple[str, ...]:
    holder = each.holder
    if holder.owner:
        return (each.severity, each.code, holder.kind, holder.namespace, holder.owner)
    if holder.kind == "Node":
        return (each.severity, each.code, holder.kind)
    return (each.severity, each.code, holder.kind, holder.namespace, holder.name, each.text)


def counts(found: Iterable[Diagnosis]) -> dict[Severity, int]:
    """Returns the number of findings of each severity."""
    every = [each.severity for each in found]
    return {severity: every.count(severity) for severity in Severity}
