"""What every injection step looks at: the pod and everything that was decided about it before the first step runs."""

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import msgspec

from webhook.admit.container import PodContainer
from webhook.admit.request import ContainerRequest, GpuRequest
from webhook.admit.volumes import empty_dir_name
from webhook.config import AdmitPolicy
from webhook.model import names
from webhook.model.choices import Carrier, Profile
from webhook.model.cluster import ClusterFacts
from webhook.model.errors import shorten
from webhook.model.options import Options
from webhook.model.outcome import Reason, Refused
from webhook.model.pod import EnvVar, Namespace, Pod, PodSpec, Reference, Volume, annotation_reference, may_contain
from webhook.model.references import annotation_of, visible_devices_key

FILES_SIZE = "8Mi"
_FILES_VOLUME = (f'"{names.FILES_VOLUME}'.encode(),)

_FOR_CONTAINERS = frozenset({names.VISIBLE_UUIDS, names.NCCL_P2P_LEVEL, names.NCCL_NVLS})


class HostNamespaces(msgspec.Struct, frozen=True):
    """Which of the host's namespaces the pod will be in, and which of them we put it into."""

    ipc: bool
    pid: bool
    network: bool
    ours: tuple[str, ...]
    """The spec fields that the profile or an option asks for, whether or not the pod has them already."""
    withheld: tuple[str, ...]
    """The spec fields that the profile needs and the pod refuses."""


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """One pod on its way through the steps."""

    pod: Pod
    spec: PodSpec
    namespace: Namespace
    policy: AdmitPolicy
    cluster: ClusterFacts
    options: Options
    profile: Profile
    """Never ``observe``: that is decided by whoever runs the steps."""
    containers: list[PodContainer]
    """All of them, init containers first."""
    gpu_containers: list[PodContainer]
    """Those that ask for GPUs and that ``containers`` does not leave out."""
    left_out: list[PodContainer]
    """Those that ask for GPUs and stay as they are."""
    carrier: Carrier
    """Never ``auto``."""
    host: HostNamespaces
    volumes: dict[str, Volume]
    """The pod's volumes by name."""
    visible_device_keys: dict[str, str]
    """The ``cuda-visible-devices`` annotation of each GPU container, by container name; empty without peers."""
    files_volume: str
    """The volume that the remap program writes to; empty with carrier ``binding``."""
    reads_file: bool
    """Whether containers take values from the file there, not from annotations."""
    allocated: Mapping[str, str]
    """What the annotations that we write will say, for a pod whose GPUs are known already; else empty."""
    family: str
    """Whose resources the pod asks for: ``hami``, ``volcano`` or ``koordinator``."""
    remap_container: PodContainer | None
    """Ours, from an earlier admission."""
    remap_document: dict[str, Any]
    """The same with all its fields."""

    @property
    def name(self) -> str:
        """How messages call the pod."""
        return f"{self.namespace.name}/{self.pod.display_name}"

    def sources(self, key: str, line: str) -> tuple[Reference, ...]:
        """Where containers may take a value from that follows from their GPUs; the first is what we write."""
        annotation = annotation_reference(key)
        if not self.files_volume or not self.namespace.allows(names.ALLOW_NODE_GPUS):
            return (annotation,)
        in_file = Reference(volume=self.files_volume, line=line)
        return (in_file, annotation) if self.reads_file else (annotation, in_file)

    def gpu_request(self, one: PodContainer) -> GpuRequest:
        """The request of a container of ``gpu_containers``, which has one by construction."""
        if one.request is None:
            raise TypeError(f"container {one.name} asks for no GPU")
        return one.request


def select_containers(containers: list[ContainerRequest], options: Options, pod: Pod, namespace: Namespace) -> set[str]:
    """The names of the containers that ask for GPUs, without those that the option ``containers`` leaves out.

    Raises:
        Refused: the pod's own option names something that is no GPU container.
    """
    asking = {one.name for one in containers if one.request}
    wanted = options.containers
    if wanted is None:
        return asking
    if names.CONTAINERS in pod.annotations and not asking.issuperset(wanted):
        unknown = [name for name in wanted if name not in asking]
        raise Refused(
            Reason.UNKNOWN_CONTAINER,
            f"annotation {names.CONTAINERS} on pod {namespace.name}/{pod.display_name}: "
            f"expected names of containers that ask for GPUs ({', '.join(sorted(asking))}), "
            f"found {shorten(', '.join(unknown))}",
        )
    return asking.intersection(wanted)


