"""What a HAMi was found to be: from the results of tests to a verdict on each rule, and to the table."""

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from tests.compatibility.rules import HAMI_TESTS, RULES, Judge, Rule
from tests.docs.parts import row


class Verdict(StrEnum):
    """On a rule."""

    HOLDS = "holds"
    CHANGED = "changed"
    """HAMi is another one than described, and nothing of ours breaks by that."""
    BROKE = "broke"
    NOT_JUDGED = "not judged"
    """A test was left out, or none has run."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """Of a test, or of a subtest."""

    test: str
    """Its id."""
    outcome: str
    """``passed``, ``failed`` or ``skipped``."""
    part: str = ""
    """The key of a subtest."""
    about: str = ""
    """What stands behind the key."""
    said: str = ""
    """Why it did not pass."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What was found of a rule."""

    rule: str
    verdict: Verdict
    failed: tuple[str, ...] = ()
    """Names of tests, each with what the subtest was about."""
    said: tuple[str, ...] = ()
    """Why, in the same order."""


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """What was found of one HAMi."""

    name: str
    """As the person calls it who has it, or its version."""
    release: str
    """In whose place it stood: what our side took it for."""
    date: str
    found: tuple[Found, ...]


def judges(test: str, part: str = "") -> list[tuple[Rule, Judge]]:
    """The rules to which a test belongs; without a part it speaks of all its parts."""
    name = test.removeprefix(HAMI_TESTS)
    fitting = [
        (rule, judge)
        for rule in RULES
        for judge in rule.judges
        if name.startswith(judge.tests) and part in ("", judge.part)
    ]
    longest = max((len(judge.tests) for _, judge in fitting), default=0)
    return [(rule, judge) for rule, judge in fitting if len(judge.tests) == longest]


def checked(results: Sequence[Result], *, name: str, release: str, date: str) -> Checked:
    """What the results of a run say of a HAMi."""
    of: dict[str, list[Result]] = {rule.name: [] for rule in RULES}
    for result in results:
        for name_of_rule in {rule.name for rule, _ in judges(result.test, result.part)}:
            of[name_of_rule].append(result)
    found = tuple(_found(rule, of[rule.name]) for rule in RULES)
    return Checked(name=name, release=release, date=date, found=found)


def _found(rule: Rule, results: Sequence[Result]) -> Found:
    failed = [each for each in results if each.outcome == "failed"]
    if failed:
        verdict = Verdict.BROKE if rule.is_needed else Verdict.CHANGED
    elif not results or any(each.outcome != "passed" for each in results):
        verdict = Verdict.NOT_JUDGED
        failed = [each for each in results if each.outcome != "passed"]
    else:
        verdict = Verdict.HOLDS
    named = tuple(map(_named, failed))
    return Found(rule=rule.name, verdict=verdict, failed=named, said=tuple(each.said for each in failed))


def _named(result: Result) -> str:
    test = result.test.removeprefix(HAMI_TESTS)
    return f"{test}: {result.about}" if result.about else test


def doubtful(results: Iterable[Result]) -> list[str]:
    """The tests that failed and of which something of ours needs that they pass."""
    failed = (each for each in results if each.outcome == "failed")
    return sorted({each.test for each in failed if any(rule.is_needed for rule, _ in judges(each.test, each.part))})


def second_try(first: Sequence[Result], again: Sequence[Result]) -> tuple[Result, ...]:
    """The results after tests that failed have run once more: only what fails twice has failed."""
    tests = {result.test for result in again}
    return (*(result for result in first if result.test not in tests), *again)


def exit_code(found: Checked) -> int:
    """0 if everything holds or has merely changed, 1 if something broke, 2 if something was not judged."""
    verdicts = {each.verdict for each in found.found}
    if Verdict.BROKE in verdicts:
        return 1
    return 2 if Verdict.NOT_JUDGED in verdicts else 0


def report(found: Checked) -> Iterator[str]:
    """The lines for a person who has run it."""
    counts = {verdict: sum(each.verdict is verdict for each in found.found) for verdict in Verdict}
    said = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    yield f"HAMi {found.name}, in place of {found.release}: {said}"
    for each, rule in zip(found.found, RULES, strict=True):
        yield f"  {each.verdict.upper():<10}  {rule.sentence}  (docs/{_page(rule)})"
        for test, why in zip(each.failed, each.said, strict=True):
            yield f"{'':14}{test}" + (f": {why}" if why else "")


def _page(rule: Rule) -> str:
    return f"compatibility.md{rule.link}" if rule.link.startswith("#") else rule.link


def merged(known: Iterable[Checked], new: Checked) -> tuple[Checked, ...]:
    """What is known after a run: it replaces what was found of a HAMi of the same name."""
    # What a test said may name places on the machine of the run.
    kept = replace(new, found=tuple(replace(each, said=()) for each in new.found))
    by_name = {each.name: each for each in (*known, kept)}
    return tuple(sorted(by_name.values(), key=_order))


def _order(each: Checked) -> tuple[object, ...]:
    """Versions by their numbers, then branches and pull requests by their names."""
    version = re.match(r"(\d+)\.(\d+)\.(\d+)", each.name)
    return (not version, tuple(map(int, version.groups())) if version else (), each.name)


def table(known: Sequence[Checked]) -> list[str]:
    """The lines of the page."""
    if not known:
        return ["No run was recorded yet."]
    head = ("what must hold", *(each.name for each in known))
    lines = [row(head), row(("---",) * len(head))]
    for rule in RULES:
        verdicts = [_verdict(rule, each) for each in known]
        lines.append(row((f"{rule.sentence} ([more]({rule.link}))", *verdicts)))
    stood = ", ".join(f"{each.name} on {each.date} in place of {each.release}" for each in known)
    return [*lines, "", f"Judged: {stood}.", *_failures(known)]


def _verdict(rule: Rule, each: Checked) -> str:
    found = [it.verdict for it in each.found if it.rule == rule.name]
    verdict = found[0] if found else Verdict.NOT_JUDGED
    return f"**{verdict}**" if verdict is Verdict.BROKE else str(verdict)


def _failures(known: Sequence[Checked]) -> Iterator[str]:
    sentences = {rule.name: rule.sentence for rule in RULES}
    for each in known:
        for found in each.found:
            if found.verdict in (Verdict.BROKE, Verdict.CHANGED) and found.rule in sentences:
                tests = "; ".join(f"`{test}`" for test in found.failed)
                yield from ("", f"{each.name}, {found.verdict}: {sentences[found.rule]}. By {tests}.")
