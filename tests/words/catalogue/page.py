"""``docs/messages.md``, made from the catalogue; ``make messages`` writes it, and a test finds it stale."""

import re
from collections.abc import Iterator
from pathlib import Path

from webhook.words.catalogue.entry import Entry
from webhook.words.catalogue.index import AREAS, entries

PAGE = Path(__file__).parents[3] / "docs" / "messages.md"

HEAD = """\
# Messages

Everything that the webhook, the agent and `gpu-topology explain` say about a pod, a Binding or a node has a code. A
code never changes its meaning. The text of a message may become clearer in a later version, so programs should
look for the code. Words in CAPITALS stand for values.

`gpu-topology message GT212` prints what this page says of a code. [troubleshooting.md](troubleshooting.md#reasons) has
the closed vocabulary of reasons, [explain.md](explain.md) the conditions of `explain`. This page is made from
`webhook/words/catalogue` by `make messages`.
"""
_ESCAPED = r"\\\1"
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
    advice = _MARKUP.sub(_ESCAPED, entry.advice)
    more = f"See [{entry.page.partition('#')[0]}]({entry.page}).\n" if entry.page else ""
    example = f"For example: {_MARKUP.sub(_ESCAPED, entry.example)}\n\n" if entry.example else ""
    return f"\n### {code}\n\n`{entry.pattern.text}`\n\n{example}{advice}\n{more}"
