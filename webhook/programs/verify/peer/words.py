"""The protocol between the commands of two pods, and its result, ``gpu.topology/v1 PeerReport``.

The other side is a program in another pod, which is not trusted. Only the messages declared here are accepted: each is
one line of JSON, every number and text has a bound, and no content is run or opened.
"""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from webhook.hardware.measurement.messages import HandleKind
from webhook.hardware.measurement.report import MAX_CARDS, MAX_TEXT, Amount, Samples, Text, Verdict, Warn
from webhook.words import names

PROTOCOL = 1
MAX_LINE = 8192
SIZE = 64 * 1024 * 1024
"""The bytes of offered memory, a multiple of CUDA's granularity."""
_Pid = Annotated[int, Meta(ge=1, le=2**22)]
"""A PID, at most the limit of Linux (PID_MAX_LIMIT)."""
_Code = Annotated[int, Meta(ge=-1, le=2**31)]
_Handle = Annotated[str, Meta(max_length=128, pattern="^([0-9a-f]{128})?$")]
_Reason = Annotated[str, Meta(max_length=MAX_TEXT, pattern="^[ -~]*$")]
_Card = Annotated[str, Meta(min_length=1, max_length=64, pattern="^[A-Za-z0-9-]*$")]
"""The UUID of a card. Like ``_Reason``, it is copied into the report, and reports are shown in terminals."""
_Function = Annotated[str, Meta(max_length=64, pattern="^[A-Za-z0-9_]*$")]


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="say", tag=lambda name: name):
    """A message, which is one line of JSON."""


class Hello(Message, frozen=True, kw_only=True):
    """The first word of both sides."""

    protocol: int
    pid: _Pid
    """The PID of a process that could use the cards, in its own namespace."""
    cards: Annotated[list[_Card], Meta(max_length=MAX_CARDS)]
    """The UUIDs of the cards that the side may use."""
    sees: Annotated[list[_Card], Meta(max_length=MAX_CARDS)] = []
    """The UUIDs of all cards that it sees; empty from an older version, which sees at least its ``cards``."""


class Trial(Message, frozen=True, kw_only=True):
    """The offer of memory. If its handle is a file, the descriptor is sent beside the message."""

    kind: HandleKind
    pids_equal: bool
    """Whether both processes shall have the same PID value."""
    pid: _Pid
    """The PID of the process that offers."""
    card: _Card
    handle: _Handle


class NoTrial(Message, frozen=True, kw_only=True):
    """The message that memory could not be offered."""

    kind: HandleKind
    pids_equal: bool
    reason: _Reason
    function: _Function = ""
    code: _Code = 0


class Result(Message, frozen=True, kw_only=True):
    """The result of one offer."""

    pid: _Pid | None
    """The PID of the process that used the memory, or tried to; None if there was none."""
    reason: _Reason = ""
    """Why the memory was not used; empty if it was used."""
    function: _Function = ""
    code: _Code = 0
    gbps: Samples = []
    intact: bool = False
    card: _Card | None = None
    """The UUID of the card that used the memory; None from an older version."""


class Done(Message, frozen=True, kw_only=True):
    """The end of all trials."""


class PreparePid(Message, frozen=True, kw_only=True):
    """The announcement that both processes of the next trial shall have this PID."""

    pid: _Pid


WORD = Hello | Trial | NoTrial | Result | Done | PreparePid


class PeerVerdict(StrEnum):
    """The verdict on one kind of handle."""

    WORKS = "works"
    REFUSED = "refused"
    """The driver refused a call; function and code of the outcome name it."""
    WRONG_DATA = "wrong-data"
    NOT_TRIED = "not-tried"


class Outcome(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename={
        "pids_equal": "pidsEqual",
        "offerer_pid": "offererPid",
        "taker_pid": "takerPid",
        "taker_card": "takerCard",
        "gbps": "samplesGBps",
        "measured_gbps": "measuredGBps",
        "expected_gbps": "expectedGBps",
    },
):
    """The outcome for one kind of handle, with equal or different PIDs.

    What is below the samples follows from them and from the machine as the side that writes the report sees it.
    """

    kind: HandleKind
    pids_equal: bool
    offerer_pid: int | None
    taker_pid: int | None
    verdict: PeerVerdict
    reason: Text | None
    function: Text | None
    code: int | None
    gbps: Samples
    taker_card: Text | None = None
    """The UUID of the card that used the memory."""
    measured_gbps: Amount | None = None
    """GB/s from the offered card to the other one: the median of the samples."""
    link: Text | None = None
    """The link between both cards, in the words of nvidia-smi topo -m."""
    expected_gbps: Amount | None = None
    ratio: float | None = None
    speed: Verdict | None = None
    """The verdict on the rate; None if nothing was measured."""
    warnings: list[Warn] = []


class Conclusion(StrEnum):
    """The verdict on all trials together."""

    AS_EXPECTED = "as-expected"
    SLOWER = "slower"
    UNKNOWN = "unknown"
    """Something works, and no rate is known to expect, or nothing proves which way the bytes took."""
    WRONG_DATA = "wrong-data"
    NO_WAY = "no-way"
    """No kind of handle works."""


class PeerReport(
    msgspec.Struct, frozen=True, kw_only=True, rename={"api_version": "apiVersion", "same_cards": "offeredCardVisible"}
):
    """The report of one run of two pods. Both pods write one."""

    api_version: str = names.PREFIX + "v1"
    kind: str = "PeerReport"
    node: Text
    time: Text
    card: Text | None
    """The UUID of the offered card."""
    same_cards: bool
    """Whether the pod that takes sees the offered card."""
    outcomes: list[Outcome]
    verdict: Conclusion = Conclusion.UNKNOWN


def format_peer_report(report: PeerReport) -> str:
    """Returns the report as JSON."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"
