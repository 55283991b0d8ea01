"""The GPU requests of a pod's containers, read from their resources: the number of GPUs, and the part of each."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from webhook.decisions.allocation.claim import FAMILY as CLAIM_FAMILY
from webhook.decisions.claims.requests import NO_CLAIMS, ClaimedGpus, ClaimView
from webhook.decisions.configuration import ResourceNames
from webhook.decisions.request.gpu_lists import SHOWS_NOTHING
from webhook.decisions.request.settings import literals
from webhook.objects.pod import Container, Pod, PodSpec, Quantity, may_spell
from webhook.words import names
from webhook.words.catalogue.cards import GPUS_WITHOUT_REQUEST, TWO_FAMILIES, UNRECOGNIZED_RESOURCE
from webhook.words.catalogue.entry import Message
from webhook.words.catalogue.opting import BAD_REQUEST
from webhook.words.errors import FormatError, shorten
from webhook.words.outcome import Reason, Refused
from webhook.words.quantity import parse_count

WHOLE = 100
_LIST = names.ENV_NVIDIA_VISIBLE_DEVICES.encode()
_NVIDIA, _GPU_WORDS = "nvidia.com/", ("gpu", "cuda")
_OTHER_VENDORS = (
    *("amd.com/", "gpu.intel.com/", "habana.ai/", "huawei.com/", "cambricon.com/", "hygon.com/", "iluvatar.ai/"),
    *("metax-tech.com/", "mthreads.com/", "enflame.com/", "kunlunxin.com/", "biren.ai/", "google.com/"),
)
"""Domains of resources for devices of other vendors, which have no NVLink."""


class GpuRequest(msgspec.Struct, frozen=True, gc=False):
    """The GPU request of one container: limits count before requests, as in HAMi."""

    names: ResourceNames | None
    """The names of the resources; ``None`` where the container asks by claims alone."""
    count: int
    """Number of GPUs; the default count where only memory or cores are asked for. 0 where claims leave it open."""
    written_count: Quantity
    """The count as the user wrote it."""
    memory_mib: int
    """The part of each GPU's memory that it asks for, in MiB; 0: it asks for none in MiB."""
    memory_percentage: int | None
    cores: int | None
    claimed: ClaimedGpus | None = None
    """The GPUs that it asks for by claims, if claims serve it."""

    @property
    def family(self) -> str:
        """The family of the GPUs: ``hami``, ``volcano``, ``koordinator`` or ``claim``."""
        return CLAIM_FAMILY if self.claimed or self.names is None else self.names.family

    @property
    def resource(self) -> str:
        """The extended resource by whose count the container asks; empty if it asks by claims alone."""
        return self.names.count if self.names else ""

    @property
    def asks_twice(self) -> bool:
        """True if the container asks by an extended resource and by a claim that does not serve that resource."""
        return self.names is not None and self.claimed is not None and not self.claimed.is_extended

    @property
    def why_part(self) -> Message | None:
        """The reason why its claims give no whole GPUs; ``None`` if they do, or if no claim serves the request."""
        return self.claimed.part if self.claimed else None

    @property
    def is_whole(self) -> bool:
        """True if it asks for whole cards: no memory figure, percentages absent or 100, and no claim for parts."""
        return (
            self.why_part is None
            and not self.memory_mib
            and self.memory_percentage in (None, WHOLE)
            and self.cores in (None, WHOLE)
        )


class ContainerRequest(msgspec.Struct, frozen=True, gc=False):
    """A container, its place in the pod, and its GPU request."""

    path: str
    """JSON pointer, ``/spec/initContainers/0``."""
    spec: Container
    """The container as the pod has it."""
    request: GpuRequest | None

    @property
    def name(self) -> str:
        """The container's name."""
        return self.spec.name


class PodRequests(msgspec.Struct, frozen=True, gc=False):
    """All containers of a pod, init containers first, with ``mig``: whether one of them asks for MIG devices."""

    containers: list[ContainerRequest]
    mig: bool


def read_requests(
    pod: Pod, families: tuple[ResourceNames, ...], default_count: int, claims: ClaimView = NO_CLAIMS
) -> PodRequests:
    """Reads the resources of every container; ``containers`` stays empty if none asks for a device.

    Args:
        pod: The pod.
        families: The names of GPU resources.
        default_count: GPUs of a container that asks for memory or cores only.
        claims: The known claims of the pod.

    Raises:
        Refused: a GPU resource has a value that is no whole number.
    """
    mig = pod.annotations.get(names.VGPU_MODE) == "mig"
    spec = pod.spec or PodSpec()
    init_containers, containers = spec.init_containers or (), spec.containers or ()
    if not (claims.containers or _ask_for_devices(containers) or _ask_for_devices(init_containers)):
        return PodRequests([], mig)
    found: list[ContainerRequest] = []
    sections: tuple[tuple[str, Sequence[Container]], ...] = (
        ("/spec/initContainers/", init_containers),
        ("/spec/containers/", containers),
    )
    for prefix, section in sections:
        for index, container in enumerate(section):
            asked = _extended_resources(container)
            request = _read_request(container, asked, families, default_count) if asked else None
            if claims is not NO_CLAIMS:
                request = _with_claims(container, request, asked, claims)
            found.append(ContainerRequest(f"{prefix}{index}", container, request))
            for resource in asked:
                mig = mig or resource.startswith(names.MIG_RESOURCE_PREFIX)
    return PodRequests(_without_doubtful(found) if claims.containers else found, mig)


