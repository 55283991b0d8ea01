"""Whether a pod gets a remap container and of which kind, its volume, and which container is one already.

All of it is decided before the first step; ``steps/remap.py`` writes it, in the form of ``container.py``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from webhook.decisions.admit.container import PodContainer
from webhook.decisions.admit.volumes import empty_dir_name
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.decisions.configuration import AdmitPolicy
from webhook.objects.pod import EnvVar, Namespace, PodSpec, Volume, may_contain
from webhook.objects.references import annotation_of
from webhook.words import names
from webhook.words.catalogue.installation import NO_SIDECARS, REMAP_CONTAINER_WITH_GPU
from webhook.words.choices import Carrier
from webhook.words.outcome import Reason, Refused

FILES_SIZE = "8Mi"
_FILES_VOLUME = (f'"{names.FILES_VOLUME}'.encode(),)
_FOR_CONTAINERS = frozenset({names.VISIBLE_UUIDS, names.NCCL_P2P_LEVEL, names.NCCL_NVLS})


class ExistingRemapContainer(msgspec.Struct, frozen=True):
    """The remap container that an earlier admission has added to the pod."""

    container: PodContainer
    document: dict[str, Any]
    """The same with all its fields."""


class RemapChoice(msgspec.Struct, frozen=True, kw_only=True):
    """What is decided about the remap container of a pod."""

    carrier: Carrier
    """Never ``auto``."""
    existing: ExistingRemapContainer | None = None
    files_volume: str = ""
    """The volume that the remap program writes to; empty without a remap container."""
    reads_file: bool = False
    """Whether containers take values from the file there, not from annotations."""

    @property
    def is_added(self) -> bool:
        """Whether the pod has a remap container once it is admitted."""
        return self.carrier is not Carrier.NONE

    @property
    def container(self) -> PodContainer | None:
        """The container that an earlier admission has added, if there is one."""
        return self.existing.container if self.existing else None

    def without_it(self, containers: Sequence[PodContainer]) -> list[PodContainer]:
        """Those of ``containers`` that are the user's."""
        own = self.container
        return [container for container in containers if container is not own]


def choose_remap(
    spec: PodSpec,
    namespace: Namespace,
    containers: Sequence[PodContainer],
    asked: Carrier,
    policy: AdmitPolicy,
    cluster: ClusterFacts,
) -> RemapChoice:
    """What is to be done about the remap container of a pod.

    Args:
        spec: Of the pod.
        namespace: Of the pod.
        containers: All of the pod, init containers first.
        asked: The option ``remap``.
        policy: The configuration.
        cluster: What is known of the cluster.

    Raises:
        Refused: the option cannot be met, or the pod's remap container requests GPUs.
        MalformedPod: a field has another type than in a pod.
    """
    carrier = choose_carrier(asked, cluster)
    if carrier is Carrier.NONE:
        return RemapChoice(carrier=carrier)
    existing = _find_existing(containers, spec)
    choice = RemapChoice(carrier=carrier, existing=existing)
    others = choice.without_it(containers)
    volumes = {volume.name: volume for volume in spec.volumes or ()}
    return RemapChoice(
        carrier=carrier,
        existing=existing,
        files_volume=_choose_files_volume(volumes, others),
        reads_file=_reads_file(policy, cluster, namespace, others),
    )


def choose_carrier(asked: Carrier, cluster: ClusterFacts) -> Carrier:
    """The kind of the remap container.

    Raises:
        Refused: a sidecar was asked for where Kubernetes has none.
    """
    no_sidecars = cluster.kubernetes is not None and not cluster.has_native_sidecars
    if asked is Carrier.SIDECAR and no_sidecars:
        raise Refused(Reason.CARRIER_UNAVAILABLE, NO_SIDECARS.say(kubernetes=cluster.kubernetes))
    if asked is not Carrier.AUTO:
        return asked
    if cluster.hami is not None and not cluster.has_init_container_fault:
        return Carrier.INIT
    return Carrier.SIDECAR if cluster.has_native_sidecars else Carrier.NONE


def _find_existing(containers: Sequence[PodContainer], spec: PodSpec) -> ExistingRemapContainer | None:
    """The first init container with our name and our command."""
    for index, container in enumerate(containers):  # init containers come first: their positions are those of the list
        if container.is_init and container.name.startswith(names.REMAP_CONTAINER):
            document = spec.init_container_document(index)
            if document.get("command") == list(names.REMAP_COMMAND):
                _refuse_gpus(container)
                return ExistingRemapContainer(container, document)
    return None


def _refuse_gpus(container: PodContainer) -> None:
    """Ours never asks for GPUs: what follows from such a request would not hold once it is brought to our form."""
    if container.request:
        raise Refused(Reason.CONTRADICTS_PROFILE, REMAP_CONTAINER_WITH_GPU.say(container=container.name))


def _choose_files_volume(volumes: Mapping[str, Volume], others: Sequence[PodContainer]) -> str:
    """The volume that the remap program writes to.

    A volume that another container can write to is not taken: ``NVIDIA_VISIBLE_DEVICES`` may come from a file there.
    """
    foreign = {
        mount.name
        for container in others
        if may_contain(container.spec.mounts_json, _FILES_VOLUME)
        for mount in container.spec.volume_mounts or ()
        if not mount.read_only
    }
    return empty_dir_name(volumes, names.FILES_VOLUME, size_limit=FILES_SIZE, foreign=foreign)


def _reads_file(
    policy: AdmitPolicy, cluster: ClusterFacts, namespace: Namespace, others: Sequence[PodContainer]
) -> bool:
    """Whether containers are to take values from the env file.

    The remap program works the values out from the real GPUs before anything has told it which are the pod's, so it
    has to see all of them; and whoever can write the file chooses what the containers see. Both need the permission to
    see every GPU of a node. Not where ``fileKeyRef`` is unknown: containers would get no value. Nor in a pod with
    containers that read annotations: the remap program verifies those only where nothing is read from the file.
    """
    if policy.remap.environment != "file" or not cluster.has_env_files:
        return False
    if not namespace.allows(names.ALLOW_NODE_GPUS):
        return False
    return not any(_reads_annotation(variable) for container in others for variable in container.env.values())


def _reads_annotation(variable: EnvVar) -> bool:
    """Whether a variable takes a value from an annotation that follows from the pod's GPUs."""
    key = annotation_of(variable)
    return key is not None and (key in _FOR_CONTAINERS or key.startswith(names.OUTPUT_PREFIXES))
