"""What two pods report to each other about shared memory, and the report ``gpu.topology/v1 PeerReport``.

The other side is a program in another pod, which is not trusted. Only the messages declared here are accepted: each is
one line of JSON, every number and text has a bound, and no content is run or opened.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from webhook.hardware.measurement.report import (
    API_VERSION,
    MAX_CARDS,
    MAX_TEXT,
    Amount,
    Samples,
    Text,
    Verdict,
    Warn,
    member_name,
)
from webhook.hardware.measurement.verdict import Evidence, Expectations, is_unsteady, judge, middle
from webhook.hardware.topology.model import NodeTopology

PROTOCOL = 2
_Handle = Annotated[str, Meta(max_length=128, pattern=r"\A([0-9a-f]{128})?\Z")]
_Pid = Annotated[int, Meta(ge=1, le=2**22)]
"""A PID, at most the limit of Linux (PID_MAX_LIMIT)."""
_Code = Annotated[int, Meta(ge=-1, le=2**31)]
_Reason = Annotated[str, Meta(max_length=MAX_TEXT, pattern=r"\A[ -~]*\Z")]
_Card = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"\A[A-Za-z0-9-]*\Z")]
"""The UUID of a card. Like ``_Reason``, it is copied into the report, and reports are shown in terminals."""


class HandleKind(StrEnum):
    """The kind of handle by which one process shares memory of a card with another."""

    IPC = "cuda-ipc"
    """``cuIpcGetMemHandle``: 64 bytes."""
    FABRIC = "fabric"
    """``cuMemExportToShareableHandle``: 64 bytes."""


class PeerVerdict(StrEnum):
    """The verdict on one kind of handle."""

    WORKS = "works"
    REFUSED = "refused"
    """The driver refused a call, which the reason names."""
    WRONG_DATA = "wrong-data"
    NOT_TRIED = "not-tried"


class Conclusion(StrEnum):
    """The verdict on all kinds of handles together."""

    AS_EXPECTED = "as-expected"
    SLOWER = "slower"
    UNKNOWN = "unknown"
    """Something works, and no rate is known to expect, or nothing proves which way the bytes took."""
    WRONG_DATA = "wrong-data"
    NO_WAY = "no-way"
    """No kind of handle works."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True, rename=member_name):
    """The result for one kind of handle, and what follows from it.

    The other side fills the members up to the samples. ``judged`` replaces the rest.
    """

    kind: HandleKind
    verdict: PeerVerdict
    reason: _Reason | None = None
    code: _Code | None = None
    """The error of the driver."""
    taker_card: _Card | None = None
    """The UUID of the card that used the memory."""
    samples_gbps: Samples = []
    measured_gbps: Amount | None = None
    """GB/s from the offered card to the other one: the median of the samples."""
    link: Text | None = None
    """The link between both cards, in the words of nvidia-smi topo -m."""
    expected_gbps: Amount | None = None
    ratio: Amount | None = None
    speed: Verdict | None = None
    """The verdict on the rate; None if nothing was measured."""
    warnings: list[Warn] = []


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="say", tag=lambda name: name):
    """A message, which is one line of JSON."""


class Hello(Message, frozen=True, kw_only=True):
    """The greeting of the side that takes."""

    protocol: int
    sees: Annotated[list[_Card], Meta(max_length=MAX_CARDS)]
    """The UUIDs of all cards that it sees."""


class MemoryOffer(msgspec.Struct, frozen=True, kw_only=True):
    """Memory with one kind of handle; without a handle it could not be offered."""

    kind: HandleKind
    pid: _Pid
    """The PID of the process that offers."""
    handle: _Handle = ""
    reason: _Reason = ""
    """Why there is none."""
    code: _Code | None = None
    """The error of the driver."""


class Offers(Message, frozen=True, kw_only=True):
    """The answer of the side that offers."""

    card: _Card
    offers: Annotated[list[MemoryOffer], Meta(max_length=len(HandleKind))]


class Results(Message, frozen=True, kw_only=True):
    """The end of the conversation: a result for each offer."""

    results: Annotated[list[Outcome], Meta(max_length=len(HandleKind))]


class PeerReport(msgspec.Struct, frozen=True, kw_only=True, rename=member_name):
    """The report of one run of two pods. Both pods write one."""

    api_version: str = API_VERSION
    kind: str = "PeerReport"
    node: Text
    time: Text
    card: Text
    """The UUID of the offered card."""
    offered_card_visible: bool
    """Whether the pod that takes sees the offered card."""
    outcomes: list[Outcome]
    verdict: Conclusion


def judged(outcomes: Sequence[Outcome], offered: str, topology: NodeTopology) -> list[Outcome]:
    """Returns the outcomes with the expected rate and what follows from it.

    Args:
        outcomes: The outcomes for all kinds of handles.
        offered: The UUID of the offered card.
        topology: The machine as this side sees it; without GPUs if it sees none.
    """
    expectations = Expectations(topology)
    return [_judged(outcome, offered, expectations) for outcome in outcomes]


def conclusion(outcomes: Sequence[Outcome]) -> Conclusion:
    """Returns what follows from judged outcomes: wrong data if there are any, otherwise the best rate decides."""
    if any(outcome.verdict is PeerVerdict.WRONG_DATA for outcome in outcomes):
        return Conclusion.WRONG_DATA
    best = best_of(outcomes)
    if best is None:
        return Conclusion.NO_WAY
    if best.speed is Verdict.AS_EXPECTED:
        return Conclusion.AS_EXPECTED
    return Conclusion.UNKNOWN if best.speed in (None, Verdict.UNKNOWN) else Conclusion.SLOWER


def best_of(outcomes: Sequence[Outcome]) -> Outcome | None:
    """Returns the outcome with the greatest rate among those that work; None if none works."""
    working = [outcome for outcome in outcomes if outcome.verdict is PeerVerdict.WORKS]
    return max(working, key=lambda outcome: outcome.measured_gbps or 0.0, default=None)


def _judged(told: Outcome, offered: str, expectations: Expectations) -> Outcome:
    result = Outcome(
        kind=told.kind,
        verdict=told.verdict,
        reason=told.reason,
        code=told.code,
        taker_card=told.taker_card,
        samples_gbps=told.samples_gbps,
    )
    if result.verdict is not PeerVerdict.WORKS:
        return result
    taker, measured = result.taker_card, middle(result.samples_gbps)
    # Within one card no link is used.
    expected = expectations.pair(offered, taker) if taker and taker != offered else None
    # Neither side may see both cards, so no counters are read, and only the rate can prove NVLink.
    speed, warnings = judge(Evidence(gbps=measured, due_bytes=0, moved=(), peer_access=True), expected)
    return msgspec.structs.replace(
        result,
        measured_gbps=measured,
        link=expected.link if expected else None,
        expected_gbps=expected.gbps if expected else None,
        ratio=measured / expected.gbps if expected and measured is not None else None,
        speed=speed,
        warnings=[
            *(warning for warning in warnings if warning is not Warn.NO_COUNTERS),
            *([Warn.UNSTEADY] if is_unsteady(result.samples_gbps) else []),
        ],
    )
