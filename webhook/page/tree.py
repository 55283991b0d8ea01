"""Elements of a page: written as HTML with everything escaped, or as JSON from which the browser builds them."""

from html import escape
from typing import Any, NamedTuple

from webhook.printable import printable

_VOID = frozenset(("input", "link", "meta"))
DASH, TIMES = "\N{EN DASH}", "\N{MULTIPLICATION SIGN}"
"""For what there is not, and between a number and what there are so many of."""
SHOWN = frozenset(("aria-label", "title", "placeholder"))
"""Attributes that people read."""


class Element(NamedTuple):
    """One element; the children are elements and texts."""

    tag: str
    attributes: dict[str, str]
    children: "tuple[Element | str, ...]"


Child = Element | str


def el(tag: str, *children: Child | None, **attributes: str | float | bool | None) -> Element:
    """An element. ``class_`` stands for class, an underscore for a dash.

    Control characters, and marks that turn the direction of a text, become visible escapes in what people read.

    Args:
        tag: Its name.
        children: None is left out.
        attributes: None and False are left out, True is an attribute without a value.
    """
    written = {}
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        name = key.rstrip("_").replace("_", "-")
        text = "" if value is True else value if isinstance(value, str) else f"{round(value, 2):g}"
        written[name] = printable(text) if name in SHOWN else text
    shown = (printable(child) if isinstance(child, str) else child for child in children if child is not None)
    return Element(tag, written, tuple(shown))


def as_html(root: Element) -> str:
    """The element as HTML."""
    parts: list[str] = []
    _write(root, parts)
    return "".join(parts)


def _write(root: Element, parts: list[str]) -> None:
    attributes = "".join(f' {key}="{escape(value)}"' for key, value in root.attributes.items())
    parts.append(f"<{root.tag}{attributes}>")
    if root.tag in _VOID:
        return
    for child in root.children:
        if isinstance(child, str):
            parts.append(escape(child, quote=False))
        else:
            _write(child, parts)
    parts.append(f"</{root.tag}>")


def as_json(root: Element) -> list[Any]:
    """``[tag, attributes, child, ...]``, a text being itself."""
    return [root.tag, root.attributes, *(each if isinstance(each, str) else as_json(each) for each in root.children)]
