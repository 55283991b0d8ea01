"""The blocks of one language as a browser hears of them: each with the number of the turn in which it changed."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from webhook.overview.model import Overview
from webhook.page.blocks import Block, blocks
from webhook.page.tree import as_json
from webhook.page.words import Words

_MOST_GONE = 20_000
"""Keys of blocks that are gone; a browser that knows of older ones is told everything."""


class Standing(msgspec.Struct, frozen=True):
    """Whether the page follows the cluster."""

    live: bool
    at: str = ""
    """When the cluster was read last."""
    since: str = ""
    """Of what time the cluster is that is shown, if it is not followed."""
    reason: str = ""
    """Why it is not followed."""


class _Written(NamedTuple):
    block: Block
    number: int
    text: msgspec.Raw
    """The tree as JSON."""


class Sheet(NamedTuple):
    """Everything that a browser may know, after some turns."""

    words: Words
    number: int = 0
    written: Mapping[str, _Written] = {}
    gone: Mapping[str, int] = {}
    """Keys of blocks that are no more, with the turn in which they went."""
    floor: int = 0
    """Of what went in this turn or before nothing is known."""


class _News(msgspec.Struct):
    number: int
    whole: bool
    blocks: dict[str, msgspec.Raw]
    gone: list[str]
    standing: Standing


def turned(sheet: Sheet, overview: Overview, number: int) -> Sheet:
    """The sheet as it is with another overview; only what changed is written anew.

    Args:
        sheet: As it was.
        overview: The cluster.
        number: Of this turn; greater than that of the sheet.
    """
    before = {key: each.block for key, each in sheet.written.items()}
    found = blocks(overview, sheet.words, before)
    written = {
        key: known if (known := sheet.written.get(key)) and known.block is block else _written(block, number)
        for key, block in found.items()
    }
    gone = {key: turn for key, turn in sheet.gone.items() if key not in written}
    gone |= {key: number for key in sheet.written if key not in written}
    if len(gone) > _MOST_GONE:
        return Sheet(sheet.words, number, written, {}, number)
    return Sheet(sheet.words, number, written, gone, sheet.floor)


def _written(block: Block, number: int) -> _Written:
    return _Written(block, number, msgspec.Raw(msgspec.json.encode(as_json(block.tree))))


def news(sheet: Sheet, since: int, standing: Standing) -> bytes:
    """What a browser has to hear, as JSON without line ends.

    Args:
        sheet: Of its language.
        since: The number of the last turn that it has heard of; 0: it knows nothing.
        standing: How the server stands.
    """
    is_whole = since <= 0 or since < sheet.floor or since > sheet.number
    return msgspec.json.encode(
        _News(
            number=sheet.number,
            whole=is_whole,
            blocks={key: each.text for key, each in sheet.written.items() if is_whole or each.number > since},
            gone=[] if is_whole else list(_gone(sheet, since)),
            standing=standing,
        )
    )


def _gone(sheet: Sheet, since: int) -> Iterator[str]:
    return (key for key, turn in sheet.gone.items() if turn > since)
