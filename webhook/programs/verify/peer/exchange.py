"""The two sides of a trial: one pod offers memory by each kind of handle, and the other pod uses it.

The processes of ``verify.supervisor`` use the cards, so that each trial can have its own PIDs.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from webhook.hardware.measurement.messages import (
    Failed,
    HandleKind,
    Method,
    Offer,
    Offered,
    PidTold,
    Take,
    Taken,
    TellPid,
)
from webhook.programs.verify.errors import explained
from webhook.programs.verify.peer.channel import Channel, PeerLost
from webhook.programs.verify.peer.words import (
    PROTOCOL,
    SIZE,
    WORD,
    Done,
    Hello,
    NoTrial,
    Outcome,
    PeerVerdict,
    PreparePid,
    Result,
    Trial,
)
from webhook.programs.verify.supervisor import StepLost, Supervisor
from webhook.words.errors import FormatError

_AHEAD = 64
"""The distance from the greater PID of both sides to the common one, for processes that start in the time between."""
_ATTEMPTS = 3
NEEDS_UNIX_SOCKET, NO_SUCH_PID = "a file needs a UNIX socket", "no process got that PID"


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """The pod of one side."""

    cards: Sequence[str]
    """The UUIDs of the cards that the pod offers or uses."""
    visible: Sequence[str]
    """The UUIDs of all cards that the pod sees."""
    seconds: float
    """The time limit of each step."""
    method: Method

    def pid(self) -> int:
        """Starts a process and returns its PID.

        Raises:
            PeerLost: no process can be started.
        """
        with Supervisor() as process:
            return _pid_of(process, self.seconds)


@dataclass(frozen=True, kw_only=True, slots=True)
class Met:
    """The result of all trials, known to both sides."""

    card: str
    """The UUID of the offered card."""
    visible: bool
    """Whether the side that takes sees the offered card."""
    outcomes: tuple[Outcome, ...]


def offer_all(side: Side, channel: Channel) -> Met:
    """Offers memory by each kind of handle, and receives the results.

    Raises:
        PeerLost: the other side is gone.
        FormatError: the other side does not keep to the protocol.
    """
    hello = _greet(side, channel)
    seen = hello.sees or hello.cards
    card = next((card for card in side.cards if card in seen), side.cards[0])
    outcomes = []
    for pids_equal, kind in product((False, True), HandleKind):
        pid = None
        if pids_equal:
            pid = max(side.pid(), hello.pid) + _AHEAD
            channel.tell(PreparePid(pid=pid))
        outcomes.append(_offer(side, channel, card, kind, pid))
    channel.tell(Done())
    return Met(card=card, visible=card in seen, outcomes=tuple(outcomes))


def take_all(side: Side, channel: Channel) -> Met:
    """Uses the memory that the other side offers, and sends the results. Raises the errors of ``offer_all``."""
    _greet(side, channel)
    outcomes: list[Outcome] = []
    card, wanted = "", None
    for word in _words(channel):
        if isinstance(word, PreparePid):
            wanted = word.pid
        elif isinstance(word, NoTrial):
            outcomes.append(_not_tried(word))
            wanted = None
        elif isinstance(word, Trial):
            card = word.card
            check_handle(word)
            result = _take(side, channel, word, wanted)
            channel.tell(result)
            outcomes.append(_outcome(word, result))
            wanted = None
        else:
            raise FormatError("the other pod", expected="a trial", found=type(word).__name__)
    return Met(card=card, visible=card in side.visible, outcomes=tuple(outcomes))


def check_handle(trial: Trial) -> None:
    """Raises FormatError if the handle does not fit its kind, because CUDA would read it all the same."""
    wanted = "no handle" if trial.kind is HandleKind.POSIX_FD else "a handle of 64 bytes"
    found = "a handle of 64 bytes" if trial.handle else "no handle"
    if found != wanted:
        raise FormatError("the other pod", expected=f"{wanted} for {trial.kind}", found=found)


_MOST_WORDS = 4 * len(HandleKind)


def _words(channel: Channel) -> Iterator[WORD]:
    for _ in range(_MOST_WORDS):
        word = channel.hear()
        if isinstance(word, Done):
            return
        yield word
    raise FormatError("the other pod", expected=f"at most {_MOST_WORDS} words", found="more")


def _greet(side: Side, channel: Channel) -> Hello:
    channel.tell(Hello(protocol=PROTOCOL, pid=side.pid(), cards=list(side.cards), sees=list(side.visible)))
    hello = channel.hear()
    if not isinstance(hello, Hello) or hello.protocol != PROTOCOL:
        raise FormatError("the other pod", expected=f"Hello of protocol {PROTOCOL}", found=type(hello).__name__)
    return hello


def _offer(side: Side, channel: Channel, card: str, kind: HandleKind, pid: int | None) -> Outcome:
    with Supervisor(pid) as process:
        word, file = _trial(side, channel, process, card, kind, pid)
        channel.tell(word, file)
        if file is not None:
            os.close(file)
        if isinstance(word, NoTrial):
            return _not_tried(word)
        result = channel.hear()
    if not isinstance(result, Result):
        raise FormatError("the other pod", expected="a Result", found=type(result).__name__)
    return _outcome(word, result)


def _trial(
    side: Side, channel: Channel, process: Supervisor, card: str, kind: HandleKind, pid: int | None
) -> tuple[Trial | NoTrial, int | None]:
    equal = pid is not None
    if kind is HandleKind.POSIX_FD and not channel.carries_files:
        return NoTrial(kind=kind, pids_equal=equal, reason=NEEDS_UNIX_SOCKET), None
    try:
        own = _pid_of(process, side.seconds)
        found, file = process.ask_beside(Offer(card=card, kind=kind, size=SIZE), side.seconds, None)
    except (StepLost, PeerLost) as lost:
        return NoTrial(kind=kind, pids_equal=equal, reason=NO_SUCH_PID if equal else str(lost)), None
    if isinstance(found, Offered):
        return Trial(kind=kind, pids_equal=equal, pid=own, card=card, handle=found.handle), file
    if isinstance(found, Failed):
        reason = explained(found.function, found.code)
        return NoTrial(kind=kind, pids_equal=equal, reason=reason, function=found.function, code=found.code), None
    return NoTrial(kind=kind, pids_equal=equal, reason="no answer of the kind that was expected"), None


def _take(side: Side, channel: Channel, trial: Trial, pid: int | None) -> Result:
    file = channel.file()
    try:
        return _taken(side, trial, file, pid)
    except StepLost as lost:
        return Result(pid=None, reason=str(lost))
    except PeerLost:
        return Result(pid=None, reason=NO_SUCH_PID)
    finally:
        if file is not None:
            os.close(file)


def _taken(side: Side, trial: Trial, file: int | None, pid: int | None) -> Result:
    for _ in range(_ATTEMPTS):
        with Supervisor(pid) as process:
            own = _pid_of(process, side.seconds)
            if trial.pids_equal == (own == trial.pid):
                return _use(side, process, trial, file, own)
    return Result(pid=None, reason=NO_SUCH_PID)


def _use(side: Side, process: Supervisor, trial: Trial, file: int | None, own: int) -> Result:
    card = next((card for card in side.cards if card != trial.card), side.cards[0])
    request = Take(card=card, kind=trial.kind, handle=trial.handle, size=SIZE, method=side.method)
    found, _ = process.ask_beside(request, side.seconds, file)
    if isinstance(found, Taken):
        return Result(pid=own, gbps=found.gbps, intact=found.intact, card=card)
    if isinstance(found, Failed):
        reason = explained(found.function, found.code)
        return Result(pid=own, reason=reason, function=found.function, code=found.code, card=card)
    return Result(pid=own, reason="no answer of the kind that was expected")


def _pid_of(process: Supervisor, seconds: float) -> int:
    try:
        found = process.ask(TellPid(), seconds)
    except StepLost as lost:
        raise PeerLost(f"no process that measures can be started: {lost}") from None
    if not isinstance(found, PidTold):
        raise PeerLost("no process that measures can be started")
    return found.pid


def _outcome(trial: Trial, result: Result) -> Outcome:
    if result.code:
        verdict = PeerVerdict.REFUSED
    elif result.reason:
        verdict = PeerVerdict.NOT_TRIED
    else:
        verdict = PeerVerdict.WORKS if result.intact else PeerVerdict.WRONG_DATA
    return Outcome(
        kind=trial.kind,
        pids_equal=trial.pids_equal,
        offerer_pid=trial.pid,
        taker_pid=result.pid,
        verdict=verdict,
        reason=result.reason or None,
        function=result.function or None,
        code=result.code or None,
        gbps=result.gbps,
        taker_card=result.card,
    )


def _not_tried(word: NoTrial) -> Outcome:
    return Outcome(
        kind=word.kind,
        pids_equal=word.pids_equal,
        offerer_pid=None,
        taker_pid=None,
        verdict=PeerVerdict.REFUSED if word.code else PeerVerdict.NOT_TRIED,
        reason=word.reason,
        function=word.function or None,
        code=word.code or None,
        gbps=[],
    )
