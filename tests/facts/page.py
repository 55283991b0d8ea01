"""The generated parts of ``docs/facts.md``."""

from tests.docs.parts import row
from tests.facts.table import SUBJECTS, Fact, every_fact, read

PARTS = ("count", *SUBJECTS)


def facts_part(name: str) -> list[str]:
    """The lines of one part: the counts, or the table of a subject."""
    return _count() if name == "count" else _table(name)


def _count() -> list[str]:
    facts = [fact for _, fact in every_fact()]
    without = sum(1 for fact in facts if not fact.judges)
    return [f"The table has {len(facts)} facts. {len(facts) - without} have a judge, {without} have none."]


def _table(subject: str) -> list[str]:
    facts = read(subject)
    without = sum(1 for fact in facts.values() if not fact.judges)
    return [
        f"{len(facts)} facts, {without} without a judge.",
        "",
        row(("fact", "read in", "versions", "relied on in", "judge")),
        row(("---",) * 5),
        *(_row(fact) for fact in facts.values()),
    ]


def _row(fact: Fact) -> str:
    judges = [f"`{judge.removeprefix('tests/')}`" for judge in fact.judges]
    code = [f"`{module.removeprefix('webhook/')}`" for module in fact.code]
    return row(
        (
            fact.says,
            "; ".join(fact.sources),
            fact.read_for,
            "<br>".join(code),
            "<br>".join(judges) or f"none: {fact.no_judge}",
        )
    )
