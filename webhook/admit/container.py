"""A container as the injection steps see it."""

import msgspec

from webhook.admit.request import ContainerRequest, GpuRequest
from webhook.model import names
from webhook.model.options import Variable
from webhook.model.pod import Container, EnvVar

_OUR_MOUNTS = frozenset({names.FILES_PATH, "/var/run/secrets/kubernetes.io/serviceaccount"})


class PodContainer(msgspec.Struct):
    """What a container has, and what its user wants it to have."""

    path: str
    """JSON pointer, ``/spec/initContainers/0``."""
    name: str
    container: Container
    is_init: bool
    request: GpuRequest | None
    entries: list[EnvVar] | None
    """``env`` as it stands, duplicates included."""
    own_env: dict[str, EnvVar]
    """The variables in effect: of several with one name the kubelet takes the last."""
    env: dict[str, EnvVar]
    """The same, with those that env annotations ask for."""
    variables: list[Variable]
    """What env annotations ask for and the container has not already decided."""
    mounts: dict[str, str]
    """The volume at each mount path."""
    is_ours: bool
    """Whether it is the remap container of an earlier admission."""

    @property
    def is_native_sidecar(self) -> bool:
        """Whether it is a restartable init container."""
        return self.is_init and self.container.restart_policy == "Always"


def inspect(one: ContainerRequest, variables: tuple[Variable, ...]) -> PodContainer:
    """Decode what the steps look at.

    Raises:
        MalformedPod: a field has another type than in a container.
    """
    container = one.container
    entries = container.env
    own_env = {variable.name: variable for variable in entries or ()}
    asked = [variable for variable in variables if variable.replaces or variable.name not in own_env]
    env = own_env | {variable.name: EnvVar(variable.name, variable.value) for variable in asked} if asked else own_env
    mounts = {mount.mount_path.rstrip("/"): mount.name for mount in container.volume_mounts or ()}
    is_ours = one.is_init and one.name.startswith(names.REMAP_CONTAINER) and _is_remap(container, own_env, mounts)
    return PodContainer(
        one.path, one.name, container, one.is_init, one.request, entries, own_env, env, asked, mounts, is_ours
    )


def _is_remap(container: Container, env: dict[str, EnvVar], mounts: dict[str, str]) -> bool:
    """Whether a container that has the name of ours is ours.

    It may see every GPU, so one that merely looks like it must not pass: no command, variable, mount or hook beside
    those that we (or the API server, with its service-account token) put there.
    """
    return (
        container.command == list(names.REMAP_COMMAND)
        and not container.has_hooks
        and all(name.startswith(names.REMAP_VARIABLES) for name in env)
        and _OUR_MOUNTS.issuperset(mounts)
    )
