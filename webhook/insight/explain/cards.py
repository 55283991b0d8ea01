"""Conditions on cards: whole GPUs that belong to the pod alone, and that each of its containers sees."""

from collections.abc import Iterator, Sequence

from webhook.decisions.admit.container import PodContainer
from webhook.decisions.allocation.claim import FAMILY as CLAIM
from webhook.decisions.request.gpu_lists import SHOWS_NOTHING, UUID_PREFIX, listed_gpus, show, split_list
from webhook.decisions.request.resources import GpuRequest
from webhook.decisions.request.settings import literal
from webhook.hardware.topology.model import Gpu
from webhook.insight.explain.commands import commanded_lists
from webhook.insight.explain.control import control
from webhook.insight.explain.examination import ExaminedPod
from webhook.insight.explain.findings import Finding, fails, holds, not_needed, unknown
from webhook.insight.explain.words import containers, gpus, says
from webhook.objects.pod import EnvVar
from webhook.words import names
from webhook.words.catalogue.cards import (
    LIST_SHOWS_NOTHING,
    LIST_SHOWS_OTHERS,
    LIST_UNKNOWN,
    MIG_REQUEST,
    NUMBERS_FROM_ELSEWHERE,
    NUMBERS_HIDE_GPUS,
    NUMBERS_OF_UNKNOWN_GPUS,
    NUMBERS_UNREADABLE_BY_LIBRARY,
    PRIVILEGED_USES_ALL,
    SLICE,
)
from webhook.words.catalogue.claims import CLAIM_IS_SHARED, PART_OF_CLAIM
from webhook.words.catalogue.entry import Message, join
from webhook.words.catalogue.variables import COMMAND_NARROWS_LIST
from webhook.words.choices import Profile
from webhook.words.errors import shorten
from webhook.words.listing import counted, listed

WHOLE_CARDS, OWN_GPUS = "whole-cards", "own-gpus"


def cards(examined: ExaminedPod) -> Iterator[Finding]:
    """Yields the conditions ``whole-cards``, ``control`` and ``own-gpus``."""
    yield _whole(examined)
    if not examined.gpu_containers:  # MIG devices alone
        return
    library = control(examined)
    yield library
    yield _own_gpus(examined, preloaded=library.fails or examined.is_preloaded_by_claims)


def _whole(examined: ExaminedPod) -> Finding:
    if examined.requests.mig:
        return fails(WHOLE_CARDS, MIG_REQUEST.say(), stops=True)
    slices = [
        (container.name, container.request)
        for container in examined.gpu_containers
        if container.request and not container.request.is_whole
    ]
    if slices:
        return fails(WHOLE_CARDS, join([_slice(name, request) for name, request in slices]))
    asked = [(container.name, container.request.count) for container in examined.gpu_containers if container.request]
    return holds(WHOLE_CARDS, listed(f"container {name} asks for {_whole_gpus(count)}" for name, count in asked))


def _whole_gpus(count: int) -> str:
    return counted(count, "whole GPU") if count else "whole GPUs, whose number its claims leave open"


def _slice(container: str, request: GpuRequest) -> Message:
    names = request.names
    if request.why_part:
        return PART_OF_CLAIM.say(container=container, why=request.why_part.text)
    if names is None:
        raise TypeError(f"container {container} asks for no part of a GPU")
    parts = [names.memory] if request.memory_mib else []
    for resource, value in (
        (names.memory_percentage, request.memory_percentage),
        (names.cores, request.cores),
    ):
        if value is not None and value != 100:
            parts.append(f"{resource} {value}")
    return SLICE.say(container=container, parts=listed(parts), resource=request.resource)


def _own_gpus(examined: ExaminedPod, *, preloaded: bool) -> Finding:
    """Returns the finding whether the containers see their own GPUs and no others.

    In the profiles of peers the condition ``visibility`` judges this instead.
    """
    privileged = [container for container in examined.gpu_containers if container.spec.is_privileged]
    if privileged and examined.profile is not Profile.NODE_PEERS:
        whose = "those of the pod" if examined.profile.shares_gpus else "its own"
        return fails(OWN_GPUS, PRIVILEGED_USES_ALL.say(containers=containers(privileged), whose=whose))
    if examined.profile.shares_gpus:
        said = f"in profile {examined.profile} containers see their peers' GPUs too: see visibility"
        return not_needed(OWN_GPUS, said)
    if examined.given.shared_with:
        return fails(OWN_GPUS, CLAIM_IS_SHARED.say(count=examined.given.shared_with))
    found = [finding for container in examined.gpu_containers for finding in _hidden(examined, container, preloaded)]
    failing = next((finding for finding in found if finding.fails), None)
    commanded = commanded_lists(examined, COMMAND_NARROWS_LIST)  # such a list selects among the container's own GPUs
    worst = failing or (unknown(OWN_GPUS, commanded) if commanded else next(iter(found), None))
    if worst:
        return worst
    asking = examined.gpu_containers
    if examined.family == CLAIM:
        said = says(asking, "sees the GPUs of its claims alone", "see the GPUs of their claims alone")
        return holds(OWN_GPUS, said)
    return holds(OWN_GPUS, f"{containers(asking)}: the device plugin's list says which GPUs are visible")


