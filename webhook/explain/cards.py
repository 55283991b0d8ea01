"""Are the GPUs the pod's alone, and does each container see them?"""

from collections.abc import Iterator

from webhook.admit.container import PodContainer
from webhook.admit.permissions import SHOWS_NOTHING
from webhook.explain.case import Case
from webhook.explain.control import control
from webhook.explain.findings import Finding, fails, holds, not_needed, unknown
from webhook.explain.words import clause, containers, counted, listed
from webhook.model import names
from webhook.model.errors import shorten
from webhook.model.outcome import SENTENCES, Reason

WHOLE_CARDS, OWN_GPUS = "whole-cards", "own-gpus"


def cards(case: Case) -> Iterator[Finding]:
    """Whole cards, no interception, and nothing that hides them."""
    yield _whole(case)
    library = control(case)
    yield library
    yield _own_gpus(case, preloaded=library.fails)


def _whole(case: Case) -> Finding:
    if case.requests.mig:
        said = clause(SENTENCES[Reason.MIG_REQUEST])
        return fails(WHOLE_CARDS, said, "Ask for whole GPUs", stops=True)
    slices = [one for one in case.gpu_containers if one.request and not one.request.is_whole]
    if slices:
        count = slices[0].request.names.count if slices[0].request else ""
        said = "; ".join(map(_slice, slices))
        return fails(WHOLE_CARDS, said, f'Ask for {count} alone, or set {names.INJECT}: "true" on the pod')
    asked = [(one.name, one.request.count) for one in case.gpu_containers if one.request]
    return holds(
        WHOLE_CARDS, listed(f"container {name} asks for {counted(count, 'whole GPU')}" for name, count in asked)
    )


def _slice(one: PodContainer) -> str:
    request = one.request
    if request is None:
        return ""
    parts = [request.names.memory] if request.has_memory else []
    for resource, value in (
        (request.names.memory_percentage, request.memory_percentage),
        (request.names.cores, request.cores),
    ):
        if value is not None and value != 100:
            parts.append(f"{resource} {value}")
    return f"container {one.name} asks for a part of each card: {listed(parts)}"


def _own_gpus(case: Case, *, preloaded: bool) -> Finding:
    """Own variables in ``exclusive``; in the peer profiles they are a matter of the peers."""
    if case.profile.shares_gpus:
        return not_needed(OWN_GPUS, f"in profile {case.profile} containers see their peers' GPUs too: see visibility")
    found = [finding for one in case.gpu_containers for finding in _hidden(one, preloaded)]
    worst = next((one for one in found if one.fails), None) or next(iter(found), None)
    if worst:
        return worst
    return holds(OWN_GPUS, f"{containers(case.gpu_containers)}: the device plugin's list says which GPUs are visible")


def _hidden(one: PodContainer, preloaded: bool) -> Iterator[Finding]:
    remedy = "Remove the variable: the device plugin shows the container its own GPUs and no others"
    visible, used = (
        one.own_env.get(name) for name in (names.ENV_NVIDIA_VISIBLE_DEVICES, names.ENV_CUDA_VISIBLE_DEVICES)
    )
    if visible is not None:
        said = f"container {one.name} sets {names.ENV_NVIDIA_VISIBLE_DEVICES} itself, which overrules the device plugin"
        if visible.value_from is None and (visible.value or "") in SHOWS_NOTHING:
            yield fails(OWN_GPUS, f"{said}: {shorten(visible.value or '')} shows no GPU", remedy, stops=True)
        else:
            yield unknown(OWN_GPUS, f"{said}: whether it shows the allocated GPUs is not known", remedy)
    if used is None:
        return
    said = f"container {one.name} sets {names.ENV_CUDA_VISIBLE_DEVICES}"
    if used.value_from is not None or "$(" in (used.value or ""):
        yield unknown(OWN_GPUS, f"{said} from elsewhere: what it says is not known", remedy)
        return
    count = one.request.count if one.request else 0
    shown = [part.strip() for part in (used.value or "").split(",") if part.strip()]
    said = f"{said} to {shorten(used.value or '')}"
    if len(shown) < count:
        text = f"{said}: CUDA uses {len(shown)} of its {counted(count, 'GPU')}"
        yield fails(OWN_GPUS, text, remedy, stops=len(shown) < 2)
    elif preloaded and any(not part.isdecimal() for part in shown):
        # HAMi-core src/utils.c reads each entry with atoi.
        yield fails(OWN_GPUS, f"{said}: HAMi's library takes every UUID for GPU 0", remedy)
    else:
        yield holds(OWN_GPUS, f"{said}, as many as it has")
