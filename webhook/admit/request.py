"""What the containers of a pod ask of the GPUs."""

import msgspec

from webhook.config import ResourceNames
from webhook.model import names
from webhook.model.errors import FormatError
from webhook.model.outcome import Reason, Refused
from webhook.model.pod import Container, Pod, PodSpec, Quantity
from webhook.model.quantity import parse_count

WHOLE = 100


class GpuRequest(msgspec.Struct, frozen=True, gc=False):
    """The GPU request of one container: limits count before requests, as in HAMi."""

    names: ResourceNames
    count: int
    """Number of GPUs; the default count where only memory or cores are asked for."""
    written_count: Quantity
    """The same as the user wrote it."""
    has_memory: bool
    """Whether it asks for a part of each GPU's memory in MiB."""
    memory_percentage: int | None
    cores: int | None

    @property
    def is_whole(self) -> bool:
        """Whether it asks for whole cards: no memory figure, and percentages absent or 100."""
        return not self.has_memory and self.memory_percentage in (None, WHOLE) and self.cores in (None, WHOLE)


class ContainerRequest(msgspec.Struct, frozen=True, gc=False):
    """A container, where it stands in the pod, and what it asks for."""

    path: str
    """JSON pointer, ``/spec/initContainers/0``."""
    container: Container
    is_init: bool
    request: GpuRequest | None

    @property
    def name(self) -> str:
        """The container's name."""
        return self.container.name


class PodRequests(msgspec.Struct, gc=False):
    """Every container of a pod, init containers first, and whether one of them asks for MIG devices."""

    containers: list[ContainerRequest]
    mig: bool


def read_requests(pod: Pod, families: tuple[ResourceNames, ...], default_count: int) -> PodRequests:
    """Look at the resources of every container.

    Raises:
        Refused: a GPU resource has a value that is no whole number.
    """
    found: list[ContainerRequest] = []
    mig = pod.annotations.get(names.VGPU_MODE) == "mig"
    spec = pod.spec or PodSpec()
    for section, is_init, containers in (
        ("/spec/initContainers/", True, spec.init_containers),
        ("/spec/containers/", False, spec.containers),
    ):
        for index, container in enumerate(containers or ()):
            asked = _extended_resources(container)
            request = _read_request(container, asked, families, default_count) if asked else None
            found.append(ContainerRequest(f"{section}{index}", container, is_init, request))
            mig = mig or any(resource.startswith(names.MIG_RESOURCE_PREFIX) for resource in asked)
    return PodRequests(found, mig)


def _extended_resources(container: Container) -> dict[str, Quantity]:
    """The limit, else the request, of each extended resource: those with a domain in their name."""
    resources = container.resources
    if resources is None:
        return {}
    asked = {**(resources.requests or {}), **(resources.limits or {})}
    return {resource: value for resource, value in asked.items() if "/" in resource}


def _read_request(
    container: Container, asked: dict[str, Quantity], families: tuple[ResourceNames, ...], default_count: int
) -> GpuRequest | None:
    for family in families:
        written, memory = asked.get(family.count), asked.get(family.memory)
        percentage, cores = asked.get(family.memory_percentage), asked.get(family.cores)
        if written is None:
            if memory is None and percentage is None and cores is None:
                continue
            written = str(default_count)
        count = _whole_number(container, family.count, written)
        if count:
            return GpuRequest(
                family,
                count,
                written,
                memory is not None and _whole_number(container, family.memory, memory) > 0,
                None if percentage is None else _whole_number(container, family.memory_percentage, percentage),
                None if cores is None else _whole_number(container, family.cores, cores),
            )
    return None


def _whole_number(container: Container, resource: str, value: Quantity) -> int:
    try:
        return parse_count(value, source=f"resource {resource} of container {container.name}")
    except FormatError as error:
        raise Refused(Reason.BAD_RESOURCE, str(error)) from None
