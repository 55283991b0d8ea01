"""``gpu-topology message``: the meaning of a code and advice, as in docs/messages.md."""

import json
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from webhook.cli.output import Output

if TYPE_CHECKING:
    from webhook.words.catalogue.entry import Entry

_LIST = "docs/messages.md"
_NEAR = 3
"""The most codes that the refusal of an unknown one names."""


def message(
    code: Annotated[str, typer.Argument(metavar="CODE", help="The code of a message, such as GT212.")],
    output: Annotated[Output, typer.Option("--output", "-o", help="text or json.")] = Output.TEXT,
) -> None:
    """Print what the message with a code means, and what to do about it.

    Words in CAPITALS stand for values.
    """
    entry = _find(code)
    typer.echo(_as_json(entry) if output is Output.JSON else _as_text(entry))


def _find(code: str) -> "Entry":
    from webhook.words.catalogue.index import entries
    from webhook.words.errors import shorten

    known = entries()
    entry = known.get(code.upper())
    if entry is None:
        near = _near(code.upper(), known)
        said = f"expected a code such as GT212, found {shorten(code)}. "
        said += f"Near it are {', '.join(near)}; " if near else ""
        raise typer.BadParameter(f"{said}{_LIST} has all codes", param_hint="CODE")
    return entry


def _near(code: str, known: Iterable[str]) -> list[str]:
    """Return the codes with the nearest numbers to that of ``code``; none if it has no number."""
    number = re.fullmatch(r"(?:GT)?(\d{3})", code, re.ASCII)
    if number is None:
        return []
    return sorted(sorted(known, key=lambda each: abs(int(each[2:]) - int(number[1])))[:_NEAR])


def _as_text(entry: "Entry") -> str:
    more = f"\nSee docs/{entry.page}." if entry.page else ""
    example = f"For example: {entry.example}\n\n" if entry.example else ""
    return f"{entry.pattern}\n\n{example}{entry.advice}{more}"


def _as_json(entry: "Entry") -> str:
    from webhook.words.catalogue.index import AREAS
    from webhook.words.catalogue.remedies import remedy_of

    document = {
        "code": entry.code,
        "area": AREAS[entry.code[2]],
        "text": entry.pattern.text,
        "example": entry.example,
        "fix": entry.pattern.fix,
        "remedy": remedy_of(entry).name.lower(),
        "page": entry.page,
    }
    return json.dumps(document, indent=2)
