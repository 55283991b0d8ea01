"""The file ``env``, from which containers may take the values that depend on their GPUs (``fileKeyRef``).

Kubernetes changed the format between releases, and no file is right for both (KEP-3721). Release 1.35 requires single
quotes around each value; release 1.34 keeps quotes and ends a value at ``#`` (k8s.io/kubernetes pkg/kubelet/util/env).
"""

import re
from collections.abc import Iterable
from enum import StrEnum

from webhook.decisions.resolve.nccl import nccl_defaults, nvls_until_bind
from webhook.decisions.resolve.resolve import ContainerGpus, Resolution
from webhook.programs.remap.inputs import Inputs
from webhook.words import names
from webhook.words.choices import Profile
from webhook.words.errors import FormatError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_LONGEST = 32 * 1024
"""The most characters of a value (KEP-3721)."""


class EnvFormat(StrEnum):
    """The format of the file, by the first release of Kubernetes that reads it."""

    QUOTED = "1.35"
    RAW = "1.34"


def environment_values(inputs: Inputs, resolution: Resolution | None) -> tuple[tuple[str, str], ...]:
    """Returns the variables of the containers; without a resolution, the variables of admission."""
    if resolution is None:
        nvls = nvls_until_bind(inputs.profile, host_network=inputs.demand.host_network)
        return nccl_defaults(inputs.demand.nccl, nvls=nvls)
    seeing = [given for given in resolution.containers if given.cuda_indices and given.container.visible_key]
    visible = tuple((_line_of(given), given.cuda_visible_devices) for given in seeing)
    if inputs.demand.sees_others and inputs.profile is Profile.POD_PEERS:
        visible += ((names.ENV_NVIDIA_VISIBLE_DEVICES, resolution.visible_uuids),)
    return visible + resolution.nccl


def _line_of(given: ContainerGpus) -> str:
    number = given.container.visible_key.removeprefix(names.CUDA_VISIBLE_DEVICES_PREFIX)
    return f"{names.ENV_CUDA_VISIBLE_DEVICES}_{number}"


def format_environment(values: Iterable[tuple[str, str]], env_format: EnvFormat) -> str:
    """Returns the text of the file.

    Raises:
        FormatError: a value cannot be written so that the kubelet reads the same value.
    """
    return "".join(f"{name}={_written(name, value, env_format)}\n" for name, value in values)


def _written(name: str, value: str, env_format: EnvFormat) -> str:
    where = f"env file for Kubernetes {env_format}: {name}"
    if not _NAME.fullmatch(name):
        raise FormatError(where, expected="letters, digits and _ in the name", found=name)
    if not value or not value.isprintable() or len(value) > _LONGEST:
        raise FormatError(where, expected=f"1 to {_LONGEST} printable characters", found=value)
    if env_format is EnvFormat.QUOTED:
        if "'" in value:
            raise FormatError(where, expected="a value without single quotes", found=value)
        return f"'{value}'"
    if "#" in value or value != value.strip():
        raise FormatError(where, expected="a value without # and without blanks around it", found=value)
    return value
