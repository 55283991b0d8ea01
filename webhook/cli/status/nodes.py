"""The nodes of a picture: each with its cards in the groups that NVLink makes of them."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from webhook.cli.status.legend import BRACKETS
from webhook.cli.status.marks import Cell, cell, marks
from webhook.insight.overview.groups import Joined, groups
from webhook.insight.overview.highlights import is_available, worst
from webhook.insight.overview.model import Card, Node
from webhook.words.listing import counted, listed, ranges
from webhook.words.printable import fitted, printable

WIDE = 120
"""The least width, in columns, for a node and its cards in one line."""
_NVLINK_STYLES = {"healthy": "green", "degraded": "bold red", "absent": "yellow", "unknown": "dim"}
_PRODUCTS = 5
_HOLDERS = 8
"""Pods that one line names."""
_TEXT_LIMIT = 300


class DrawnNode(NamedTuple):
    """A node with its drawn parts."""

    node: Node
    letters: Mapping[str, str]
    """The letters by the keys of pods."""
    pieces: tuple[Text, ...]
    """The texts of the groups."""
    cells: tuple[Cell, ...]
    joined: tuple[Joined, ...]


def drawn(node: Node) -> DrawnNode:
    """Draw the cells of a node."""
    letters, cards = marks(node), {card.index: card for card in node.cards}
    found = groups(node)
    cells = {index: cell(card, letters) for index, card in cards.items()}
    pieces = tuple(_piece(group.joined, group.indices, cells) for group in found)
    return DrawnNode(node, letters, pieces, tuple(cells.values()), tuple(group.joined for group in found))


def _piece(joined: Joined, indices: Sequence[int], cells: Mapping[int, Cell]) -> Text:
    """Draw a group, as ``0-3[a a . .!]``: the indices, and two characters for each card."""
    opening, closing = BRACKETS[joined]
    text = Text(ranges(indices).replace(", ", ","), style="dim").append(opening, style="not dim")
    for index in indices:
        for character, style in cells[index]:
            text.append(character, style=f"not dim {style}")
    return text.append(closing, style="not dim")


def node_lines(found: Sequence[DrawnNode], width: int) -> RenderableType:
    """Draw all of these nodes in ``width`` columns."""
    widest = max((sum(len(piece) + 1 for piece in each.pieces) for each in found), default=0)
    names = max((len(printable(each.node.name)) for each in found), default=0)
    if width >= WIDE and names + widest + 50 <= width:
        return _table(found)
    return Lines(*(line for each in found for line in _two_lines(each, width)))


def _table(found: Sequence[DrawnNode]) -> RenderableType:
    table = Table(box=None, pad_edge=False, show_edge=False)
    for heading in ("NODE", "CARDS", "FREE", "NVLINK", "BEST GB/S", ""):
        table.add_column(heading, overflow="fold", no_wrap=heading == "CARDS")
    for each in found:
        node = each.node
        free, nvlink, best = _facts(node)
        about = Text(", ").join([Text(printable(node.product))] * bool(node.product) + _remarks(node))
        table.add_row(Text(printable(node.name), style="bold"), Text(" ").join(each.pieces), free, nvlink, best, about)
    return table


def _facts(node: Node) -> tuple[Text, Text, Text]:
    free = sum(map(is_available, node.cards))
    return (
        Text(f"{free} of {len(node.cards)}"),
        Text(node.nvlink, style=_NVLINK_STYLES.get(node.nvlink, "")),
        Text(speed(node.best) if node.best else "-"),
    )


def _two_lines(each: DrawnNode, width: int) -> Iterator[RenderableType]:
    node = each.node
    free, nvlink, best = _facts(node)
    heading = Text(printable(node.name), style="bold").append("  ", style="not bold")
    heading.append_text(Text("", style="not bold").append_text(free).append(" free, NVLink ").append_text(nvlink))
    if node.best:
        heading.append(f", best {best} GB/s", style="not bold")
    yield Text(", ").join([heading, *_remarks(node)])
    if each.pieces:
        yield Padding(_wrapped(each.pieces, width - 2), (0, 0, 0, 2))


def _wrapped(pieces: Sequence[Text], width: int) -> Text:
    """Break lines between groups, and a group that is too wide between its cards."""
    lines, line = [], Text()
    for piece in pieces:
        if line and len(line) + 1 + len(piece) > width:
            lines.append(line)
            line = Text()
        line = line.append(" ").append_text(piece) if line else piece.copy()
    return Text("\n").join([*lines, line])


def _remarks(node: Node) -> list[Text]:
    """Return the remarks on a node: cordoned or not, and the code of the worst finding."""
    found = [] if node.is_schedulable else [Text("cordoned", style="yellow")]
    finding = worst(node.findings)
    return [*found, Text(finding.code, style="red")] if finding else found


def other_holders(each: DrawnNode, keys: Collection[str]) -> Iterator[Text]:
    """Yield a line with the pods that hold cards of a drawn node and are not among ``keys``."""
    held = dict.fromkeys(key for card in each.node.cards for key in card.holders if key not in keys)
    if not held:
        return
    named = [_with_letter(key, each.letters) for key in list(held)[:_HOLDERS]]
    more = [f"{len(held) - _HOLDERS} more pods"] if len(held) > _HOLDERS else []
    said = Text(f"{printable(each.node.name)}: ", style="dim")
    yield said.append(f"cards are held by {listed([*named, *more])}", style="not dim")


def _with_letter(key: str, letters: Mapping[str, str]) -> str:
    return f"{fitted(key)} ({letters[key]})" if key in letters else fitted(key)


def troubles(node: Node) -> Iterator[Text]:
    """Yield the problems of a node and its cards, one line each."""
    if node.problem:
        yield _trouble(node, node.problem)
    by_reason: dict[str, list[Card]] = {}
    for card in node.cards:
        if card.why:
            by_reason.setdefault(card.why, []).append(card)
    for why, cards in by_reason.items():
        yield _trouble(node, f"GPU {ranges([card.index for card in cards])}: {why}")


def _trouble(node: Node, said: str) -> Text:
    return Text(f"{printable(node.name)}: ", style="dim").append(fitted(said, _TEXT_LIMIT), style="not dim")


def rest(nodes: Sequence[Node]) -> Text:
    """Summarize in a sentence the nodes that are not drawn."""
    products = Counter(node.product or "GPUs that are not known" for node in nodes)
    named = [f"{number} with {fitted(product, 64)}" for product, number in products.most_common(_PRODUCTS)]
    if len(products) > _PRODUCTS:
        named.append(f"{sum(products.values()) - sum(n for _, n in products.most_common(_PRODUCTS))} with others")
    free = sum(is_available(card) for node in nodes for card in node.cards)
    cards = sum(len(node.cards) for node in nodes)
    said = f"and {counted(len(nodes), 'more node')} with nothing wrong ({', '.join(named)}): "
    return Text(said + f"{free} of {cards} cards free. --all shows them")


def speed(bandwidth: float) -> str:
    """Format GB/s with at most one decimal."""
    return f"{bandwidth:.1f}".removesuffix(".0")
