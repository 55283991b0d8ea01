"""What the containers of a pod ask of the GPUs."""

from functools import cached_property

import msgspec

from webhook.config import ResourceNames
from webhook.model import names
from webhook.model.errors import FormatError
from webhook.model.options import Variable
from webhook.model.outcome import Reason, Refused
from webhook.model.pod import Container, EnvVar, Pod, Quantity
from webhook.model.quantity import parse_count

WHOLE = 100
_OUR_MOUNTS = frozenset({names.FILES_PATH, "/var/run/secrets/kubernetes.io/serviceaccount"})


class GpuRequest(msgspec.Struct, frozen=True, gc=False):
    """The GPU request of one container: limits count before requests, as in HAMi."""

    names: ResourceNames
    count: int
    """Number of GPUs; the default count where only memory or cores are asked for."""
    written_count: Quantity
    """The same as the user wrote it."""
    memory: int
    """MiB per GPU, 0 if not asked for."""
    memory_percentage: int | None
    cores: int | None

    @property
    def is_whole(self) -> bool:
        """Whether it asks for whole cards: no memory figure, and percentages absent or 100."""
        return not self.memory and self.memory_percentage in (None, WHOLE) and self.cores in (None, WHOLE)


class PodContainer(msgspec.Struct, frozen=True, dict=True):
    """A container, where it stands in the pod, and what it asks for."""

    path: str
    """JSON pointer, ``/spec/initContainers/0``."""
    container: Container
    is_init: bool
    request: GpuRequest | None
    variables: tuple[Variable, ...] = ()
    """What env annotations ask for this container."""

    @property
    def name(self) -> str:
        """The container's name."""
        return self.container.name

    @cached_property
    def own_env(self) -> dict[str, EnvVar]:
        """The container's variables in effect: of several with one name the kubelet takes the last."""
        return {variable.name: variable for variable in self.container.env or ()}

    @cached_property
    def env(self) -> dict[str, EnvVar]:
        """What the user wants set: the container's own variables and those of env annotations."""
        if not self.variables:
            return self.own_env
        wanted = {one.name: EnvVar(one.name, one.value) for one in self.variables if self.takes(one)}
        return self.own_env | wanted

    def takes(self, variable: Variable) -> bool:
        """Whether an env annotation decides the variable, rather than the container's own entry."""
        return variable.replaces or variable.name not in self.own_env

    @cached_property
    def is_ours(self) -> bool:
        """Whether it is the remap container of an earlier admission.

        It may see every GPU, so a container that merely looks like it must not pass: no command, variable, mount or hook
        beside those that we (or the API server, with its service-account token) put there.
        """
        container = self.container
        return (
            self.is_init
            and container.name.startswith(names.REMAP_CONTAINER)
            and container.command == list(names.REMAP_COMMAND)
            and not container.has_hooks
            and all(name.startswith(names.REMAP_VARIABLES) for name in self.env)
            and all(mount.mount_path in _OUR_MOUNTS for mount in container.volume_mounts or ())
        )

    @property
    def is_native_sidecar(self) -> bool:
        """Whether it is a restartable init container."""
        return self.is_init and self.container.restart_policy == "Always"


def read_containers(pod: Pod, families: tuple[ResourceNames, ...], default_count: int) -> list[PodContainer]:
    """Every container of the pod, init containers first, with its GPU request.

    Raises:
        Refused: a GPU resource has a value that is no whole number.
    """
    spec = pod.spec
    if spec is None:
        return []
    return [
        PodContainer(f"/spec/{section}/{index}", container, is_init, _read_request(container, families, default_count))
        for section, is_init, found in (
            ("initContainers", True, spec.init_containers),
            ("containers", False, spec.containers),
        )
        if found
        for index, container in enumerate(found)
    ]


def asks_for_mig(pod: Pod, containers: list[PodContainer]) -> bool:
    """Whether the pod wants MIG devices: by resource, or by HAMi's vGPU mode."""
    if pod.annotations.get(names.VGPU_MODE) == "mig":
        return True
    return any(
        key.startswith(names.MIG_RESOURCE_PREFIX)
        for one in containers
        if one.container.resources
        for section in (one.container.resources.limits, one.container.resources.requests)
        if section
        for key in section
    )


def _read_request(
    container: Container, families: tuple[ResourceNames, ...], default_count: int
) -> GpuRequest | None:
    resources = container.resources
    if resources is None:
        return None
    limits, requests = resources.limits or {}, resources.requests or {}
    for family in families:
        asked = {
            field: _read_count(container, name, limits[name] if name in limits else requests[name])
            for field, name in (
                ("count", family.count),
                ("memory", family.memory),
                ("memory_percentage", family.memory_percentage),
                ("cores", family.cores),
            )
            if name in limits or name in requests
        }
        count = asked.get("count", default_count) if asked else 0
        if count:
            written = limits.get(family.count, requests.get(family.count, str(default_count)))
            memory, percentage, cores = asked.get("memory", 0), asked.get("memory_percentage"), asked.get("cores")
            return GpuRequest(family, count, written, memory, percentage, cores)
    return None


def _read_count(container: Container, resource: str, value: Quantity) -> int:
    try:
        return parse_count(value, source=f"resource {resource} of container {container.name}")
    except FormatError as error:
        raise Refused(Reason.BAD_RESOURCE, str(error)) from None
