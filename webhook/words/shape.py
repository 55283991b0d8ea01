"""What is wrong with the shape of a document, in words; msgspec's own name types of Python."""

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
    """Where, what was expected and what was found, such as ``metadata: expected an object, found a whole number``.

    Args:
        error: That msgspec raised when it decoded or converted something.
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
    """From ``$.spec.containers[0]`` to ``spec.containers[0]: ``; nothing for the whole document."""
    found = (path or "$").removeprefix("$").removeprefix(".")
    return f"{found}: " if found else ""


def _names(types: str) -> str:
    """``object | null`` is shown as an object: a user gains nothing from knowing that null will do as well."""
    names = [_NAMES.get(name, name) for name in types.split(" | ")]
    return " or ".join([name for name in names if name != "null"] or names)
