"""A container as the injection steps see it."""

import msgspec

from webhook.decisions.options import Variable
from webhook.decisions.request.resources import ContainerRequest, GpuRequest
from webhook.objects.pod import Container, EnvVar, InitContainer


class PodContainer(msgspec.Struct, frozen=True, gc=False, eq=False):
    """A container with its variables and mounts, and with the variables that its user asks for.

    Two values are equal only if they are one object.
    """

    path: str
    """JSON pointer, ``/spec/initContainers/0``."""
    env_path: str
    """JSON pointer to its ``env``."""
    name: str
    spec: Container
    """The container as the pod has it."""
    request: GpuRequest | None
    entries: list[EnvVar]
    """The entries of ``env`` as they stand, duplicates included."""
    has_env: bool
    """Whether there is an ``env`` to append to."""
    own_env: dict[str, EnvVar]
    """The variables in effect by name: of several with one name the kubelet takes the last."""
    env: dict[str, EnvVar]
    """``own_env``, with the variables that env annotations ask for."""
    variables: list[Variable]
    """The variables that env annotations ask for and that the container does not decide itself."""
    mounts: dict[str, str]
    """The volume at each mount path, of GPU containers and init containers."""
    is_left_out: bool
    """Whether the container asks for GPUs and stays as it is."""

    @property
    def is_init(self) -> bool:
        """True if the container is an init container, restartable or not."""
        return isinstance(self.spec, InitContainer)

    @property
    def is_native_sidecar(self) -> bool:
        """True if the container is a restartable init container."""
        return isinstance(self.spec, InitContainer) and self.spec.restart_policy == "Always"


def inspect(request: ContainerRequest, variables: tuple[Variable, ...] = (), *, left_out: bool = False) -> PodContainer:
    """Returns a container with the fields that the steps look at decoded.

    Args:
        request: The container and its request.
        variables: The variables that env annotations ask for in this container.
        left_out: Whether the profile does not apply to the container.

    Raises:
        MalformedPod: a field has another type than in a container.
    """
    container = request.spec
    entries = container.env
    own_env = {variable.name: variable for variable in entries or ()}
    asked = [variable for variable in variables if variable.replaces or variable.name not in own_env]
    env = own_env | {variable.name: EnvVar(variable.name, variable.value) for variable in asked} if asked else own_env
    mounts: dict[str, str] = {}
    if request.request or isinstance(container, InitContainer):
        mounts = {mount.mount_path.rstrip("/"): mount.name for mount in container.volume_mounts or ()}
    return PodContainer(
        request.path,
        request.path + "/env",
        container.name,
        container,
        request.request,
        entries or [],
        entries is not None,
        own_env,
        env,
        asked,
        mounts,
        left_out and request.request is not None,
    )
