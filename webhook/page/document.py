"""The page as an HTML document: empty, for a browser that fills it, or with everything in one file."""

import base64
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files

import msgspec

from webhook.page.blocks import LISTS, Blocks
from webhook.page.tree import Child, Element, as_html, el
from webhook.page.words import Language, Words

SCRIPT, STYLE, ICON = "page.js", "page.css", "icon.svg"
ASSETS: Mapping[str, str] = {
    SCRIPT: "text/javascript; charset=utf-8",
    STYLE: "text/css; charset=utf-8",
    ICON: "image/svg+xml",
}
"""Files of the page with their types."""
_COMMON = "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    f"frame-ancestors 'none'; {_COMMON}"
)
"""Content-Security-Policy of the live page."""
_POD_COLUMNS = ("pod", "workload", "node", "cards", "profile", "link", "bandwidth", "verified", "findings")
_NODE_COLUMNS = ("node", "product", "gpus", "free", "nvlink", "lost", "best", "holders")
_NUMBERS = frozenset(("bandwidth", "gpus", "free", "lost", "best"))
_CLIENT = "client."
"""Begins the keys of texts that the script says."""


@cache
def asset(name: str) -> bytes:
    """A file of the page.

    Raises:
        KeyError: there is none of that name.
    """
    if name not in ASSETS:
        raise KeyError(name)
    return files(__package__).joinpath("assets", name).read_bytes()


def shell(words: Words) -> str:
    """The live page before it has heard anything. Nothing of the cluster is in it."""
    head = (
        as_html(el("link", rel="stylesheet", href=f"/assets/{STYLE}"))
        + as_html(el("link", rel="icon", href=f"/assets/{ICON}"))
        + as_html(el("script", type="module", src=f"/assets/{SCRIPT}"))
    )
    return _document(words, head, _body(words, {}, (), at=""), is_file=False)


def whole(found: Blocks, details: Iterable[Element], words: Words, *, at: str) -> str:
    """One file with everything, which needs no server and no script.

    Args:
        found: Of the overview.
        details: What links lead to: :func:`detail`.
        words: The texts.
        at: When the cluster was read.
    """
    style, script = asset(STYLE).decode(), asset(SCRIPT).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{_digest(script)}'; style-src 'sha256-{_digest(style)}'; {_COMMON}"
    )
    meta = as_html(el("meta", http_equiv="Content-Security-Policy", content=policy))
    head = f'{meta}<style>{style}</style><script type="module">{script}</script>'
    return _document(words, head, _body(words, found, tuple(details), at=at), is_file=True)


def detail(key: str, title: str, body: Element) -> Element:
    """What a link of the file leads to."""
    # A browser opens the details around what it is led to, and not those that it is led to themselves.
    return el("details", el("summary", title), el("div", body, id=key))


def _digest(text: str) -> str:
    return base64.b64encode(sha256(text.encode()).digest()).decode()


def _document(words: Words, head: str, body: Element, *, is_file: bool) -> str:
    said = {key.removeprefix(_CLIENT): text for key, text in words.texts.items() if key.startswith(_CLIENT)}
    about = as_html(el("meta", name="viewport", content="width=device-width, initial-scale=1"))
    about += as_html(el("meta", name="color-scheme", content="light dark"))
    about += as_html(el("meta", name="referrer", content="no-referrer"))
    about += as_html(el("title", words("title")))
    root = el("html", lang=words.language, data_texts=msgspec.json.encode(said).decode(), data_file=is_file)
    opened = as_html(root).removesuffix("</html>")
    return f'<!doctype html>\n{opened}<head><meta charset="utf-8">{about}{head}</head>{as_html(body)}</html>\n'


def _body(words: Words, found: Blocks, details: Sequence[Element], *, at: str) -> Element:
    lists = {name: _filled(name, found) for name in LISTS}
    return el(
        "body",
        el("a", words("skip.nodes"), href="#nodes-title", class_="skip"),
        el("a", words("skip.pods"), href="#pods-title", class_="skip"),
        _header(words, at),
        el("div", id="banner", role="alert", hidden=True),
        None if found else el("noscript", el("p", words("noscript"), class_="banner")),
        el(
            "main",
            el("section", _list("div", "summary", lists), _list("div", "notes", lists), aria_label=words("summary")),
            _filters(words, lists),
            el("div", _side(words, lists), _grid(words, lists, found), class_="columns"),
            _tabled("pods", words, _POD_COLUMNS, lists, empty="pods.empty"),
            _tabled("node-rows", words, _NODE_COLUMNS, lists, empty="nodes.empty"),
            el("section", el("h2", words("details.title")), *details, class_="details") if details else None,
        ),
        _dialog(words),
        el("footer", el("p", words("footer"))),
    )


def _filled(name: str, found: Blocks) -> list[Element]:
    here = (block.tree for key, block in found.items() if key.startswith(f"{name}/"))
    return sorted(here, key=lambda tree: tree.attributes.get("data-sort", ""))


