"""The pods of a picture: the cards of pods on nodes, and the reasons of waiting pods."""

from collections.abc import Mapping, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from webhook.cli.status.nodes import speed
from webhook.hardware.traffic.model import bytes_text, share_text
from webhook.insight.explain.findings import Nvlink
from webhook.insight.explain.start import STARTS, Verified
from webhook.insight.overview.highlights import is_slower, worst
from webhook.insight.overview.model import Finding, Level, Pod
from webhook.words.listing import counted, ranges
from webhook.words.printable import fitted, printable

_VERIFIED = {Verified.YES: ("yes", "green"), Verified.NO: ("NO", "bold red"), Verified.UNKNOWN: ("-", "dim")}
_NVLINK = {Nvlink.YES: "green", Nvlink.NO: "bold red", Nvlink.UNKNOWN: "yellow", Nvlink.NOTHING_TO_JOIN: "dim"}
_LEVEL_STYLES = {Level.ERROR: "red", Level.WARNING: "yellow"}
_ROOMY, _WIDE = 100, 120
"""Widths from which on the table has more columns, and more in them."""
_TEXT_LIMIT = 800


def with_cards(pods: Sequence[Pod], letters: Mapping[str, Mapping[str, str]], width: int) -> RenderableType:
    """Draw pods on nodes.

    Args:
        pods: The pods.
        letters: The letters, by node and key of the pod.
        width: The number of columns.
    """
    table = Table(box=None, pad_edge=False, show_edge=False, padding=(0, 2 if width >= _ROOMY else 1, 0, 0))
    table.add_column("", no_wrap=True)
    table.add_column("POD", overflow="fold", ratio=3 if width < _ROOMY else None)
    table.add_column("NODE", overflow="fold", ratio=2 if width < _ROOMY else None)
    table.add_column("CARDS", overflow="fold")
    has_traffic = width >= _ROOMY and any(pod.moved_seconds for pod in pods)
    moved = ("OVER NVLINK",) if has_traffic else ()
    for heading in ("NVLINK", "PROFILE", "LINK", "GB/S", *moved, "VERIFIED" if width >= _ROOMY else "TRUE", "CODE"):
        table.add_column(heading, no_wrap=True)
    for pod in pods:
        *about, said, worst_code = _cells(pod)
        over = (_moved(pod, has_share=width >= _WIDE),) if has_traffic else ()
        table.add_row(Text(letters.get(pod.node, {}).get(pod.key, "")), *about, *over, said, worst_code)
    return table


def _cells(pod: Pod) -> tuple[Text, ...]:
    said, style = _VERIFIED[pod.verified]
    return (
        Text(printable(pod.key)),
        Text(printable(pod.node)),
        Text(ranges(pod.cards).replace(", ", ",") or "-"),
        Text(pod.nvlink, style=_NVLINK[pod.nvlink]),
        Text(printable(pod.profile) or "-"),
        Text(pod.link or "-"),
        _bandwidth(pod),
        Text(said, style=style),
        code(pod),
    )


def _bandwidth(pod: Pod) -> Text:
    if pod.bandwidth is None or pod.best is None:
        return Text("-")
    text = f"{speed(pod.bandwidth)} of {speed(pod.best)}"
    return Text(text, style="bold red" if is_slower(pod) else "")


def _moved(pod: Pod, *, has_share: bool) -> Text:
    """Return the traffic of the pod's cards in the last minutes, sent and received, perhaps with the share it is."""
    if pod.nvlink_bytes is None:
        return Text("-")
    minutes = max(1, round(pod.moved_seconds / 60))
    text = f"{bytes_text(pod.nvlink_bytes)} in {minutes} min"
    if has_share and pod.nvlink_use is not None:
        text += f", {share_text(pod.nvlink_use)}"
    return Text(text, style="" if pod.nvlink_bytes else "yellow")


def code(pod: Pod) -> Text:
    """Return the code that decides whether the pod has NVLink, else that of its worst finding."""
    finding = worst(pod.findings)
    if pod.decided_by:
        level = next((each.level for each in pod.findings if each.code == pod.decided_by), Level.NONE)
        return Text(pod.decided_by, style=_LEVEL_STYLES.get(level, ""))
    return Text(finding.code, style=_LEVEL_STYLES.get(finding.level, "")) if finding else Text("-")


def waiting(pods: Sequence[Pod], letters: Mapping[str, Mapping[str, str]]) -> RenderableType:
    """Draw pods without a Binding, the cards that some of them already have, and what they wait for.

    Args:
        pods: The pods.
        letters: The letters, by node and key of the pod.
    """
    have_cards = any(pod.cards for pod in pods)
    table = Table(box=None, pad_edge=False, show_edge=False)
    if have_cards:
        table.add_column("", no_wrap=True)
    table.add_column("POD", overflow="fold", ratio=2)
    if have_cards:
        table.add_column("NODE", overflow="fold", ratio=1)
        table.add_column("CARDS", overflow="fold")
    table.add_column("ASKS", no_wrap=True)
    table.add_column("WAITS FOR", overflow="fold", ratio=2 if have_cards else 4)
    for pod in pods:
        asks = Text("claims" if pod.wanted is None else counted(pod.wanted, "GPU"))
        key, node, cards, *_ = _cells(pod)
        letter = Text(letters.get(pod.node, {}).get(pod.key, ""))
        found = (letter, key, node if pod.node else Text("-"), cards) if have_cards else (key,)
        table.add_row(*found, asks, Text(fitted(pod.waits_for, _TEXT_LIMIT)))
    return table


def reasons(pods: Sequence[Pod]) -> list[Text]:
    """Return why pods did not start, each with what to do about it."""
    return [
        Text(f"{printable(pod.key)}: ", style="dim").append(fitted(_advice(each), _TEXT_LIMIT), style="not dim")
        for pod in pods
        for each in pod.findings
        if each.code in STARTS
    ]


def _advice(finding: Finding) -> str:
    return f"{finding.text} ({finding.code}). {finding.fix}"
