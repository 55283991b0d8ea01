"""Conditions on faults and refusals of some versions of HAMi: the rules of admission's step ``compatibility``."""

from collections.abc import Iterator

from webhook.decisions.admit.steps.compatibility import idle_init_containers
from webhook.decisions.allocation.reader import read_allocation
from webhook.decisions.request.hami_counting import (
    SIDECARS_COUNTED_SINCE,
    Counting,
    ahead_of_sidecar,
    counting,
    members,
    writes_every_segment,
)
from webhook.insight.explain.examination import ExaminedPod
from webhook.insight.explain.findings import Finding, fails, hint, holds, not_needed, unknown
from webhook.insight.explain.hami import treated
from webhook.insight.explain.words import containers
from webhook.words import names
from webhook.words.catalogue.cards import (
    IDLE_INIT_CONTAINER,
    IDLE_INIT_CONTAINER_PERHAPS,
    IDLE_REMAP_CONTAINER,
    INIT_GPUS_OF_HAMI,
    INIT_GPUS_PERHAPS_NOT_SCHEDULED,
    LOSES_CARDS,
    PRIVILEGED_DENIED,
    PRIVILEGED_PERHAPS_DENIED,
    REMAP_NOT_FIRST,
    WOULD_LOSE_CARDS,
)
from webhook.words.catalogue.entry import Message
from webhook.words.errors import FormatError
from webhook.words.listing import counted, listed
from webhook.words.version import Version

INIT_FAULT, PRIVILEGED, INIT_GPUS = "init-container-fault", "privileged", "init-container-gpus"
REMAP_FIRST = "sidecar-first"


def faults(examined: ExaminedPod) -> Iterator[Finding]:
    """Yields what keeps HAMi from the pod, and the conditions on three faults of some versions of HAMi."""
    if examined.family != "hami":
        yield not_needed(INIT_FAULT, "the GPUs are not scheduled by HAMi")
        return
    yield from treated(examined)
    yield from _init_fault(examined)
    yield _privileged(examined)
    yield _init_gpus(examined)


def _init_fault(examined: ExaminedPod) -> Iterator[Finding]:
    """Yields whether HAMi keeps the cards of the pod for it, and a hint if our sidecar does not stand first.

    Of a pod that was given its cards the allocation decides, which another version of HAMi may have written.
    """
    found = _counting(examined, examined.cluster.hami)
    if found and found.lost:
        yield _of_lost_cards(examined, found)
        return
    of_new_pod = _fault_of_new_pod(examined)
    if found and of_new_pod.fails:
        yield holds(INIT_FAULT, f"{examined.hami} counts all {counted(len(found.given), 'GPU')} that the pod was given")
    else:
        yield of_new_pod
    yield from _not_first(examined)


def _counting(examined: ExaminedPod, hami: Version | None) -> Counting | None:
    """Returns how this version of HAMi counts the cards of the pod; None if it has none, or if that is not known."""
    pod = examined.evidence.pod
    if hami is None or not examined.is_bound or pod.has_ended:
        return None
    limits = examined.evidence.policy.limits.allocation
    try:
        allocation = read_allocation(pod.annotations, family="hami", holder=examined.holder, limits=limits)
    except FormatError:
        return None
    return counting(allocation, members(examined.requests.containers), hami)


def _of_lost_cards(examined: ExaminedPod, found: Counting) -> Finding:
    evidence = examined.evidence
    is_to_come = evidence.reading.names_hami and evidence.cluster.hami != examined.cluster.hami
    message = (WOULD_LOSE_CARDS if is_to_come else LOSES_CARDS).say(
        hami=examined.cluster.hami,
        counted=len(found.given) - len(found.lost) or "none",
        gpus=counted(len(found.given), "GPU"),
        taken=listed(found.taken_for),
    )
    return fails(INIT_FAULT, message)


def _not_first(examined: ExaminedPod) -> Iterator[Finding]:
    """Yields a hint if init containers that end stand ahead of our sidecar, and that matters once HAMi is upgraded."""
    ours, ahead = ahead_of_sidecar(members(examined.requests.containers))
    if not ahead or examined.evidence.pod.has_ended:
        return
    later = _counting(examined, SIDECARS_COUNTED_SINCE)
    is_harmless = not later.lost if later else writes_every_segment(examined.cluster.hami)
    if not is_harmless:
        yield hint(REMAP_FIRST, REMAP_NOT_FIRST.say(taken=listed(ahead), remap=ours))


def _fault_of_new_pod(examined: ExaminedPod) -> Finding:
    idle = idle_init_containers(examined.containers)
    if not idle:
        return holds(INIT_FAULT, "no init container without a GPU comes to an end before the others start")
    ending = listed(idle)
    if examined.cluster.hami is None:
        return unknown(INIT_FAULT, IDLE_INIT_CONTAINER_PERHAPS.say(containers=ending))
    if examined.cluster.has_init_container_fault:
        return fails(INIT_FAULT, _of_idle(idle, hami=str(examined.cluster.hami)))
    return holds(INIT_FAULT, f"init container {ending} asks for no GPU and ends, which {examined.hami} bears")


def _of_idle(idle: list[str], *, hami: str) -> Message:
    """Returns the message about idle init containers.

    The remap container has a message of its own: where the webhook knows of the fault it is a sidecar, which never
    ends.
    """
    others = [name for name in idle if not name.startswith(names.REMAP_CONTAINER)]
    if len(others) == len(idle):
        return IDLE_INIT_CONTAINER.say(containers=listed(idle), hami=hami)
    besides = f", and with it there is no fault of {listed(others)} either" if others else ""
    return IDLE_REMAP_CONTAINER.say(containers=listed(idle), hami=hami, others=besides)


def _privileged(examined: ExaminedPod) -> Finding:
    found = [container for container in examined.containers if container.spec.is_privileged]
    if not found:
        return not_needed(PRIVILEGED, "no container is privileged")
    privileged = containers(found)
    if examined.cluster.hami is None:
        return unknown(PRIVILEGED, PRIVILEGED_PERHAPS_DENIED.say(containers=privileged))
    if examined.cluster.denies_privileged:
        return fails(PRIVILEGED, PRIVILEGED_DENIED.say(containers=privileged, hami=examined.cluster.hami))
    return holds(PRIVILEGED, f"{privileged}: privileged, which {examined.hami} lets pass")


def _init_gpus(examined: ExaminedPod) -> Finding:
    found = [container for container in examined.containers if container.is_init and container.request]
    if not found:
        return not_needed(INIT_GPUS, "no init container asks for GPUs")
    if examined.cluster.hami is None:
        return unknown(INIT_GPUS, INIT_GPUS_PERHAPS_NOT_SCHEDULED.say(containers=containers(found)))
    if not examined.cluster.serves_init_containers:
        return fails(INIT_GPUS, INIT_GPUS_OF_HAMI.say(containers=containers(found), hami=examined.cluster.hami))
    return holds(INIT_GPUS, f"{containers(found)}: {examined.hami} schedules its GPUs")
