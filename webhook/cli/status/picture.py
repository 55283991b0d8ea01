"""The whole picture, for the width of a terminal or a file."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from rich.console import RenderableType
from rich.text import Text

from webhook.cli.status import nodes, pods
from webhook.cli.status.legend import legend
from webhook.cli.status.marks import used
from webhook.cli.status.nodes import DrawnNode
from webhook.insight.explain.nvlink import numbers_text
from webhook.insight.overview.highlights import is_available, is_notable_node, is_notable_pod, is_slower
from webhook.insight.overview.model import CardState, Finding, Level, Overview, Pod
from webhook.words.catalogue.rights import NODES_NOT_SHOWN
from webhook.words.listing import counted, listed
from webhook.words.printable import fitted

FEW_NODES, FEW_PODS = 24, 48
"""The numbers of nodes and pods up to which all are shown, in any state."""
_STATES = (
    (CardState.HELD, "held"),
    (CardState.SHARED, "shared"),
    (CardState.CHOSEN, "chosen"),
    (CardState.FREE, "free"),
    (CardState.UNKNOWN, "not known"),
)
_LEVELS = (
    (Level.ERROR, "error", "red"),
    (Level.WARNING, "warning", "yellow"),
    (Level.INFO, "open question", ""),
    (Level.HINT, "hint", ""),
)
_TEXT_LIMIT = 300
_MOST = 20
"""The most lines about problems of one kind; ``analyze`` lists all."""
_Shown = TypeVar("_Shown")


def picture(found: Overview, *, width: int, every: bool = False) -> list[RenderableType]:
    """Draw nodes, pods, problems, totals and a legend, from the top to the bottom.

    Args:
        found: The overview to draw.
        width: The number of columns.
        every: True if nodes and pods that lose nothing are always shown, in any number.
    """
    shown, others = _chosen(found.nodes, FEW_NODES, is_notable_node, every=every)
    drawn = [nodes.drawn(node) for node in shown]
    parts: list[RenderableType] = [] if found.nodes else [_no_node(found)]
    if drawn:
        parts.append(nodes.node_lines(drawn, width))
    if others:
        parts.append(nodes.rest(others))
    parts += _section(_limited(line for each in drawn for line in nodes.troubles(each.node)))
    parts += _pods(found.pods, drawn, width, every=every)
    bad = (each for each in found.findings if each.level in (Level.ERROR, Level.WARNING))
    parts += _section(_limited(map(_finding, bad)))
    parts += _section([*totals(found), *_limited(map(_unread, found.unread)), *_remedy(found)])
    return parts + _section(_legend(drawn, width))


def _no_node(found: Overview) -> Text:
    if not found.nodes_problem:
        return Text("There is no node with GPUs.")
    return Text(fitted(str(NODES_NOT_SHOWN.say(problem=found.nodes_problem)), _TEXT_LIMIT), style="yellow")


def _chosen(
    found: Sequence[_Shown], few: int, is_notable: Callable[[_Shown], bool], *, every: bool
) -> tuple[list[_Shown], list[_Shown]]:
    """Split into the shown items and the others."""
    if every or len(found) <= few:
        return list(found), []
    return [each for each in found if is_notable(each)], [each for each in found if not is_notable(each)]


def _section(lines: Sequence[RenderableType]) -> list[RenderableType]:
    """Put a blank line before the lines, if there are any."""
    return [Text(), *lines] if lines else []


def _limited(lines: Iterable[Text]) -> list[Text]:
    every = list(lines)
    return every if len(every) <= _MOST else [*every[:_MOST], Text(f"and {len(every) - _MOST} more, see -o json")]


def _pods(found: Sequence[Pod], drawn: Sequence[DrawnNode], width: int, *, every: bool) -> Iterator[RenderableType]:
    shown, others = _chosen(found, FEW_PODS, is_notable_pod, every=every)
    letters = {each.node.name: each.letters for each in drawn}
    with_cards = [pod for pod in shown if not pod.waits_for]
    waiting = [pod for pod in shown if pod.waits_for]
    if with_cards:
        yield Text()
        yield pods.with_cards(with_cards, letters, width)
    if others:
        yield from () if with_cards else (Text(),)
        yield Text(f"and {counted(len(others), 'more pod')} that lose nothing. --all shows them")
    if waiting:
        yield Text()
        yield pods.waiting(waiting, letters)
    keys = {pod.key for pod in found}
    yield from _section(_limited(line for each in drawn for line in nodes.other_holders(each, keys)))
    yield from _section(_limited(pods.reasons(shown)))


def _finding(finding: Finding) -> Text:
    style = next(style for level, _, style in _LEVELS if level is finding.level)
    about = f"{fitted(finding.about, _TEXT_LIMIT)}: " if finding.about else ""
    text = Text(f"{finding.code} ", style=style).append(about, style="dim not bold")
    return text.append(fitted(finding.text, _TEXT_LIMIT), style="not dim default")


def _unread(said: str) -> Text:
    return Text("not read: ", style="yellow").append(fitted(said, _TEXT_LIMIT), style="default")


def _remedy(found: Overview) -> list[Text]:
    return [Text(found.remedy)] if found.remedy else []


def totals(found: Overview) -> list[Text]:
    """Return the totals, and the time of the reading."""
    every = [card for node in found.nodes for card in node.cards]
    lost = sum(card.state is CardState.FREE and not is_available(card) for card in every)
    states = Counter(card.state for card in every) - Counter({CardState.FREE: lost})
    cards = [f"{states[state]} {word}" for state, word in _STATES if states[state]]
    cards += [f"{lost} out of use"] if lost else []
    waiting = sum(bool(pod.waits_for) for pod in found.pods)
    slower = sum(is_slower(pod) and not pod.is_waiting for pod in found.pods)
    words = [Text(numbers_text(pod.nvlink for pod in found.pods))] if found.are_judged and found.pods else []
    said = f"{counted(len(found.nodes), 'node')}, {counted(len(every), 'card')}"
    said = "nodes and cards not known" if found.nodes_problem else said
    said += f" ({', '.join(cards)}); " if cards else "; "
    said += f"{counted(len(found.pods), 'pod')} with GPUs, {waiting} waiting, {slower} slower than others on its node"
    lines = [Text(said), *words, _judged(found)]
    return [*lines, Text(f"as of {fitted(found.at)}", style="dim")] if found.at else lines


def _judged(found: Overview) -> Text:
    if not found.are_judged:
        return Text("findings: not judged yet")
    of_nodes = (finding for node in found.nodes for finding in node.findings)
    of_pods = (finding for pod in found.pods for finding in pod.findings)
    levels = Counter(finding.level for finding in (*found.findings, *of_nodes, *of_pods))
    said = [counted(levels[level], noun) for level, noun, _ in _LEVELS if levels[level]]
    return Text(f"findings: {listed(said)}; gpu-topology analyze tells them" if said else "findings: none")


def _legend(drawn: Sequence[DrawnNode], width: int) -> list[Text]:
    """Set clauses side by side, as many as fit into a line."""
    cells = (cell for each in drawn for cell in each.cells)
    clauses = legend(used(cells), (joined for each in drawn for joined in each.joined))
    lines: list[str] = []
    for clause in clauses:
        if lines and len(lines[-1]) + 3 + len(clause) <= width:
            lines[-1] += f"   {clause}"
        else:
            lines.append(clause)
    return [Text(line, style="dim") for line in lines]
