"""The plan of moves as a table and as JSON."""

import json
from typing import TYPE_CHECKING, Any

import typer

from webhook.decisions.defrag.plan import DefragPlan, LinkedSets, Move
from webhook.words.listing import counted, listed
from webhook.words.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMED = 3
"""The most waiting pods that are named."""


def print_text(plan: DefragPlan, *, wide: bool) -> None:
    """Print the moves as a table, and what they come to."""
    from rich.table import Table

    from webhook.cli.columns import print_parts, table_console

    table = Table(box=None, pad_edge=False)
    for heading in ("", "POD", "FROM", "TO", "COMES BACK", "GB/s"):
        table.add_column(heading, overflow="fold", justify="right" if heading in ("", "GB/s") else "left")
    for number, move in enumerate(plan.moves, start=1):
        table.add_row(
            str(number),
            printable(move.pod.record.key),
            printable(f"{move.pod.record.node} {_cards(move.cards)}"),
            printable(f"{move.node} {_cards(move.to_cards)}"),
            sets_text(move.back, sign=True),
            f"{move.gain:.0f}",
        )
    if plan.moves:
        print_parts(table_console(wide=wide), [table])
        typer.echo()
    for line in _summary(plan):
        typer.echo(line)


def print_json(plan: DefragPlan) -> None:
    """Print the plan as JSON."""
    document = {
        "moves": [_move(move) for move in plan.moves],
        "before": _sets(plan.before),
        "after": _sets(plan.after),
        "staying": {str(reason): count for reason, count in sorted(plan.staying.items())},
        "waiting": list(plan.waiting),
    }
    typer.echo(json.dumps(document, indent=2))


def sets_text(sets: LinkedSets, *, sign: bool = False) -> str:
    """Returns the numbers of sets as ``+2 pairs, +1 four``; those that are 0 are left out."""
    parts = ((sets.pairs, "pair"), (sets.fours, "four"), (sets.eights, "eight"))
    return ", ".join(f"{'+' if sign and count > 0 else ''}{counted(count, word)}" for count, word in parts if count)


def _summary(plan: DefragPlan) -> "Iterator[str]":
    now = sets_text(plan.before) or "none"
    if plan.moves:
        yield f"Linked sets of free cards: {now}; after {counted(len(plan.moves), 'move')}: {sets_text(plan.after)}"
    else:
        yield f"No move gives linked cards back. Linked sets of free cards: {now}"
    for reason, count in plan.staying.most_common():
        yield reason.entry.say().about(f"{counted(count, 'pod')} not moved")
    if plan.waiting:
        waiting = counted(len(plan.waiting), "pod")
        named = printable(listed(plan.waiting, NAMED))
        yield f"{waiting} waiting for cards, which may take what a move frees: {named}"


def _move(move: Move) -> dict[str, Any]:
    record = move.pod.record
    return {
        "namespace": record.namespace,
        "pod": record.name,
        "controller": move.pod.controller,
        "from": {"node": record.node, "gpus": list(move.cards)},
        "to": {"node": move.node, "gpus": list(move.to_cards)},
        "back": _sets(move.back),
        "gain": move.gain,
    }


def _sets(sets: LinkedSets) -> dict[str, int]:
    return {"pairs": sets.pairs, "fours": sets.fours, "eights": sets.eights}


def _cards(indices: tuple[int, ...]) -> str:
    return ",".join(f"GPU{index}" for index in indices)
