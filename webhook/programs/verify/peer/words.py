"""What two commands tell each other, and what comes of it: ``gpu.topology/v1 PeerReport``.

The other side is a program in another pod. It is believed nothing but what stands here: a message has one line of
JSON, every number and text has a bound, and nothing of it is run or opened.
"""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from webhook.hardware.measurement.messages import HandleKind
from webhook.hardware.measurement.report import MAX_CARDS, MAX_TEXT, Samples, Text
from webhook.words import names

PROTOCOL = 1
MAX_LINE = 8192
SIZE = 64 * 1024 * 1024
"""Bytes of memory that is offered: a multiple of what CUDA maps at once."""
_Pid = Annotated[int, Meta(ge=1, le=2**22)]
"""Linux gives out no greater one: PID_MAX_LIMIT."""
_Code = Annotated[int, Meta(ge=-1, le=2**31)]
_Handle = Annotated[str, Meta(max_length=128, pattern="^([0-9a-f]{128})?$")]
_Reason = Annotated[str, Meta(max_length=MAX_TEXT, pattern="^[ -~]*$")]
_Card = Annotated[str, Meta(min_length=1, max_length=64, pattern="^[A-Za-z0-9-]*$")]
"""Both stand in the report as they came, and reports are shown in terminals."""
_Function = Annotated[str, Meta(max_length=64, pattern="^[A-Za-z0-9_]*$")]


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="say", tag=lambda name: name):
    """One line."""


class Hello(Message, frozen=True, kw_only=True):
    """The first word of both sides."""

    protocol: int
    pid: _Pid
    """Of the process that would use the cards, in its own namespace."""
    cards: Annotated[list[_Card], Meta(max_length=MAX_CARDS)]
    """That CUDA sees there."""


class Trial(Message, frozen=True, kw_only=True):
    """Memory is offered; the descriptor of a file comes beside it."""

    kind: HandleKind
    pids_equal: bool
    """As it shall be."""
    pid: _Pid
    """Of the process that offers."""
    card: _Card
    handle: _Handle


class NoTrial(Message, frozen=True, kw_only=True):
    """Memory could not be offered."""

    kind: HandleKind
    pids_equal: bool
    reason: _Reason
    function: _Function = ""
    code: _Code = 0


class Result(Message, frozen=True, kw_only=True):
    """What became of memory that was offered."""

    pid: _Pid | None
    """Of the process that used it, or would have."""
    reason: _Reason = ""
    """Why it was not used; empty if it was."""
    function: _Function = ""
    code: _Code = 0
    gbps: Samples = []
    intact: bool = False


class Done(Message, frozen=True, kw_only=True):
    """No more trials."""


class PreparePid(Message, frozen=True, kw_only=True):
    """The next trial is with this PID on both sides."""

    pid: _Pid


WORD = Hello | Trial | NoTrial | Result | Done | PreparePid


class PeerVerdict(StrEnum):
    """On one kind of handle."""

    WORKS = "works"
    REFUSED = "refused"
    """By the driver: function and code say how."""
    WRONG_DATA = "wrong-data"
    NOT_TRIED = "not-tried"


class Outcome(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename={"pids_equal": "pidsEqual", "offerer_pid": "offererPid", "taker_pid": "takerPid", "gbps": "samplesGBps"},
):
    """What came of one kind of handle, with equal or different PIDs."""

    kind: HandleKind
    pids_equal: bool
    offerer_pid: int | None
    taker_pid: int | None
    verdict: PeerVerdict
    reason: Text | None
    function: Text | None
    code: int | None
    gbps: Samples


class PeerReport(
    msgspec.Struct, frozen=True, kw_only=True, rename={"api_version": "apiVersion", "same_cards": "offeredCardVisible"}
):
    """One run of two pods, as both of them tell it."""

    api_version: str = names.PREFIX + "v1"
    kind: str = "PeerReport"
    node: Text
    time: Text
    card: Text | None
    """That was offered."""
    same_cards: bool
    """Whether the other pod sees it."""
    outcomes: list[Outcome]


def format_peer_report(report: PeerReport) -> str:
    """The JSON form."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"
