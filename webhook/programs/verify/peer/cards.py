"""The cards of this side of a trial: those that the pod sees, and those that it offers or uses."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from webhook.hardware.measurement.messages import CudaDevices, Failed, LookAtCuda, LookAtMachine, Machine, NoLibrary
from webhook.hardware.measurement.plan import is_free
from webhook.hardware.topology.document import parse_topology
from webhook.hardware.topology.model import NodeTopology
from webhook.programs.verify.errors import explained
from webhook.programs.verify.peer.channel import PeerLost
from webhook.programs.verify.supervisor import StepLost, Supervisor
from webhook.words.listing import listed

_FORCED = "--force uses GPUs without asking it"


@dataclass(frozen=True, kw_only=True, slots=True)
class Cards:
    """The cards of one side, by their UUIDs."""

    used: Sequence[str]
    """The cards that the side offers or uses; at least one."""
    visible: Sequence[str]
    """All cards that CUDA sees here."""
    topology: NodeTopology | None
    """The machine as NVML tells it here; None if it does not."""


def cards_here(look: LookAtMachine, seconds: float, *, asked: Collection[int] = (), force: bool = False) -> Cards:
    """Returns the cards of this side.

    Args:
        look: The question about the machine.
        seconds: The time limit of each step.
        asked: NVML indices of the cards to use; all if empty.
        force: Use cards too that other processes use, or of which NVML tells nothing.

    Raises:
        PeerLost: there is no such card, none is free, or NVML gives no answer that is needed.
    """
    visible = _visible(seconds)
    machine, trouble = _machine(look, seconds)
    if machine is None:
        if asked:
            raise PeerLost(f"{trouble}, so the GPUs of --gpus are not known by their indices")
        if not force:
            raise PeerLost(f"{trouble}. {_FORCED}")
        return Cards(used=visible, visible=visible, topology=None)
    topology = parse_topology(machine.topology, source="this machine")
    chosen = _asked(topology, visible, asked) if asked else visible
    used = chosen if force else _free(machine, chosen)
    return Cards(used=used, visible=visible, topology=topology)


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


def _machine(look: LookAtMachine, seconds: float) -> tuple[Machine | None, str]:
    """Returns what NVML tells; otherwise None and why not."""
    try:
        with Supervisor() as process:
            found = process.ask(look, seconds)
    except StepLost as lost:
        return None, f"NVML gives no answer: {lost}"
    return (found, "") if isinstance(found, Machine) else (None, "NVML does not tell who uses the GPUs")


def _asked(topology: NodeTopology, visible: Collection[str], asked: Collection[int]) -> list[str]:
    """Returns the cards with these indices, in the order of the indices."""
    known = {gpu.index: gpu.uuid for gpu in topology.gpus if gpu.uuid in visible}
    missing = [f"GPU{index}" for index in sorted(asked) if index not in known]
    if missing:
        there = listed(f"GPU{index}" for index in sorted(known)) or "none"
        raise PeerLost(f"--gpus: expected GPUs that CUDA sees here, which are {there}; found {listed(missing)}")
    return [known[index] for index in sorted(asked)]


def _free(machine: Machine, cards: Sequence[str]) -> list[str]:
    """Returns those of ``cards`` that no process uses, as far as NVML reports processes."""
    usage = {each.uuid: each for each in machine.usage}
    free = [card for card in cards if is_free(usage.get(card))]
    if not free:
        raise PeerLost("other processes use the GPUs that CUDA sees here. --force uses them all the same")
    return free
