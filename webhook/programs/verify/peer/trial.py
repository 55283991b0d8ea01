"""The two sides of a trial: one pod offers memory by each kind of handle, and the other pod uses it.

The processes of ``verify.supervisor`` use the cards, one for each kind of handle.
"""

from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime

from webhook.hardware.measurement.messages import (
    TOLD,
    CudaDevices,
    Failed,
    HandleKind,
    LookAtCuda,
    LookAtMachine,
    Machine,
    Method,
    NoLibrary,
    Offer,
    Offered,
    Take,
    Taken,
)
from webhook.hardware.measurement.plan import is_free
from webhook.hardware.topology.document import parse_topology
from webhook.hardware.topology.model import NodeTopology
from webhook.programs.verify.errors import explained
from webhook.programs.verify.peer.channel import Channel, PeerLost
from webhook.programs.verify.peer.report import (
    PROTOCOL,
    Hello,
    MemoryOffer,
    Offers,
    PeerReport,
    PeerVerdict,
    Result,
    Results,
    conclusion,
    judged,
)
from webhook.programs.verify.supervisor import StepLost, Supervisor
from webhook.words.errors import FormatError
from webhook.words.listing import listed

SIZE = 64 * 1024 * 1024
"""The bytes of offered memory, a multiple of CUDA's granularity."""
_ATTEMPTS = 3
"""The most processes that are started until one has another PID than the one that offers. CUDA seems to take equal PID
values for one process, even in different PID namespaces."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """The pod of one side."""

    node: str
    cards: Sequence[str]
    """The UUIDs of the cards that the pod offers or uses; at least one."""
    visible: Sequence[str]
    """The UUIDs of all cards that CUDA sees here."""
    topology: NodeTopology | None
    """The machine as NVML tells it here; None if it does not."""
    seconds: float
    """The time limit of each step."""


def side_here(look: LookAtMachine, seconds: float, *, asked: Collection[int] = (), force: bool = False) -> Side:
    """Returns this side.

    Args:
        look: The question about the machine.
        seconds: The time limit of each step.
        asked: NVML indices of the cards to use; all if empty.
        force: Use cards too that other processes use, or of which NVML tells nothing.

    Raises:
        PeerLost: there is no such card, none is free, or NVML gives no answer that is needed.
    """
    visible = _visible(seconds)
    try:
        with Supervisor() as process:
            machine = process.ask(look, seconds)
        trouble = "" if isinstance(machine, Machine) else "NVML does not tell who uses the GPUs"
    except StepLost as lost:
        machine, trouble = None, f"NVML gives no answer: {lost}"
    if not isinstance(machine, Machine):
        if asked or not force:
            why = (
                ", so the GPUs of --gpus are not known by their indices"
                if asked
                else ". --force uses GPUs all the same"
            )
            raise PeerLost(f"{trouble}{why}")
        return Side(node=look.node, cards=visible, visible=visible, topology=None, seconds=seconds)
    topology = parse_topology(machine.topology, source="this machine")
    chosen = _asked(topology, visible, asked) if asked else visible
    usage = {each.uuid: each for each in machine.usage}
    used = chosen if force else [card for card in chosen if is_free(usage.get(card))]
    if not used:
        raise PeerLost("other processes use the GPUs that CUDA sees here. --force uses them all the same")
    return Side(node=look.node, cards=used, visible=visible, topology=topology, seconds=seconds)


def offer_all(side: Side, channel: Channel) -> PeerReport:
    """Offers memory by each kind of handle, and receives the results.

    Raises:
        PeerLost: the other side is gone.
        FormatError: the other side does not keep to the protocol.
    """
    hello = channel.hear(Hello)
    if hello.protocol != PROTOCOL:
        raise FormatError("the other pod", expected=f"protocol {PROTOCOL}", found=str(hello.protocol))
    card = next((card for card in side.cards if card in hello.sees), side.cards[0])
    with ExitStack() as stack:  # memory stays until the processes end
        offers = [_offer(side, stack.enter_context(Supervisor()), card, kind) for kind in HandleKind]
        channel.tell(Offers(card=card, offers=offers))
        results = channel.hear(Results).results
    if [result.kind for result in results] != list(HandleKind):
        raise FormatError("the other pod", expected="a result for each offer", found="others")
    return _report(side, card, results, sees=card in hello.sees)


def take_all(side: Side, channel: Channel) -> PeerReport:
    """Uses the memory that the other side offers, and sends the results. Raises the errors of ``offer_all``."""
    channel.tell(Hello(protocol=PROTOCOL, sees=list(side.visible)))
    offers = channel.hear(Offers)
    results = [_take(side, offers.card, offer) for offer in offers.offers]
    channel.tell(Results(results=results))
    return _report(side, offers.card, results, sees=offers.card in side.visible)


def _visible(seconds: float) -> list[str]:
    try:
        with Supervisor() as process:
            found = process.ask(LookAtCuda(), seconds)
    except StepLost as lost:
        raise PeerLost(f"CUDA gives no answer: {lost}") from None
    if isinstance(found, CudaDevices) and found.uuids:
        return found.uuids
    why = explained(found.function, found.code) if isinstance(found, Failed) else ""
    why = found.sentence if isinstance(found, NoLibrary) else why
    raise PeerLost(f"there is no card here that CUDA sees{f': {why}' if why else ''}")


def _asked(topology: NodeTopology, visible: Collection[str], asked: Collection[int]) -> list[str]:
    """Returns the cards with these indices, in the order of the indices."""
    known = {gpu.index: gpu.uuid for gpu in topology.gpus if gpu.uuid in visible}
    missing = [f"GPU{index}" for index in sorted(asked) if index not in known]
    if missing:
        there = listed(f"GPU{index}" for index in sorted(known)) or "none"
        raise PeerLost(f"--gpus: expected GPUs that CUDA sees here, which are {there}; found {listed(missing)}")
    return [known[index] for index in sorted(asked)]


def _offer(side: Side, process: Supervisor, card: str, kind: HandleKind) -> MemoryOffer:
    pid = process.pid
    try:
        found = process.ask(Offer(card=card, kind=kind, size=SIZE), side.seconds)
    except StepLost as lost:
        return MemoryOffer(kind=kind, pid=pid, reason=str(lost))
    if isinstance(found, Offered):
        return MemoryOffer(kind=kind, pid=pid, handle=found.handle)
    reason, code = _trouble(found)
    return MemoryOffer(kind=kind, pid=pid, reason=reason, code=code)


def _take(side: Side, offered: str, offer: MemoryOffer) -> Result:
    if not offer.handle:
        return _without(offer.kind, offer.reason, offer.code)
    card = next((card for card in side.cards if card != offered), side.cards[0])
    request = Take(card=card, kind=offer.kind, handle=offer.handle, size=SIZE, method=Method())
    for _ in range(_ATTEMPTS):
        with Supervisor() as process:
            if process.pid == offer.pid:
                continue
            try:
                found = process.ask(request, side.seconds)
            except StepLost as lost:
                return _without(offer.kind, str(lost))
        if not isinstance(found, Taken):
            return _without(offer.kind, *_trouble(found))
        verdict = PeerVerdict.WORKS if found.intact else PeerVerdict.WRONG_DATA
        return Result(kind=offer.kind, verdict=verdict, taker_card=card, gbps=found.gbps)
    return _without(offer.kind, "every process here has the PID of the one that offers")


def _trouble(found: TOLD) -> tuple[str, int | None]:
    """Returns why a step failed, and the error of the driver."""
    if isinstance(found, Failed):
        return explained(found.function, found.code), found.code
    return "no answer of the kind that was expected", None


def _without(kind: HandleKind, reason: str, code: int | None = None) -> Result:
    verdict = PeerVerdict.NOT_TRIED if code is None else PeerVerdict.REFUSED
    return Result(kind=kind, verdict=verdict, reason=reason, code=code)


def _report(side: Side, card: str, results: Sequence[Result], *, sees: bool) -> PeerReport:
    outcomes = judged(results, card, side.topology)
    return PeerReport(
        node=side.node,
        time=datetime.now(UTC).isoformat(timespec="seconds"),
        card=card,
        same_cards=sees,
        outcomes=outcomes,
        verdict=conclusion(outcomes),
    )
