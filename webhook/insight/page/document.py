"""The page as an HTML document: empty, for a browser that fills it, or with all its contents in one file."""

import base64
from collections.abc import Iterable, Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files

import msgspec
from markupsafe import Markup

from webhook.insight.page.blocks import LISTS, Blocks
from webhook.insight.page.details import Detail
from webhook.insight.page.markup import render
from webhook.insight.page.words import Language, Words

SCRIPT, STYLE, ICON = "page.js", "page.css", "icon.svg"
ASSETS: Mapping[str, str] = {
    SCRIPT: "text/javascript; charset=utf-8",
    STYLE: "text/css; charset=utf-8",
    ICON: "image/svg+xml",
}
"""The files of the page, with their types."""
_COMMON = "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    f"frame-ancestors 'none'; {_COMMON}"
)
"""Content-Security-Policy of the live page."""
_CLIENT = "client."
"""The beginning of the keys of texts that the script shows."""


@cache
def asset(name: str) -> bytes:
    """Returns a file of the page.

    Raises:
        KeyError: there is no file of that name.
    """
    if name not in ASSETS:
        raise KeyError(name)
    return files(__package__).joinpath("assets", name).read_bytes()


def shell(words: Words) -> str:
    """Returns the live page without contents. Nothing of the cluster is in it."""
    return _document(words, {}, (), at="")


def whole(found: Blocks, details: Iterable[Detail], words: Words, *, at: str) -> str:
    """Returns the page with all its contents as one file, which needs no server and no script.

    Args:
        found: The blocks of the overview.
        details: The details of pods and nodes.
        words: The texts.
        at: The time at which the cluster was read.
    """
    return _document(words, found, tuple(details), at=at)


def density(number: int) -> str:
    """Returns the size of tiles for a number of nodes; the script has the same numbers."""
    return "roomy" if number <= 6 else "medium" if number <= 60 else "compact"


def _document(words: Words, found: Blocks, details: tuple[Detail, ...], *, at: str) -> str:
    lists = {name: _filled(name, found) for name in LISTS}
    said = {key.removeprefix(_CLIENT): text for key, text in words.texts.items() if key.startswith(_CLIENT)}
    values: dict[str, object] = {
        "language": words.language,
        "languages": [each for each in Language if each != words.language],
        "texts": msgspec.json.encode(said).decode(),
        "at": at,
        "lists": lists,
        "is_known": any(lists.values()),
        "density": density(len(lists["nodes"])) if found else "medium",
        "details": details,
    }
    if at:
        style, script = (Markup(asset(name).decode()) for name in (STYLE, SCRIPT))  # noqa: S704 - our own files
        values |= {"style": style, "script": script, "policy": _file_policy(style, script)}
    return f"{render('page', words, values)}\n"


def _filled(name: str, found: Blocks) -> list[Markup]:
    here = (block for key, block in found.items() if key.startswith(f"{name}/"))
    return [block.markup for block in sorted(here, key=lambda block: block.sort)]


def _file_policy(style: str, script: str) -> str:
    hashes = [base64.b64encode(sha256(text.encode()).digest()).decode() for text in (style, script)]
    return f"default-src 'none'; script-src 'sha256-{hashes[1]}'; style-src 'sha256-{hashes[0]}'; {_COMMON}"