def unrecognized(pod: Pod, requests: PodRequests) -> Iterator[Message]:
    """Yields what is not understood of a pod without a known request: it may have GPUs nevertheless.

    That is a resource which may be for NVIDIA's GPUs and which the configuration does not name, and a list of GPUs
    without a request. Beside a known request, an unknown resource is mostly a NIC. The pods of a DaemonSet with such a
    list watch the GPUs of their nodes.
    """
    if requests.mig or any(container.request for container in requests.containers):
        return
    for container in requests.containers:
        for resource, amount in _extended_resources(container.spec).items():
            if _may_be_gpu(resource) and str(amount) != "0":
                yield UNRECOGNIZED_RESOURCE.say(container=container.name, resource=resource)
    if pod.is_owned_by("DaemonSet"):
        return
    for each in (pod.spec.containers if pod.spec else None) or ():
        if not may_spell((each.env_json,), _LIST):
            continue
        value = literals(each).get(names.ENV_NVIDIA_VISIBLE_DEVICES, "")
        if value not in SHOWS_NOTHING:
            yield GPUS_WITHOUT_REQUEST.say(container=each.name, value=shorten(value))


def _may_be_gpu(resource: str) -> bool:
    if resource.startswith((names.CLASS_RESOURCE_PREFIX, *_OTHER_VENDORS)):
        return False
    return resource.startswith(_NVIDIA) or any(word in resource.lower() for word in _GPU_WORDS)


def family_of(containers: Sequence[ContainerRequest]) -> str:
    """Returns the family of the GPU resources of all containers; empty if none asks for a GPU.

    A pod has one scheduler, which gives it GPUs of its own family only.

    Raises:
        Refused: the containers ask for resources of different families.
    """
    found: dict[str, ContainerRequest] = {}
    for container in containers:
        if container.request:
            found.setdefault(container.request.family, container)
    if len(found) > 1:
        first, second = list(found.items())[:2]
        message = TWO_FAMILIES.say(
            first=first[1].name, first_family=first[0], second=second[1].name, second_family=second[0]
        )
        raise Refused(Reason.BAD_RESOURCE, message)
    return next(iter(found), "")


def _ask_for_devices(containers: Sequence[Container]) -> bool:
    """Returns whether a container asks for an extended resource: such resources have a domain in their name."""
    for container in containers:
        resources = container.resources
        if resources is None:
            continue
        for section in (resources.limits, resources.requests):
            for resource in section or ():
                if "/" in resource:
                    return True
    return False


def _extended_resources(container: Container) -> dict[str, Quantity]:
    """Returns the limit, else the request, of each extended resource."""
    asked: dict[str, Quantity] = {}
    if container.resources:
        for section in (container.resources.requests, container.resources.limits):
            for resource, value in (section or {}).items():
                if "/" in resource:
                    asked[resource] = value  # noqa: PERF403 - a comprehension costs more for two entries
    return asked


def _read_request(
    container: Container, asked: dict[str, Quantity], families: tuple[ResourceNames, ...], default_count: int
) -> GpuRequest | None:
    for family in families:
        written = asked.get(family.count)
        if written is not None and not _whole_number(container, family.count, written):
            continue
        memory = _part(container, asked, family.memory)
        percentage = _part(container, asked, family.memory_percentage)
        cores = _part(container, asked, family.cores)
        if written is None:
            if not (memory or percentage or cores):
                continue  # 0 of memory and cores is no request
            written = str(default_count)
        count = _whole_number(container, family.count, written)
        return GpuRequest(family, count, written, memory or 0, percentage, cores)
    return None


def _with_claims(
    container: Container, request: GpuRequest | None, asked: Mapping[str, Quantity], claims: ClaimView
) -> GpuRequest | None:
    """Returns the request of a container, with the claims that serve it."""
    claimed = claims.containers.get(container.name)
    if claimed is not None and (request is None or claimed.is_extended):
        count = claimed.count or (request.count if request else 0)
        names_, written = (request.names, request.written_count) if request else (None, str(count))
        return GpuRequest(names_, count, written, memory_mib=0, memory_percentage=None, cores=None, claimed=claimed)
    if claimed is not None and claimed.is_known and request is not None:
        return msgspec.structs.replace(request, claimed=claimed)
    if request is not None:
        claimed = claims.of_resource(request.resource, request.count)
        return msgspec.structs.replace(request, claimed=claimed) if claimed else request
    for resource, value in asked.items():
        if resource.startswith(names.CLASS_RESOURCE_PREFIX):
            count = _whole_number(container, resource, value)
            claimed = claims.of_resource(resource, count)
            if claimed and count:
                return GpuRequest(None, count, value, memory_mib=0, memory_percentage=None, cores=None, claimed=claimed)
    return None


def _without_doubtful(containers: list[ContainerRequest]) -> list[ContainerRequest]:
    """Drops claims that cannot be read, unless the pod has no other GPUs: such a claim may be for a NIC."""
    requests = [container.request for container in containers if container.request]
    if not any(request.claimed is None or request.claimed.is_known for request in requests):
        return containers
    return [
        msgspec.structs.replace(container, request=None)
        if container.request and container.request.claimed and not container.request.claimed.is_known
        else container
        for container in containers
    ]


def _part(container: Container, asked: dict[str, Quantity], resource: str) -> int | None:
    value = asked.get(resource)
    return None if value is None else _whole_number(container, resource, value)


def _whole_number(container: Container, resource: str, value: Quantity) -> int:
    try:
        return parse_count(value, source=f"resource {resource} of container {container.name}")
    except FormatError as error:
        raise Refused(Reason.BAD_RESOURCE, BAD_REQUEST.say(problem=error)) from None
