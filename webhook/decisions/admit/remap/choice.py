"""The choice of a pod's remap container: its kind, its volume, and the container that is one already.

The choice is made before the first step; ``steps/remap.py`` writes it, in the form of ``container.py``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from webhook.decisions.admit.container import PodContainer
from webhook.decisions.admit.volumes import empty_dir_name
from webhook.decisions.claims.pod import is_remap_container
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
    """The container with all its fields."""


class RemapChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The decision about the remap container of a pod."""

    carrier: Carrier
    """The kind of the remap container; never ``auto``."""
    existing: ExistingRemapContainer | None = None
    files_volume: str = ""
    """The volume that the remap program writes to; empty without a remap container."""
    reads_file: bool = False
    """Whether containers take values from the env file in that volume, not from annotations."""

    @property
    def is_added(self) -> bool:
        """True if the pod has a remap container once it is admitted."""
        return self.carrier is not Carrier.NONE

    @property
    def container(self) -> PodContainer | None:
        """The container that an earlier admission has added, if there is one."""
        return self.existing.container if self.existing else None

    def without_it(self, containers: Sequence[PodContainer]) -> list[PodContainer]:
        """Returns ``containers`` without the remap container."""
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
    """Returns the decision about the remap container of a pod.

    Args:
        spec: The spec of the pod.
        namespace: The namespace of the pod.
        containers: All containers of the pod, init containers first.
        asked: The option ``remap``.
        policy: The configuration.
        cluster: The facts about the cluster.

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
    """Returns the kind of the remap container.

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
    """Returns the first init container with our name and our command."""
    for index, container in enumerate(containers):  # init containers come first, so ``index`` is that of the spec
        if is_remap_container(container.spec):
            if container.request:  # ours has none, and what follows from one would not hold in our form
                message = REMAP_CONTAINER_WITH_GPU.say(container=container.name)
                raise Refused(Reason.CONTRADICTS_PROFILE, message)
            return ExistingRemapContainer(container, spec.init_container_document(index))
    return None


def _choose_files_volume(volumes: Mapping[str, Volume], others: Sequence[PodContainer]) -> str:
    """Returns the name of the volume that the remap program writes to.

    No other container may write to it: ``NVIDIA_VISIBLE_DEVICES`` may come from a file there.
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
    """Returns whether containers take values from the env file.

    The permission to see every GPU of a node is needed for two reasons. The remap program computes the values from the
    real GPUs without knowing which are the pod's, so it has to see all of them. And a writer of the file chooses the
    GPUs that containers see. The file is not read where ``fileKeyRef`` is unknown: containers would get no value. It
    is not read either in a pod with containers that read annotations: the remap program verifies those only where
    nothing is read from the file.
    """
    if policy.remap.environment != "file" or not cluster.has_env_files:
        return False
    if not namespace.allows(names.ALLOW_NODE_GPUS):
        return False
    return not any(_reads_annotation(variable) for container in others for variable in container.env.values())


def _reads_annotation(variable: EnvVar) -> bool:
    """Returns whether a variable takes its value from an annotation that follows from the pod's GPUs."""
    key = annotation_of(variable)
    return key is not None and (key in _FOR_CONTAINERS or key.startswith(names.OUTPUT_PREFIXES))
