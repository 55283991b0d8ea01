"""The preflight: free GPUs are tried for what NCCL will need of them.

NCCL believes the driver's attribute of multicast, and ends with an error where the object is then refused. Two causes
are known: a container without ``/dev/nvidia-caps`` (1, https://github.com/pie-project/pie/issues/500), and a fabric
manager or NVSwitches that are ill (401, https://github.com/pytorch/pytorch/pull/177472).
"""

import time
from collections.abc import Callable
from pathlib import Path

from webhook.hardware.measurement.messages import (
    ASK,
    TOLD,
    Failed,
    HandleKind,
    MulticastTried,
    NoLibrary,
    Offer,
    TryMulticast,
)
from webhook.hardware.measurement.plan import plan
from webhook.hardware.topology.model import Preflight, Trial, TrialResult
from webhook.hardware.topology.preflight import CARDS, NOT_PROMISED, gpus_with_nvls
from webhook.programs.verify.errors import explained
from webhook.programs.verify.here import NothingToMeasure, look
from webhook.programs.verify.library import MISSING
from webhook.programs.verify.supervisor import StepLost, Supervisor

STEP_SECONDS = 60.0
CAPABILITIES = Path("/dev/nvidia-caps")
_OFFERED_BYTES = 2 * 1024 * 1024
_WRONG_STATE, _NOT_READY = 401, 802
_OF_THE_MOMENT = frozenset({2, 304, 800, MISSING})
"""Too little memory, a call that the kernel refuses to the container, no permission, a driver that is too old."""
_ATTEMPTS, _PAUSE_SECONDS = 3, 5.0
"""A fabric manager that stands still for some seconds answers 802: https://github.com/meta-pytorch/torchcomms/pull/3130."""


def tried(node: str, root: Path, at: str, *, pause: Callable[[float], None] = time.sleep) -> Preflight:
    """Tries free GPUs of this machine, in a process that ends with the call. It takes seconds.

    Args:
        node: Name of the node.
        root: The directory that has ``/sys`` and ``/proc``.
        at: The time of the trials, RFC 3339.
        pause: Waits for so many seconds.

    Raises:
        NothingToMeasure: too few GPUs are free, or the driver cannot be asked.
    """
    with Supervisor() as supervisor:
        cards = _free_cards(supervisor, node, root)
        multicast = _multicast(supervisor, cards, pause)
        fabric = _judged(_answer(supervisor, Offer(card=cards[0], kind=HandleKind.FABRIC, size=_OFFERED_BYTES)))
    return Preflight(at=at, multicast=multicast, fabric=fabric)


def _free_cards(supervisor: Supervisor, node: str, root: Path) -> list[str]:
    here = look(supervisor, node, root, STEP_SECONDS)
    free = plan(here.topology, usage=here.usage, visible=here.cuda.uuids).cards
    able = gpus_with_nvls(here.topology)
    cards = [uuid for uuid in free if uuid in able][:CARDS]
    if len(cards) < CARDS:
        raise NothingToMeasure(
            f"{len(cards)} of {len(able)} GPUs with NVLink SHARP are free, and a trial needs {CARDS}"
        )
    return cards


def _multicast(supervisor: Supervisor, cards: list[str], pause: Callable[[float], None]) -> Trial:
    answer = _answer(supervisor, TryMulticast(cards=cards))
    for _ in range(_ATTEMPTS - 1):
        if not (isinstance(answer, Failed) and answer.code == _NOT_READY):
            break
        pause(_PAUSE_SECONDS)
        answer = _answer(supervisor, TryMulticast(cards=cards))
    return _judged(answer)


def _answer(supervisor: Supervisor, request: ASK) -> TOLD | StepLost:
    try:
        return supervisor.ask(request, STEP_SECONDS)
    except StepLost as lost:
        return lost


def _judged(answer: TOLD | StepLost) -> Trial:
    """Returns what an answer says of the node.

    A failure that the container may cause says nothing of it.
    """
    if isinstance(answer, MulticastTried) and not answer.is_supported:
        return NOT_PROMISED
    if isinstance(answer, StepLost | NoLibrary):
        return Trial(result=TrialResult.UNKNOWN, problem=_said(answer))
    if not isinstance(answer, Failed):
        return Trial(result=TrialResult.WORKS)
    problem = explained(answer.function, answer.code)
    if answer.code in (_WRONG_STATE, _NOT_READY):
        return Trial(result=TrialResult.FAILS, problem=problem)
    if not answer.function.startswith("cuMulticast") or answer.code in _OF_THE_MOMENT:
        return Trial(result=TrialResult.UNKNOWN, problem=problem)
    if not any(CAPABILITIES.glob("*")):
        return Trial(result=TrialResult.UNKNOWN, problem=f"{problem}; the agent's container has no {CAPABILITIES}")
    return Trial(result=TrialResult.FAILS, problem=problem)


def _said(answer: TOLD | StepLost) -> str:
    match answer:
        case StepLost():
            return f"the process that tries it gave no answer within {STEP_SECONDS:g} s ({answer})"
        case Failed():
            return explained(answer.function, answer.code)
        case NoLibrary():
            return answer.sentence
        case _:
            return type(answer).__name__
