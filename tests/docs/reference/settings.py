"""The tables of the configuration: fields and defaults of its types, docstrings, and bounds as the checks hold them."""

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Callable
from typing import Annotated, Any, get_args, get_origin

import msgspec

from tests.docs.parts import row
from webhook.decisions.configuration import (
    HAMI_CLAIMS,
    HAMI_RESOURCES,
    NVIDIA_CLAIMS,
    VOLCANO_RESOURCES,
    ClaimDriver,
    Config,
    NetworkLevel,
    ResourceNames,
    Section,
    parse_config,
)
from webhook.words.errors import ConfigError

SECTIONS: dict[str, Any] = {
    field.encode_name: field.type
    for field in msgspec.structs.fields(Config)
    if isinstance(field.type, type) and issubclass(field.type, Section)
}
ENTRIES: dict[str, tuple[Any, dict[str, Any]]] = {
    "resources": (ResourceNames, {"HAMi": HAMI_RESOURCES, "Volcano": VOLCANO_RESOURCES}),
    "drivers": (ClaimDriver, {"NVIDIA": NVIDIA_CLAIMS, "HAMi": HAMI_CLAIMS}),
    "network": (NetworkLevel, {}),
}
"""Types of the entries of lists, by the names of their tables, with the entries that are there by default."""
TABLES = (*SECTIONS, *ENTRIES)
HIGHEST = 2**31
"""A bound above this is none that a person meets."""
STEP = 0.001


def settings_table(name: str) -> list[str]:
    """The lines of one of the tables."""
    kind, examples = ENTRIES.get(name) or (SECTIONS[name], {})
    meanings = _meanings(kind)
    head = ("field", "type", *(examples or ("default",)), "meaning")
    rows = []
    for field in msgspec.structs.fields(kind):
        values = [getattr(example, field.name) for example in examples.values()] or [field.default]
        words = _type(field.type) + (_bounds(name, field) if name in SECTIONS else "")
        rows.append(row((f"`{field.encode_name}`", words, *map(_value, values), meanings[field.name])))
    return [row(head), "|" + "---|" * len(head), *rows]


def _meanings(kind: Any) -> dict[str, str]:
    """The docstring below each field, as one line of Markdown."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(definition, ast.ClassDef)
    found: dict[str, str] = {}
    for one, after in zip(definition.body, definition.body[1:], strict=False):
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            text = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
            found[one.target.id] = re.sub(r"\s+", " ", str(text)).replace("``", "`")
    return {field.name: found.get(field.name, "") for field in msgspec.structs.fields(kind)}


def _type(kind: Any) -> str:
    kind = _bare(kind)
    plain = {str: "string", bool: "boolean", int: "integer", float: "number"}
    if kind in plain:
        return plain[kind]
    if choices := _choices(kind):
        return " ".join(f"`{choice}`" if choice else '`""`' for choice in choices)
    if get_origin(kind) is dict:
        return "map of strings"
    return "list of strings" if get_args(kind)[0] is str else "list"


def _bare(kind: Any) -> Any:
    """A type without its bounds."""
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def _choices(kind: Any) -> tuple[str, ...]:
    (schema,), components = msgspec.json.schema_components([kind])
    schema = components.get(schema.get("$ref", "").rpartition("/")[2], schema)
    return tuple(schema.get("enum", ()))


def _value(value: Any) -> str:
    """A value as YAML would have it; of a list of entries, where its table is."""
    if value is msgspec.NODEFAULT:
        return ""
    plain = msgspec.to_builtins(value)
    if isinstance(plain, list | tuple) and plain and not isinstance(plain[0], str):
        return "below"
    return f"`{plain}`" if isinstance(plain, str) and plain else f"`{json.dumps(plain)}`"


def _bounds(section: str, field: Any) -> str:
    """What is accepted of a number while all else has its default, such as ``, 1 or more``."""
    if not isinstance(field.default, int | float) or isinstance(field.default, bool):
        return ""

    def accepts(value: float) -> bool:
        try:
            parse_config({section: {field.encode_name: value}})
        except ConfigError:
            return False
        return True

    least = _edge(accepts, -1, int(field.default))
    if not accepts(HIGHEST):
        return f", {least} to {-_edge(lambda value: accepts(-value), -HIGHEST, -int(field.default))}"
    return ", above 0" if least == 1 and _bare(field.type) is float and accepts(STEP) else f", {least} or more"


def _edge(accepts: Callable[[float], bool], refused: int, accepted: int) -> int:
    """The lowest number that is accepted, between one that is refused and a higher one that is accepted."""
    while accepted - refused > 1:
        middle = (refused + accepted) // 2
        refused, accepted = (refused, middle) if accepts(middle) else (middle, accepted)
    return accepted
