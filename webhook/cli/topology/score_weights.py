"""The weights of the score as an option: ``--weights weakest=0.5,link=0.3``."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from webhook.hardware.topology.selection.request import Weights

_OPTION = "--weights"

WeightsOption = Annotated[
    str | None,
    typer.Option(
        _OPTION, metavar="TERM=NUMBER,...", help="What the score weighs, such as mean=0.5,link=0.3; all else 0."
    ),
]


def parse_weights(text: str | None) -> "Weights | None":
    """Return the weights; terms that are not named weigh 0.

    Raises:
        BadParameter: a term is unknown or named twice, a weight is no number, or nothing weighs anything.
    """
    from dataclasses import fields

    from webhook.hardware.topology.selection.request import Weights
    from webhook.words.errors import FormatError, shorten

    if text is None:
        return None
    found = {field.name: 0.0 for field in fields(Weights)}
    named = set()
    for part in text.split(","):
        term, _, number = (word.strip() for word in part.partition("="))
        weight = _number(number)
        if term not in found or term in named or weight is None:
            expected = f"expected each of {', '.join(found)} at most once, as TERM=NUMBER"
            raise typer.BadParameter(f"{expected}, found {shorten(part)}", param_hint=_OPTION)
        named.add(term)
        found[term] = weight
    try:
        return Weights(**found)
    except FormatError as error:
        raise typer.BadParameter(str(error), param_hint=_OPTION) from None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
