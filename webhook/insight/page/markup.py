"""The markup of the page: templates that are filled with values, and their elements as trees for the script.

Every value is escaped. Control characters, and marks that turn the direction of a text, become visible escapes.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from jinja2.ext import Extension
from markupsafe import Markup

from webhook.insight.explain.findings import Nvlink, Verdict
from webhook.insight.explain.start import Verified
from webhook.insight.overview.model import Finding, Level
from webhook.insight.page.holders import hue, mark
from webhook.insight.page.words import Language, Words, words
from webhook.words.listing import ranges
from webhook.words.printable import printable

DASH = "\N{EN DASH}"
"""The sign for a value that does not exist."""
RANKS = {level: rank for rank, level in enumerate(Level)}
"""The rank of each level; 0 is the worst."""
_SIGNS = {
    Level.ERROR: "✖",
    Level.WARNING: "▲",
    Level.INFO: "?",
    Level.HINT: "·",
    Verified.YES: "✓",
    Verified.NO: "✖",
    Verified.UNKNOWN: DASH,
}
_NVLINK_SIGNS = {Nvlink.YES: "✓", Nvlink.NO: "✖", Nvlink.UNKNOWN: "?", Nvlink.NOTHING_TO_JOIN: DASH}
_VERDICTS = {
    Verdict.HOLDS: "✓",
    Verdict.FAILS: "✖",
    Verdict.UNKNOWN: "?",
    Verdict.NOT_NEEDED: DASH,
    Verdict.HINT: "·",
}
_LINE_END = re.compile(r"(?<=[>}])(?<!doctype html>)\s*\n\s*(?=[<{]|\Z)")


def render(name: str, texts: Words, values: Mapping[str, object]) -> Markup:
    """Returns a template filled with values; other templates do not escape the result again.

    Args:
        name: Name of the template, without ``.html``.
        texts: The texts of one language, which templates call ``words``.
        values: The values by name; a missing one is an error.
    """
    return Markup(_environment(texts.language).get_template(f"{name}.html").render(values))  # noqa: S704 - escaped there


def as_tree(markup: str) -> list[Any]:
    """Returns one element as ``[tag, attributes, child, ...]``; a child is a text or such a list.

    Args:
        markup: The markup of a template, which is well-formed XML.
    """
    return _tree(ElementTree.fromstring(markup))  # noqa: S314 - our own template, without a document type


def worst(found: Iterable[Finding]) -> Level:
    """Returns the worst level of findings."""
    return min((each.level for each in found), key=RANKS.__getitem__, default=Level.NONE)


def encoded(names: Iterable[str]) -> str:
    """Returns a list for the script, as JSON."""
    return msgspec.json.encode([printable(name) for name in names]).decode()


def _tree(element: ElementTree.Element) -> list[Any]:
    found: list[Any] = [element.tag, element.attrib]
    if element.text:
        found.append(element.text)
    for child in element:
        found.append(_tree(child))
        if child.tail:
            found.append(child.tail)
    return found


class _Compact(Extension):
    """A Jinja extension that removes line ends between tags, which only lay out the template."""

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:  # noqa: ARG002 - jinja2's
        return _LINE_END.sub("", source)


@cache
def _environment(language: Language) -> Environment:
    found = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        extensions=[_Compact],
        auto_reload=False,
    )
    found.filters |= {
        "anchor": lambda key: quote(printable(key), safe="/"),
        "by_level": lambda findings: sorted(findings, key=lambda each: RANKS[each.level]),
        "encoded": encoded,
        "hue": hue,
        "mark": mark,
        "plain": lambda number: f"{number:g}",
        "ranges": ranges,
        "worst": worst,
    }
    found.globals |= {"words": words(language), "dash": DASH, "signs": _SIGNS, "verdicts": _VERDICTS}
    found.globals["nvlink_signs"] = _NVLINK_SIGNS
    return found


def _shown(value: object) -> object:
    """Returns a value as the page shows it. Markup of a macro, which is another type than ``str``, stays as it is."""
    if type(value) is str:
        return printable(value)
    return f"{round(value, 2):g}" if isinstance(value, float) else value
