"""Faults in the shape of a document, in words. The messages of msgspec itself name types of Python."""

import re

from webhook.words.nesting import TooDeep

_WRONG = re.compile(r"Expected `(?P<expected>[^`]+)`, got `(?P<found>[^`]+)`(?: - at `(?P<path>.+)`)?")
_MISSING = re.compile(r"Object missing required field `(?P<field>[^`]+)`(?: - at `(?P<path>.+)`)?")
_NAMES = {
    "object": "an object",
    "array": "a list",
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "null": "null",
}


def shape_problem(error: Exception) -> str:
    """Returns the place, the expected and the found type: ``metadata: expected an object, found a whole number``.

    Args:
        error: The error that msgspec raised when it decoded or converted a value.
    """
    if isinstance(error, TooDeep):
        return "expected JSON, found it nested too deep"
    text = str(error)
    if match := _WRONG.fullmatch(text):
        return f"{_place(match['path'])}expected {_names(match['expected'])}, found {_names(match['found'])}"
    if match := _MISSING.fullmatch(text):
        return f"{_place(match['path'])}expected the member {match['field']}, found none"
    return f"expected JSON, found something else: {text}"


def _place(path: str | None) -> str:
    """Returns ``spec.containers[0]: `` for ``$.spec.containers[0]``; nothing for the whole document."""
    found = (path or "$").removeprefix("$").removeprefix(".")
    return f"{found}: " if found else ""


def _names(types: str) -> str:
    """Returns the names of types. ``object | null`` is only an object: users need not know that null is allowed too."""
    names = [_NAMES.get(name, name) for name in types.split(" | ")]
    return " or ".join([name for name in names if name != "null"] or names)
