"""The promises of each page beside their attacks, as ``docs/attacks.md`` shows them."""

import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path

import msgspec
import yaml

from tests.docs.parts import row

PROMISES = Path(__file__).with_name("promises.yaml")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


class Promise(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A sentence of a page, or a part of one."""

    promise: str
    attacks: Mapping[str, date] = {}
    """Tests that would fail if it were false, as ``PATH::NAME`` below ``tests/``, with the day on which each came."""
    untried: str = ""
    """Why there is none."""
    figures: str = ""
    """What the attack came to when it was measured, where it costs something."""


def read_promises() -> dict[str, tuple[Promise, ...]]:
    """The promises by their pages in ``docs/``."""
    text = yaml.safe_load(PROMISES.read_text(encoding="utf-8"))
    return msgspec.convert(text, dict[str, tuple[Promise, ...]])


def promises_table(page: str) -> list[str]:
    """The lines of the table of a page."""
    rows = [_row(promise) for promise in read_promises()[page]]
    return [row(("Promise", "Attack", "Held since", "Figures")), "|---|---|---|---|", *map(row, rows)]


def _row(promise: Promise) -> tuple[str, str, str, str]:
    """A promise without its links, which lead elsewhere from another page; cells of a table stand after colons."""
    words = _LINK.sub(r"\1", promise.promise).replace(" | ", ": ")
    if not promise.attacks:
        return words, f"none: {promise.untried}", "", ""
    attacks = ", ".join(f"`{attack}`" for attack in promise.attacks)
    return words, attacks, min(promise.attacks.values()).isoformat(), promise.figures