def _hidden(examined: ExaminedPod, container: PodContainer, preloaded: bool) -> Iterator[Finding]:
    visible, used = (
        container.own_env.get(name) for name in (names.ENV_NVIDIA_VISIBLE_DEVICES, names.ENV_CUDA_VISIBLE_DEVICES)
    )
    if visible is not None and examined.family != CLAIM and _list_counts(examined) is not False:
        yield _visible(examined, container, visible)
    elif used is not None:
        yield _used(examined, container, used, preloaded)


def _list_counts(examined: ExaminedPod) -> bool | None:
    """Returns whether the container runtime goes by ``NVIDIA_VISIBLE_DEVICES``; ``None`` where that is not known."""
    if not examined.evidence.reading.is_configured:
        return None
    return examined.evidence.policy.device_list_strategy == "envvar"


def _visible(examined: ExaminedPod, container: PodContainer, visible: EnvVar) -> Finding:
    """Returns the finding about a ``NVIDIA_VISIBLE_DEVICES`` that a container sets itself."""
    value = literal(visible)
    if _list_counts(examined) is None or value is None:
        return unknown(OWN_GPUS, LIST_UNKNOWN.say(container=container.name))
    if value in SHOWS_NOTHING:
        return fails(OWN_GPUS, LIST_SHOWS_NOTHING.say(container=container.name, value=shorten(value)), stops=True)
    given, topology = _given(examined, container), examined.resolution.node.topology if examined.resolution else None
    shown = listed_gpus(value, topology.gpus) if topology else None
    if given is None or shown is None:
        return unknown(OWN_GPUS, LIST_UNKNOWN.say(container=container.name))
    own = {gpu.uuid for gpu in given}
    if {gpu.uuid for gpu in shown} == own:
        return holds(OWN_GPUS, f"container {container.name} shows itself the GPUs that it was given, {gpus(given)}")
    message = LIST_SHOWS_OTHERS.say(
        container=container.name, value=shorten(value), shown=gpus(shown), given=gpus(given)
    )
    return fails(OWN_GPUS, message, stops=len(shown) < min(2, len(given)))


def _used(examined: ExaminedPod, container: PodContainer, used: EnvVar, preloaded: bool) -> Finding:
    """Returns the finding about a ``CUDA_VISIBLE_DEVICES`` that a container sets, which sees its own GPUs only."""
    name = container.name
    text = literal(used)
    if text is None:
        return unknown(OWN_GPUS, NUMBERS_FROM_ELSEWHERE.say(container=name))
    entries, value = split_list(text), shorten(text)
    given = _given(examined, container)
    count = len(given) if given else container.request.count if container.request else 0
    if given is None and (not count or any(_is_uuid(entry) for entry in entries)):
        if preloaded:
            return fails(OWN_GPUS, NUMBERS_UNREADABLE_BY_LIBRARY.say(container=name, value=value))
        return unknown(OWN_GPUS, NUMBERS_OF_UNKNOWN_GPUS.say(container=name, value=value))
    shown = show(entries, count, [gpu.uuid for gpu in given or ()])
    uses = f"CUDA uses {shown.used} of its {counted(count, 'GPU')}"
    if shown.end:
        uses = f"{shown.end}; {uses}"
    if shown.used < count or shown.twice:
        return fails(OWN_GPUS, NUMBERS_HIDE_GPUS.say(container=name, value=value, uses=uses), stops=shown.used < 2)
    if preloaded and any(map(_is_uuid, entries)):
        return fails(OWN_GPUS, NUMBERS_UNREADABLE_BY_LIBRARY.say(container=name, value=value))
    return holds(OWN_GPUS, f"container {name} sets {names.ENV_CUDA_VISIBLE_DEVICES} to {value}: {uses}")


def _given(examined: ExaminedPod, container: PodContainer) -> Sequence[Gpu] | None:
    """Returns the GPUs of a container; ``None`` if their UUIDs are not known."""
    known = examined.resolution.containers if examined.resolution else ()
    found = next((given.gpus for given in known if given.container.name == container.name), ())
    return found if found and all(gpu.uuid for gpu in found) else None


def _is_uuid(entry: str) -> bool:
    return entry.startswith(UUID_PREFIX)
