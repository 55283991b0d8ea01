"""``docs/messages.md``, made from the catalogue; ``make messages`` writes it, and a test finds it stale."""

import re
from collections.abc import Iterator
from pathlib import Path

from tests.catalogue.every import AREAS, entries
from webhook.catalogue.entry import Entry

PAGE = Path(__file__).parents[2] / "docs" / "messages.md"

HEAD = """\
# Messages

Everything that the webhook, the agent and `gpu-topology explain` say about a pod, a Binding or a node has a code. A
code never changes its meaning. The text of a message may become clearer in a later version, so programs should
look for the code. Words in CAPITALS stand for values.

This page is made from `webhook/catalogue` by `make messages`. [reasons.md](reasons.md) has the closed vocabulary of
reasons, [explain.md](explain.md) the conditions of `explain`.
"""
_FIELD = re.compile(r"\{(\w+)\}")
_MARKUP = re.compile(r"([*_<>\[\]])")


def page() -> str:
    """The text of the page."""
    return HEAD + "".join(_areas())


def _areas() -> Iterator[str]:
    for digit, title in AREAS.items():
        yield f"\n## {title}\n"
        for code, entry in entries().items():
            if code[2] == digit:
                yield _section(code, entry)


def _section(code: str, entry: Entry) -> str:
    advice = f"{_plain(entry.fix)}.\n" if entry.fix else "There is nothing to do.\n"
    more = f"See [{entry.page.partition('#')[0]}]({entry.page}).\n" if entry.page else ""
    return f"\n### {code}\n\n`{_capitals(entry.text)}`\n\n{advice}{more}"


def _plain(text: str) -> str:
    """Text in which Markdown finds no markup."""
    return _MARKUP.sub(r"\\\1", _capitals(text))


def _capitals(template: str) -> str:
    return _FIELD.sub(lambda field: field[1].upper(), template)
