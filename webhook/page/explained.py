"""What ``explain`` says of a pod."""

from webhook.explain.findings import Finding, Report, Verdict
from webhook.page.tree import DASH, Element, el
from webhook.page.words import Words

_SIGNS = {Verdict.HOLDS: "✓", Verdict.FAILS: "✖", Verdict.UNKNOWN: "?", Verdict.NOT_NEEDED: DASH}


def explained(report: Report, words: Words) -> Element:
    """The conditions in their order, those that fail first; the sentences are English."""
    failing = [finding for finding in report.findings if finding.fails]
    parts: list[Element] = []
    if failing:
        parts += [el("h3", words("explain.failing")), _conditions(failing, words)]
    for group in report.groups:
        others = [finding for finding in group.findings if not finding.fails]
        if others:
            parts += [el("h3", group.title, lang="en"), _conditions(others, words)]
    return el("div", el("p", report.conclusion, lang="en", class_="conclusion"), *parts, class_="explained")


def _conditions(found: list[Finding], words: Words) -> Element:
    return el("ul", *(_condition(each, words) for each in found), class_="conditions")


def _condition(found: Finding, words: Words) -> Element:
    verdict = words(f"verdict.{found.verdict}")
    return el(
        "li",
        el("span", _SIGNS[found.verdict], class_="verdict", role="img", aria_label=verdict, title=verdict),
        el(
            "div",
            el("b", found.condition),
            ": ",
            found.evidence,
            el("span", f" {found.code}", class_="code") if found.code else None,
            el("p", f"→ {found.remedy}", class_="fix") if found.remedy else None,
            lang="en",
        ),
        class_=f"v-{found.verdict}",
    )
