"""The fields of a pod that we read.

Everything else of the pod never becomes a Python object: decoding only what is declared here costs a third of decoding
the whole document, and a field that we do not know cannot be lost, because patches touch only what they name. The
types are lenient (``null`` lists, numbers as quantities): the API server accepts more spellings than one.
"""

from typing import Any

import msgspec

from webhook.model import names

Quantity = str | int | float
POD_ROOT = ""


class Fields(msgspec.Struct, rename="camel", gc=False):
    """Base of everything that is decoded from a manifest."""


class FieldRef(Fields):
    """A downward-API reference."""

    field_path: str = ""


class EnvVarSource(Fields):
    """Where a variable's value comes from; other sources than ``fieldRef`` are not looked at."""

    field_ref: FieldRef | None = None


class EnvVar(Fields):
    """One entry of ``env``."""

    name: str
    value: str | None = None
    value_from: EnvVarSource | None = None

    def reads(self, field_path: str) -> bool:
        """Whether the value comes from this downward-API field."""
        source = self.value_from
        return source is not None and source.field_ref is not None and source.field_ref.field_path == field_path


class VolumeMount(Fields):
    """One entry of ``volumeMounts``."""

    name: str
    mount_path: str


class Resources(Fields):
    """``resources`` of a container."""

    limits: dict[str, Quantity] | None = None
    requests: dict[str, Quantity] | None = None


class ContainerSecurityContext(Fields):
    """The part of a container's security context that HAMi looks at."""

    privileged: bool | None = None


class Container(Fields):
    """A container or init container."""

    name: str
    image: str | None = None
    command: list[str] | None = None
    args: list[str] | None = None
    env: list[EnvVar] | None = None
    resources: Resources | None = None
    volume_mounts: list[VolumeMount] | None = None
    security_context: ContainerSecurityContext | None = None
    restart_policy: str | None = None
    env_from: msgspec.Raw = msgspec.Raw()
    lifecycle: msgspec.Raw = msgspec.Raw()
    liveness_probe: msgspec.Raw = msgspec.Raw()
    readiness_probe: msgspec.Raw = msgspec.Raw()

    @property
    def has_hooks(self) -> bool:
        """Whether something beside its command can run in it, or its environment comes from elsewhere."""
        present = (self.env_from, self.lifecycle, self.liveness_probe, self.readiness_probe)
        return any(bytes(value) not in (b"", b"null") for value in present)

    def mount_at(self, path: str) -> VolumeMount | None:
        """The mount at exactly this path."""
        for mount in self.volume_mounts or ():
            if mount.mount_path.rstrip("/") == path:
                return mount
        return None


class EmptyDir(Fields):
    """An ``emptyDir`` volume source."""

    medium: str | None = None
    size_limit: Quantity | None = None


class Volume(Fields):
    """A volume; sources other than ``emptyDir`` are not looked at."""

    name: str
    empty_dir: EmptyDir | None = None


class PodAffinity(Fields):
    """The two lists of terms of ``affinity.podAffinity``; the terms stay as they are."""

    required: list[dict[str, Any]] | None = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )
    preferred: list[dict[str, Any]] | None = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=None
    )


class Affinity(Fields):
    """``affinity``, as far as pods attract each other."""

    pod_affinity: PodAffinity | None = None


class PodSpec(Fields):
    """``spec``."""

    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    volumes: list[Volume] | None = None
    affinity: Affinity | None = None
    host_ipc: bool | None = msgspec.field(name="hostIPC", default=None)
    host_pid: bool | None = msgspec.field(name="hostPID", default=None)
    host_network: bool | None = None
    share_process_namespace: bool | None = None
    dns_policy: str | None = None
    runtime_class_name: str | None = None


class Metadata(Fields):
    """``metadata``."""

    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class Pod(Fields):
    """A pod, or the template of one."""

    metadata: Metadata | None = None
    spec: PodSpec | None = None

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations, empty if there are none."""
        return (self.metadata.annotations if self.metadata else None) or {}

    @property
    def labels(self) -> dict[str, str]:
        """The labels, empty if there are none."""
        return (self.metadata.labels if self.metadata else None) or {}

    @property
    def display_name(self) -> str:
        """The name, or what it will begin with: the API server names generated pods after admission."""
        metadata = self.metadata or Metadata()
        return metadata.name or f"{metadata.generate_name or ''}*"


class Namespace(msgspec.Struct, frozen=True):
    """What an administrator said about a namespace."""

    name: str
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    known: bool = True
    """Whether somebody looked it up successfully; nothing can be said about pods of an unknown namespace."""

    def allows(self, permission: str) -> bool:
        """Whether the permission label ``permission`` is set."""
        return self.labels.get(permission) == "true"

    @property
    def injection_enabled(self) -> bool:
        """Whether the namespace has opted in."""
        return self.labels.get(names.INJECTION) == "enabled"


def annotation_path(key: str) -> str:
    """The downward-API path of an annotation."""
    return f"metadata.annotations['{key}']"
