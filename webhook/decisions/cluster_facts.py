"""The facts about the cluster that decisions depend on."""

import msgspec

from webhook.words.version import Version

FIRST_KUBERNETES, FIRST_HAMI = Version(1, 28), Version(2, 5)
# HAMi 2.10.0 drops the usage of a pod whose init containers have finished when the first of them asks for no GPU,
# and so offers its cards to others: https://github.com/Project-HAMi/HAMi/issues/2899
FAULTY_INIT_CONTAINERS = Version(2, 10, 0)
# Before HAMi 2.10, from 2.7 on, the policy topology-aware binds a pod *without* GPUs to a node without pair scores,
# which is every node of a default install: computeBestCombination in pkg/device/nvidia/device.go wants a sum above 0.
TOPOLOGY_AWARE_SINCE = Version(2, 7)
SAFELY_TOPOLOGY_AWARE_SINCE = Version(2, 10)
SCHEDULER_NAMES_KEPT_SINCE = Version(2, 7)
CONTAINERS_TOLD_APART_SINCE = Version(2, 9)
PRIVILEGED_DENIED_SINCE = Version(2, 10)
NATIVE_SIDECARS_SINCE = Version(1, 29)
ENV_FILES_SINCE = Version(1, 35)


class ClusterFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The known facts about a cluster; a fact that is not known is ``None``."""

    hami: Version | None = None
    kubernetes: Version | None = None
    claimed: frozenset[str] | None = None
    """Extended resources that DeviceClasses serve: pods that request them get their devices by resource claims."""
    has_hami_dra: bool = False
    """There is a DeviceClass of HAMi's DRA driver."""
    lacks_hami: bool = False
    """It is known that HAMi serves no GPUs: there is no scheduler of its and no DeviceClass of its driver, and it has
    annotated no node, though nodes offer GPUs of a plain device plugin."""
    missing_runtime_classes: frozenset[str] = frozenset()
    """RuntimeClasses that the configuration or a pod names, and that are known not to exist."""
    has_planner: bool = False
    """A planner is alive that takes the scheduling gate off pods again: its Lease is fresh."""

    def overruled_by(self, configured: "ClusterFacts") -> "ClusterFacts":
        """Returns these facts, each replaced by that of ``configured`` where it has one."""
        if configured == _NOTHING:
            return self
        return ClusterFacts(
            hami=configured.hami or self.hami,
            kubernetes=configured.kubernetes or self.kubernetes,
            claimed=self.claimed if configured.claimed is None else configured.claimed,
            has_hami_dra=configured.has_hami_dra or self.has_hami_dra,
            lacks_hami=self.lacks_hami and configured.hami is None and configured.claimed is None,
            missing_runtime_classes=configured.missing_runtime_classes | self.missing_runtime_classes,
            has_planner=configured.has_planner or self.has_planner,
        )

    def is_claimed(self, resource: str) -> bool:
        """Returns whether pods that request this extended resource are known to get resource claims."""
        return self.claimed is not None and resource in self.claimed

    def is_plain(self, resource: str) -> bool:
        """Returns whether a plain device plugin is known to serve a resource of HAMi's, and nothing else does."""
        return self.lacks_hami and self.hami is None and not self.has_hami_dra and not self.is_claimed(resource)

    def is_preloaded(self, resource: str) -> bool:
        """Returns whether HAMi's DRA driver serves a resource: the driver preloads HAMi's library into every container.

        cmd/hami-kubelet-plugin/hami_core.go of Project-HAMi/k8s-dra-driver mounts /etc/ld.so.preload without a
        look at ``CUDA_DISABLE_CONTROL``.
        """
        return self.has_hami_dra and self.is_claimed(resource)

    @property
    def has_init_container_fault(self) -> bool:
        """True if an init container without GPUs makes HAMi give the pod's cards away."""
        return self.hami == FAULTY_INIT_CONTAINERS

    @property
    def is_safely_topology_aware(self) -> bool:
        """True if HAMi's scheduler policy ``topology-aware`` also works on nodes without pair scores."""
        return self.hami is not None and self.hami >= SAFELY_TOPOLOGY_AWARE_SINCE

    @property
    def has_topology_aware_fault(self) -> bool:
        """True if the scheduler policy ``topology-aware`` gives no GPUs where there are no pair scores."""
        return self.hami is not None and TOPOLOGY_AWARE_SINCE <= self.hami < SAFELY_TOPOLOGY_AWARE_SINCE

    @property
    def keeps_scheduler_names(self) -> bool:
        """True if HAMi's webhook leaves pods alone that name another scheduler, as all versions since 2.7 do."""
        return self.hami is None or self.hami >= SCHEDULER_NAMES_KEPT_SINCE

    @property
    def tells_containers_apart(self) -> bool:
        """True if the device plugin looks for ``CUDA_DISABLE_CONTROL`` on the very container that it serves."""
        return self.hami is not None and self.hami >= CONTAINERS_TOLD_APART_SINCE and not self.has_init_container_fault

    @property
    def serves_init_containers(self) -> bool:
        """True if HAMi schedules GPUs that init containers ask for."""
        return self.hami is None or self.hami >= CONTAINERS_TOLD_APART_SINCE

    @property
    def denies_privileged(self) -> bool:
        """True if HAMi's webhook refuses GPU pods with a privileged container."""
        return self.hami is not None and self.hami >= PRIVILEGED_DENIED_SINCE

    @property
    def has_native_sidecars(self) -> bool:
        """True if Kubernetes runs restartable init containers."""
        return self.kubernetes is not None and self.kubernetes >= NATIVE_SIDECARS_SINCE

    @property
    def has_env_files(self) -> bool:
        """True if Kubernetes reads variables from files of the format that we write: by default since 1.35."""
        return self.kubernetes is not None and self.kubernetes >= ENV_FILES_SINCE


_NOTHING = ClusterFacts()
