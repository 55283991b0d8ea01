"""The trial between two pods: ``gpu-topology verify --listen`` and ``--peer``."""

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from webhook.hardware.measurement.messages import LookAtMachine
    from webhook.hardware.topology.model import NodeTopology
    from webhook.programs.verify.peer.words import PeerReport

_STEPS = 8
"""The number of steps that the other pod may take until it comes, and then again until both are done."""


def meet(
    listen: str | None,
    peer: str | None,
    look: "LookAtMachine",
    seconds: float,
    *,
    gpus: Collection[int] = (),
    force: bool = False,
) -> tuple["PeerReport", "NodeTopology | None"]:
    """Try with the other pod what works, and return the report and what this side knows of the machine.

    Raises:
        BadParameter: both addresses are given.
        PeerLost: the other pod does not come or is lost, or there is no GPU here that can be used.
        FormatError: the other pod does not keep to the protocol.
    """
    from datetime import UTC, datetime

    from webhook.hardware.measurement.messages import Method
    from webhook.programs.verify.peer.cards import cards_here
    from webhook.programs.verify.peer.channel import connected, listening
    from webhook.programs.verify.peer.exchange import Side, offer_all, take_all
    from webhook.programs.verify.peer.judgement import conclusion, judged
    from webhook.programs.verify.peer.words import PeerReport

    if listen and peer:
        raise typer.BadParameter("one pod listens and the other is its peer", param_hint="--peer")
    here = cards_here(look, seconds, asked=gpus, force=force)
    side = Side(cards=here.used, visible=here.visible, seconds=seconds, method=Method())
    if listen:
        with listening(listen, _STEPS * seconds) as channel:
            met = offer_all(side, channel)
    else:
        with connected(peer or "", _STEPS * seconds) as channel:
            met = take_all(side, channel)
    outcomes = judged(met.outcomes, met.card, here.topology)
    report = PeerReport(
        node=look.node,
        time=datetime.now(UTC).isoformat(timespec="seconds"),
        card=met.card or None,
        same_cards=met.visible,
        outcomes=outcomes,
        verdict=conclusion(outcomes),
    )
    return report, here.topology


def save_report(report: "PeerReport", path: Path) -> None:
    """Write the report as JSON.

    Raises:
        GpuTopologyError: the file cannot be written.
    """
    from webhook.programs.verify.peer.words import format_peer_report
    from webhook.words.errors import GpuTopologyError

    try:
        path.write_text(format_peer_report(report), encoding="utf-8")
    except OSError as error:
        raise GpuTopologyError(f"{path}: the report cannot be written: {error.strerror}") from None


def print_report(report: "PeerReport", topology: "NodeTopology | None", *, as_json: bool) -> None:
    """Print the report as JSON, or as a table with bars and the verdict."""
    from webhook.insight.drawings.peers import peer_text
    from webhook.programs.verify.peer.words import format_peer_report
    from webhook.words.printable import printable, printable_json

    if as_json:
        typer.echo(printable_json(format_peer_report(report)), nl=False)
        return
    labels = {gpu.uuid: gpu.label for gpu in topology.gpus if gpu.uuid} if topology else {}
    for line in peer_text(report, labels).splitlines():
        typer.echo(printable(line))
