"""What HAMi does wrong, or refuses, whatever the pod says: the rules of admission's step ``compatibility``."""

from collections.abc import Iterator

from webhook.admit.steps.compatibility import idle_init_containers
from webhook.explain.examined import ExaminedPod
from webhook.explain.findings import Finding, fails, holds, not_needed, unknown
from webhook.explain.treated import treated
from webhook.explain.words import containers, listed
from webhook.model import names

INIT_FAULT, PRIVILEGED, INIT_GPUS = "init-container-fault", "privileged", "init-container-gpus"

_VERSION = "Say which HAMi runs: --hami-version"


def faults(examined: ExaminedPod) -> Iterator[Finding]:
    """Three faults of some versions of HAMi."""
    if examined.family != "hami":
        yield not_needed(INIT_FAULT, "the GPUs are not scheduled by HAMi")
        return
    yield from treated(examined)
    yield _init_fault(examined)
    yield _privileged(examined)
    yield _init_gpus(examined)


def _init_fault(examined: ExaminedPod) -> Finding:
    idle = idle_init_containers(examined.containers)
    if not idle:
        return holds(INIT_FAULT, "no init container without a GPU comes to an end before the others start")
    said = f"init container {listed(idle)} asks for no GPU and ends"
    if examined.cluster.hami is None:
        return unknown(INIT_FAULT, f"{said}; HAMi 2.10.0 would then offer the pod's cards to others", _VERSION)
    if examined.cluster.has_init_container_fault:
        text = f"{said}: {examined.hami} then offers the pod's cards to others"
        return fails(INIT_FAULT, text, _remedy(idle))
    return holds(INIT_FAULT, f"{said}, which {examined.hami} bears")


def _remedy(idle: list[str]) -> str:
    """Of the fault; our own container is a sidecar, which never ends, where the webhook knows of it."""
    others = [name for name in idle if not name.startswith(names.REMAP_CONTAINER)]
    if len(others) == len(idle):
        return "Upgrade HAMi, or give the pod no such init container"
    told = "Tell the webhook HAMi's version (cluster.hamiVersion in its configuration) and create the pod again"
    told = f"{told}: {names.REMAP_CONTAINER} is then a sidecar, which does not end"
    return f"{told}, and with it there is no fault of {listed(others)} either" if others else told


def _privileged(examined: ExaminedPod) -> Finding:
    found = [container for container in examined.containers if container.spec.is_privileged]
    if not found:
        return not_needed(PRIVILEGED, "no container is privileged")
    said = f"{containers(found)}: privileged"
    if examined.cluster.hami is None:
        return unknown(PRIVILEGED, f"{said}, which HAMi 2.10 and later refuse in pods with GPUs", _VERSION)
    if examined.cluster.denies_privileged:
        return fails(PRIVILEGED, f"{said}, which {examined.hami} refuses in pods with GPUs", "Do without it")
    return holds(PRIVILEGED, f"{said}, which {examined.hami} lets pass")


def _init_gpus(examined: ExaminedPod) -> Finding:
    found = [container for container in examined.containers if container.is_init and container.request]
    if not found:
        return not_needed(INIT_GPUS, "no init container asks for GPUs")
    if examined.cluster.hami is None:
        return unknown(INIT_GPUS, f"{containers(found)}: HAMi before 2.9 does not schedule its GPUs", _VERSION)
    if not examined.cluster.serves_init_containers:
        said = f"{containers(found)}: {examined.hami} does not schedule its GPUs"
        return fails(INIT_GPUS, said, "Upgrade HAMi, or ask for the GPUs in another container")
    return holds(INIT_GPUS, f"{containers(found)}: {examined.hami} schedules its GPUs")