def assign_visible_devices(gpu_containers: list[PodContainer]) -> dict[str, str]:
    """The ``cuda-visible-devices`` annotation of each container, by container name.

    A container that already refers to one keeps it, so that a second admission changes nothing; the others get the
    lowest free numbers in order.
    """
    kept: dict[str, str] = {}
    taken: set[str] = set()
    for one in gpu_containers:
        key = visible_devices_key(one.env.get(names.ENV_CUDA_VISIBLE_DEVICES))
        if key and key not in taken:
            kept[one.name] = key
            taken.add(key)
    numbered = (f"{names.CUDA_VISIBLE_DEVICES_PREFIX}{k}" for k in count())
    free = (key for key in numbered if key not in taken)
    return {one.name: kept.get(one.name) or next(free) for one in gpu_containers}


def choose_host_namespaces(spec: PodSpec, options: Options, profile: Profile) -> HostNamespaces:
    """What the profile needs and the options ask for, beside what the pod has."""
    needed = profile is Profile.NODE_PEERS
    ours: list[str] = []
    withheld: list[str] = []
    for field, asked, by_profile in (
        ("hostIPC", options.host_ipc, needed),
        ("hostPID", options.host_pid, needed),
        ("hostNetwork", options.host_network, False),
    ):
        if asked or (by_profile and asked is None):
            ours.append(field)
        elif by_profile:
            withheld.append(field)
    return HostNamespaces(
        ipc="hostIPC" in ours or bool(spec.host_ipc),
        pid="hostPID" in ours or bool(spec.host_pid),
        network="hostNetwork" in ours or bool(spec.host_network),
        ours=tuple(ours),
        withheld=tuple(withheld),
    )


def choose_carrier(asked: Carrier, cluster: ClusterFacts) -> Carrier:
    """The carrier of the remap program.

    Raises:
        Refused: a sidecar was asked for where Kubernetes has none.
    """
    no_sidecars = cluster.kubernetes is not None and not cluster.has_native_sidecars
    if asked is Carrier.SIDECAR and no_sidecars:
        raise Refused(
            Reason.CARRIER_UNAVAILABLE,
            f"{names.PREFIX}remap: sidecar needs Kubernetes 1.29 or later, this is {cluster.kubernetes}. Use auto",
        )
    if asked is not Carrier.AUTO:
        return asked
    if cluster.hami is not None and not cluster.has_init_container_fault:
        return Carrier.INIT
    return Carrier.SIDECAR if cluster.has_native_sidecars else Carrier.BINDING


def choose_files_volume(
    volumes: dict[str, Volume], carrier: Carrier, containers: Sequence[PodContainer], ours: PodContainer | None
) -> str:
    """The volume that the remap program writes to; empty where there is no such program.

    A volume that another container can write to is not taken: ``NVIDIA_VISIBLE_DEVICES`` may come from a file there.
    """
    if carrier is Carrier.BINDING:
        return ""
    foreign = {
        mount.name
        for one in containers
        if one is not ours and may_contain(one.container.mounts_json, _FILES_VOLUME)
        for mount in one.container.volume_mounts or ()
        if not mount.read_only
    }
    return empty_dir_name(volumes, names.FILES_VOLUME, size_limit=FILES_SIZE, foreign=foreign)


def reads_file(
    policy: AdmitPolicy,
    cluster: ClusterFacts,
    namespace: Namespace,
    containers: Sequence[PodContainer],
    ours: PodContainer | None,
) -> bool:
    """Whether containers are to take values from the env file.

    The remap program works the values out from the real GPUs before anybody has told it which are the pod's, so it has
    to see all of them; and whoever can write the file chooses what the containers see. Both need the permission to see
    every GPU of a node. Not where ``fileKeyRef`` is unknown: containers would get no value. Nor in a pod with
    containers that read annotations: the remap program verifies those only where nothing is read from the file.
    """
    if policy.remap.environment != "file" or not cluster.has_env_files:
        return False
    if not namespace.allows(names.ALLOW_NODE_GPUS):
        return False
    others = (one for one in containers if one is not ours)
    return not any(_reads_annotation(variable) for one in others for variable in one.env.values())


def _reads_annotation(variable: EnvVar) -> bool:
    """Whether a variable takes a value from an annotation that follows from the pod's GPUs."""
    key = annotation_of(variable)
    return key is not None and (key in _FOR_CONTAINERS or key.startswith(names.OUTPUT_PREFIXES))
