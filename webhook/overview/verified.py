"""Whether the program in a pod found the pod's cards to be the ones that it was given.

The program ends with 0 if what the pod was given is true, and with another code and a reason if it is not
(docs/binding.md, section 7). As a sidecar it runs on, and its startup probe succeeds once it has verified the cards.
"""

from collections.abc import Sequence

import msgspec

from webhook.model import names
from webhook.model.nesting import decode_answer
from webhook.model.pod import Fields
from webhook.overview.model import Verified


class _Ended(Fields):
    exit_code: int | None = None
    message: str = ""


class _State(Fields):
    terminated: _Ended | None = None


class _Status(Fields):
    name: str = ""
    started: bool | None = None
    state: _State | None = None
    last_state: _State | None = None


class _PodStatus(Fields):
    init_container_statuses: list[_Status] | None = None


class _Pod(Fields):
    status: _PodStatus | None = None


_DECODER = msgspec.json.Decoder(_Pod)


def verified(document: bytes) -> tuple[Verified, str]:
    """Whether they are the ones, and if not, the reason in the words of the program.

    Args:
        document: What is kept of the pod, as JSON.
    """
    if b'"initContainerStatuses"' not in document:
        return Verified.UNKNOWN, ""
    try:
        status = decode_answer(_DECODER, document).status or _PodStatus()
    except msgspec.DecodeError:
        return Verified.UNKNOWN, ""
    return _judged([found for found in status.init_container_statuses or () if _is_program(found)])


def _is_program(found: _Status) -> bool:
    return found.name.startswith(names.REMAP_CONTAINER)


def _judged(found: Sequence[_Status]) -> tuple[Verified, str]:
    for each in found:
        now = each.state.terminated if each.state else None
        last = each.last_state.terminated if each.last_state else None
        if now is not None and now.exit_code == 0:
            return Verified.YES, ""
        if now is None and each.started:
            return Verified.YES, ""
        failed = now or last
        if failed is not None and failed.exit_code:
            return Verified.NO, failed.message
    return Verified.UNKNOWN, ""
