"""The form of the output of a command, and the exit code for the answer no."""

import enum
from typing import Any

import typer

UNMET = 1
"""The exit code for the answer no."""
_TEXT, _OLDER = "text", "table"


class Output(enum.StrEnum):
    """The form of the output."""

    TEXT = "text"
    JSON = "json"


def form_option(forms: type[enum.StrEnum], described: str) -> Any:
    """Return the option ``--output`` of commands that had ``table`` as their word for ``text``.

    It takes that word too, and lists it nowhere.

    Args:
        forms: The forms, with ``text`` among them.
        described: The help.
    """
    names = [form.value for form in forms]

    def parse(value: str) -> enum.StrEnum:
        if value not in {*names, _OLDER}:
            raise ValueError(f"{value!r} is not one of {', '.join(map(repr, names))}.")
        return forms(_TEXT if value == _OLDER else value)

    return typer.Option(
        "--output",
        "-o",
        parser=parse,
        metavar=f"[{'|'.join(names)}]",
        autocompletion=lambda: names,
        help=described,
    )