def _list(tag: str, name: str, lists: Mapping[str, Sequence[Element]], **attributes: str) -> Element:
    return el(tag, *lists[name], id=name, **attributes)


def _header(words: Words, at: str) -> Element:
    others = [each for each in Language if each != words.language]
    return el(
        "header",
        el("h1", words("title")),
        el("p", words("file.at", at=at) if at else words("client.connecting"), id="status", role="status"),
        el("p", id="at", class_="quiet", aria_hidden="true"),
        el(
            "nav",
            *(el("a", words(f"language.{each}"), href=f"?lang={each}", hreflang=each, lang=each) for each in others),
            aria_label=words("language"),
            id="languages",
            hidden=bool(at),
        ),
    )


def _filters(words: Words, lists: Mapping[str, Sequence[Element]]) -> Element:
    levels = [el("option", words(f"filter.{each}"), value=each) for each in ("error", "warning", "info", "hint")]
    return el(
        "form",
        _labelled(words("filter.namespace"), "by-namespace", _select("by-namespace", words, lists, [])),
        _labelled(
            words("filter.workload"),
            "search",
            el("input", type="search", id="search", autocomplete="off", placeholder=words("filter.workload.hint")),
        ),
        _labelled(words("filter.finding"), "by-finding", _select("by-finding", words, lists, levels)),
        el("button", words("filter.reset"), type="reset"),
        id="filters",
        role="search",
        aria_label=words("filter"),
    )


def _select(name: str, words: Words, lists: Mapping[str, Sequence[Element]], fixed: Sequence[Element]) -> Element:
    return el("select", el("option", words("filter.all"), value=""), *fixed, *lists[name], id=name)


def _labelled(text: str, id_: str, field: Element) -> Element:
    return el("div", el("label", text, for_=id_), field, class_="field")


def _heading(name: str, text: str) -> Element:
    return el("h2", f"{text} ", el("span", id=f"{name}-count", class_="count"), id=f"{name}-title", tabindex="-1")


def _grid(words: Words, lists: Mapping[str, Sequence[Element]], found: Blocks) -> Element:
    return el(
        "section",
        _heading("nodes", words("nodes.title")),
        el("p", words("nodes.hint"), class_="quiet script"),
        _list("ul", "nodes", lists, data_density=density(len(lists["nodes"])) if found else "medium"),
        _more("nodes"),
        _empty("nodes", words("nodes.empty"), lists),
        aria_labelledby="nodes-title",
        class_="grid",
    )


def density(number: int) -> str:
    """How large tiles are when there are so many nodes; the script knows the same numbers."""
    return "roomy" if number <= 6 else "medium" if number <= 60 else "compact"


def _side(words: Words, lists: Mapping[str, Sequence[Element]]) -> Element:
    def part(name: str) -> Element:
        return el(
            "section",
            _heading(name, words(f"{name}.title")),
            _list("ul", name, lists, class_="cards"),
            _more(name),
            _empty(name, words(f"{name}.empty"), lists),
            aria_labelledby=f"{name}-title",
        )

    return el("div", part("waiting"), part("findings"), class_="side")


def _more(name: str) -> Element:
    return el("button", type="button", class_="more", data_more=name, hidden=True)


def _empty(name: str, text: str, lists: Mapping[str, Sequence[Element]]) -> Element:
    is_known = any(lists.values())
    return el("p", text, id=f"{name}-empty", class_="quiet", hidden=not is_known or bool(lists[name]))


def _tabled(
    name: str, words: Words, heads: Sequence[str], lists: Mapping[str, Sequence[Element]], *, empty: str
) -> Element:
    return el(
        "section",
        _heading(name, words(f"{name}.title")),
        _table(name, words, heads, lists),
        _more(name),
        _empty(name, words(empty), lists),
        aria_labelledby=f"{name}-title",
    )


def _table(name: str, words: Words, heads: Sequence[str], lists: Mapping[str, Sequence[Element]]) -> Element:
    caption = words(f"{name}.caption")
    columns: list[Child] = [
        el(
            "th",
            el("button", words(f"column.{head}"), type="button", class_="sort", data_list=name, data_column=str(place)),
            scope="col",
            aria_sort="none",
            class_="number" if head in _NUMBERS else None,
        )
        for place, head in enumerate(heads)
    ]
    table = el(
        "table", el("caption", caption), el("thead", el("tr", *columns)), _list("tbody", name, lists), class_="wide"
    )
    return el("div", table, class_="scroll", tabindex="0", role="region", aria_label=caption)


def _dialog(words: Words) -> Element:
    return el(
        "dialog",
        el(
            "div",
            el("h2", id="dialog-title", tabindex="-1"),
            el("button", "✕", type="button", id="dialog-close", aria_label=words("close"), title=words("close")),
            class_="head",
        ),
        el("div", id="dialog-body", aria_live="polite"),
        id="dialog",
        aria_labelledby="dialog-title",
    )
