"""The demand of a pod on its GPUs."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from webhook.decisions.allocation.claim import FAMILY as CLAIM
from webhook.words import names
from webhook.words.choices import OnViolation, Policy, Profile

NVSWITCH, NVLINK, PCIE = LINK_TABLES = ("nvswitch", "nvlink", "pcie")
"""The tables of NCCL variables in the configuration, one for each link class."""
DECIDED_VARIABLES = (names.ENV_NCCL_P2P_LEVEL, names.ENV_NCCL_NVLS_ENABLE)
"""The variables that every pod gets: where a table lacks one, the GPUs decide its value."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuContainer:
    """A container that asks for GPUs."""

    name: str
    count: int
    """The number of GPUs that it asks for."""
    is_init: bool = False
    """Whether it is an init container, restartable or not."""
    visible_key: str = ""
    """The annotation ``gpu.topology/cuda-visible-devices.<k>`` for its CUDA indices; empty if it has none."""
    selected: bool = True
    """Whether the profile applies to it: ``gpu.topology/containers`` leaves containers out."""
    sees_node: bool = False
    """Whether it sees all GPUs of the node whatever its list says, because it is privileged."""
    keeps_gpus: bool = True
    """Whether its GPUs are the pod's for as long as the pod exists. HAMi gives the GPUs of an init container that is
    not restartable to other pods once the container has finished (HAMi 2.10.0 pkg/device/initContainer.go)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NcclTables:
    """The configuration's NCCL values that depend on the link class."""

    variables: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The values by variable, then by link class: ``nvswitch``, ``nvlink`` and ``pcie``, or some of them."""

    @property
    def complete(self) -> Mapping[str, Mapping[str, str]]:
        """The variables with a value for each class. Containers can refer to them: a reference cannot be left unset."""
        return {name: values for name, values in self._free.items() if len(values) == len(LINK_TABLES)}

    @property
    def partial(self) -> Mapping[str, Mapping[str, str]]:
        """The variables without a value for some class: only NCCL's configuration file can leave a variable out."""
        return {name: values for name, values in self._free.items() if len(values) < len(LINK_TABLES)}

    @property
    def _free(self) -> Mapping[str, Mapping[str, str]]:
        return {name: values for name, values in self.variables.items() if name not in DECIDED_VARIABLES}


@dataclass(frozen=True, kw_only=True, slots=True)
class Requirements:
    """The requirements that every set of GPUs must meet."""

    nvlink: bool = False
    """Whether every pair must have NVLink."""
    min_bandwidth: float | None = None
    """GB/s per direction of the weakest pair."""
    policy: Policy = Policy.BEST_EFFORT
    """``nvlink``: every pair has NVLink; ``single-numa``: all are on one NUMA node. Other policies require nothing."""

    @property
    def of_links(self) -> bool:
        """True if a requirement is about how GPUs are linked."""
        return self.every_pair_linked or self.min_bandwidth is not None

    @property
    def every_pair_linked(self) -> bool:
        """True if every pair must have NVLink, by either option."""
        return self.nvlink or self.policy is Policy.NVLINK

    @property
    def one_numa_node(self) -> bool:
        """True if all GPUs of a set must be on one NUMA node."""
        return self.policy is Policy.SINGLE_NUMA

    @property
    def of_policy(self) -> bool:
        """True if the policy requires anything."""
        return self.policy in (Policy.NVLINK, Policy.SINGLE_NUMA)

    def __bool__(self) -> bool:
        return self.of_links or self.one_numa_node


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuDemand:
    """The demand of one pod on its GPUs."""

    profile: Profile
    """The profile; for an observed pod the profile below ``observe``."""
    containers: tuple[GpuContainer, ...]
    """All containers that ask for GPUs, init containers first: the order in which the device plugin serves them."""
    family: str = "hami"
    """The family of its GPUs: ``hami``, ``volcano`` or ``koordinator``; ``claim`` where resource claims give them."""
    requirements: Requirements = Requirements()
    on_violation: OnViolation = OnViolation.WARN
    """The consequence for the pod of a requirement that is not met."""
    group: str | None = None
    """The group of pods with which it works; the program in the pod does not know it."""
    nccl: NcclTables = NcclTables()
    host_network: bool = False
    """Whether the pod is in the network namespace of its node."""

    @property
    def sees_others(self) -> bool:
        """True if its containers see GPUs beside their own, and so need the numbers of their own.

        A container with a claim sees only the devices of its claims, whatever its profile: CDI shows it those
        (dra-driver-nvidia-gpu, cmd/gpu-kubelet-plugin/cdi.go).
        """
        return self.profile.shares_gpus and self.family != CLAIM

    @property
    def sees_node(self) -> bool:
        """True if its containers see all GPUs of the node."""
        return self.sees_others and self.profile is Profile.NODE_PEERS


def format_tables(tables: NcclTables) -> str:
    """Returns the tables as JSON, for the remap program."""
    return json.dumps({"variables": tables.variables}, separators=(",", ":"), sort_keys=True)
