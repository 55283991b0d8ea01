"""The condition that HAMi does not preload its library into the containers of the pod.

The device plugin looks for a literal ``CUDA_DISABLE_CONTROL`` in the container that it believes it serves. Versions
differ in that container. Up to HAMi 2.8 it is always the first one of ``containers``. Since 2.9 it is the right one,
found by its position. In 2.10.0 positions without a GPU vanish, so that the k-th container that asks for GPUs stands
for the k-th container, init containers first. Volcano's plugin counts in the same way without init containers, and the
name of the variable alone is enough for it. Since its pull request 137 ``CUDA_DISABLE_CONTROL_DP`` on the plugin itself
keeps the library out of all containers of its node, which no pod shows. Sources: HAMi
pkg/device-plugin/nvidiadevice/nvinternal/plugin/server.go and util.go, pkg/scheduler/score.go;
volcano-vgpu-device-plugin pkg/plugin/server.go, pkg/util/util.go.
"""

import enum
from collections.abc import Iterator, Sequence

import msgspec

from webhook.decisions.admit.container import PodContainer
from webhook.decisions.allocation.claim import FAMILY as CLAIM
from webhook.decisions.request.settings import disables_control
from webhook.decisions.request.skip_reasons import plain_reason
from webhook.insight.explain.examination import ExaminedPod
from webhook.insight.explain.findings import Finding, fails, holds, not_needed, unknown
from webhook.insight.explain.words import containers
from webhook.words import names
from webhook.words.catalogue.cards import (
    LIBRARY_PERHAPS_PRELOADED,
    LIBRARY_PRELOADED,
    LIBRARY_UNLESS_PLUGIN_SAYS,
    SLICE_KEEPS_LIBRARY,
)
from webhook.words.catalogue.entry import Message, join
from webhook.words.errors import shorten
from webhook.words.listing import listed

CONTROL = "control"


class Reader(enum.StrEnum):
    """The program that looks for the variable."""

    FIRST = "HAMi up to 2.8"
    OWN = "HAMi since 2.9"
    COMPACTED = "HAMi 2.10.0"
    VOLCANO = "Volcano's device plugin"


_ANY = "HAMi, whichever version it is,"


class _Look(msgspec.Struct, frozen=True):
    """The container that the device plugin serves, and the container in which it looks for the variable."""

    served: PodContainer
    seen: PodContainer | None


def control(examined: ExaminedPod) -> Finding:
    """Returns the finding whether HAMi's library stays out of every container with GPUs."""
    if examined.family == "koordinator":
        return not_needed(CONTROL, "Koordinator preloads nothing where whole GPUs are asked for")
    if examined.claimed_count or examined.family == CLAIM:
        return not_needed(
            CONTROL, "resource claims serve the GPUs, so HAMi's device plugin does not: see resource-claims"
        )
    if plain_reason(examined.requests, examined.cluster):
        return not_needed(CONTROL, "no HAMi is in this cluster, so its library is not preloaded")
    readers = _readers(examined)
    wrong = {reader: list(_wrong(examined, reader, _who(examined, reader))) for reader in readers}
    if not any(wrong.values()):
        return holds(CONTROL, _right(examined, readers))
    if readers == (Reader.VOLCANO,):
        said = join(wrong[Reader.VOLCANO])
        return unknown(CONTROL, LIBRARY_UNLESS_PLUGIN_SAYS.say(preloaded=said.text))
    if all(wrong.values()):
        alike = {tuple(_wrong(examined, reader, _ANY)) for reader in readers}
        every = [message for messages in wrong.values() for message in messages]
        return fails(CONTROL, join(list(alike.pop()) if len(readers) > len(alike) == 1 else every))
    versions = "; ".join(
        f"{reader}: {listed(message.text for message in messages) or 'no fault'}" for reader, messages in wrong.items()
    )
    return unknown(CONTROL, LIBRARY_PERHAPS_PRELOADED.say(versions=versions))


def _readers(examined: ExaminedPod) -> tuple[Reader, ...]:
    if examined.family == "volcano":
        return (Reader.VOLCANO,)
    cluster = examined.cluster
    if cluster.hami is None:
        return (Reader.FIRST, Reader.OWN, Reader.COMPACTED)
    if cluster.has_init_container_fault:
        return (Reader.COMPACTED,)
    return (Reader.OWN,) if cluster.tells_containers_apart else (Reader.FIRST,)


def _looks(examined: ExaminedPod, reader: Reader) -> Iterator[_Look]:
    """Yields for each container of ``examined.gpu_containers`` the container in which the reader looks."""
    apps = [container for container in examined.containers if not container.is_init]
    asking = [
        container for container in (apps if reader is Reader.VOLCANO else examined.containers) if container.request
    ]
    positions: Sequence[PodContainer] = apps if reader is Reader.VOLCANO else examined.containers
    for position, container in enumerate(asking):
        if container not in examined.gpu_containers:
            continue
        if reader is Reader.OWN:
            yield _Look(container, container)
        elif reader is Reader.FIRST:
            yield _Look(container, apps[0] if apps else None)
        else:
            yield _Look(container, positions[position])


def _wrong(examined: ExaminedPod, reader: Reader, who: str) -> Iterator[Message]:
    asks_for_slices = any(container.request and not container.request.is_whole for container in examined.gpu_containers)
    entry = SLICE_KEEPS_LIBRARY if asks_for_slices else LIBRARY_PRELOADED
    for look in _looks(examined, reader):
        seen = look.seen
        if seen is None or _is_off(seen, reader):
            continue
        where = "there" if seen is look.served else f"at container {seen.name}"
        yield entry.say(container=look.served.name, reader=who, where=where, found=_found(seen))


def _is_off(seen: PodContainer, reader: Reader) -> bool:
    if reader is Reader.VOLCANO:
        return names.ENV_DISABLE_CONTROL in seen.own_env
    return disables_control(seen.entries)


def _who(examined: ExaminedPod, reader: Reader) -> str:
    return str(reader) if reader is Reader.VOLCANO or examined.cluster.hami is None else examined.hami


def _found(seen: PodContainer) -> str:
    own = seen.own_env.get(names.ENV_DISABLE_CONTROL)
    if own is None:
        unseen = ", and envFrom does not count" if seen.spec.has_env_from else ""
        return f"and it does not set {names.ENV_DISABLE_CONTROL}{unseen}"
    if own.value_from is not None:
        return f"where {names.ENV_DISABLE_CONTROL} is no literal but comes from elsewhere, which does not count"
    if own.value == "false":
        return f"where {names.ENV_DISABLE_CONTROL} is false"
    return (
        f"where {names.ENV_DISABLE_CONTROL} is {shorten(own.value or '')}, which Go's ParseBool does not take for true"
    )


def _right(examined: ExaminedPod, readers: Sequence[Reader]) -> str:
    who = _who(examined, readers[0]) if len(readers) == 1 else "whichever version of HAMi it is, it"
    asking = containers(examined.gpu_containers)
    return f"{who} finds {names.ENV_DISABLE_CONTROL} set for {asking} and preloads nothing"
