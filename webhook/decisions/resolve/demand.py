"""What a pod demands of its GPUs."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from webhook.decisions.allocation.claim import FAMILY as CLAIM
from webhook.words import names
from webhook.words.choices import OnViolation, Policy, Profile

NVSWITCH, NVLINK, PCIE = LINK_TABLES = ("nvswitch", "nvlink", "pcie")
"""The tables of the configuration."""
DECIDED_VARIABLES = (names.ENV_NCCL_P2P_LEVEL, names.ENV_NCCL_NVLS_ENABLE)
"""Those that every pod gets: where a table has none of them, the GPUs decide."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuContainer:
    """A container that asks for GPUs."""

    name: str
    count: int
    """GPUs that it asks for."""
    is_init: bool = False
    """Whether it is an init container, restartable or not."""
    visible_key: str = ""
    """The annotation ``gpu.topology/cuda-visible-devices.<k>`` for its CUDA indices; empty if it has none."""
    selected: bool = True
    """Whether the profile applies to it: ``gpu.topology/containers`` leaves containers out."""
    sees_node: bool = False
    """Whether it sees all GPUs of the node whatever its list says, because it is privileged."""
    keeps_gpus: bool = True
    """Whether its GPUs are the pod's for as long as the pod exists. HAMi gives those of an init container that is not
    restartable to others once it has finished (HAMi 2.10.0 pkg/device/initContainer.go)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NcclTables:
    """The configuration's NCCL values that depend on the link class."""

    variables: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By variable, then by link class: ``nvswitch``, ``nvlink`` and ``pcie``, or some of them."""

    @property
    def complete(self) -> Mapping[str, Mapping[str, str]]:
        """Those with a value for each class, which containers can refer to: a reference is never left unset."""
        return {name: values for name, values in self._free.items() if len(values) == len(LINK_TABLES)}

    @property
    def partial(self) -> Mapping[str, Mapping[str, str]]:
        """Those without a value for some class: only NCCL's configuration file can leave a variable out."""
        return {name: values for name, values in self._free.items() if len(values) < len(LINK_TABLES)}

    @property
    def _free(self) -> Mapping[str, Mapping[str, str]]:
        return {name: values for name, values in self.variables.items() if name not in DECIDED_VARIABLES}


@dataclass(frozen=True, kw_only=True, slots=True)
class Requirements:
    """What every set of GPUs must fulfil."""

    nvlink: bool = False
    """Every pair has NVLink."""
    min_bandwidth: float | None = None
    """GB/s per direction of the weakest pair."""
    policy: Policy = Policy.BEST_EFFORT
    """``nvlink``: every pair has NVLink; ``single-numa``: all are on one NUMA node. The others require nothing."""

    @property
    def of_links(self) -> bool:
        """Whether some of them are about how GPUs are linked."""
        return self.every_pair_linked or self.min_bandwidth is not None

    @property
    def every_pair_linked(self) -> bool:
        """Whether every pair must have NVLink, by whichever option."""
        return self.nvlink or self.policy is Policy.NVLINK

    @property
    def one_numa_node(self) -> bool:
        """Whether all GPUs of a set must be on one NUMA node."""
        return self.policy is Policy.SINGLE_NUMA

    @property
    def of_policy(self) -> bool:
        """Whether the policy requires anything."""
        return self.policy in (Policy.NVLINK, Policy.SINGLE_NUMA)

    def __bool__(self) -> bool:
        return self.of_links or self.one_numa_node


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuDemand:
    """All that one pod demands of its GPUs."""

    profile: Profile
    """Never ``observe``: the profile below it."""
    containers: tuple[GpuContainer, ...]
    """All that ask for GPUs, init containers first: the order in which the device plugin serves them."""
    family: str = "hami"
    """Who allocates its GPUs: ``hami``, ``volcano`` or ``koordinator``; ``claim`` where resource claims do."""
    requirements: Requirements = Requirements()
    on_violation: OnViolation = OnViolation.WARN
    """What becomes of the pod where a requirement is not met."""
    group: str | None = None
    """The group of pods with which it works; in the pod itself it is not known."""
    nccl: NcclTables = NcclTables()
    host_network: bool = False
    """Whether the pod is in the network namespace of its node."""

    @property
    def sees_others(self) -> bool:
        """Whether its containers see GPUs beside their own, and so have to be told the numbers of theirs.

        A container with a claim sees the devices of its claims and no others, whatever its profile: CDI shows it those
        (dra-driver-nvidia-gpu, cmd/gpu-kubelet-plugin/cdi.go).
        """
        return self.profile.shares_gpus and self.family != CLAIM

    @property
    def sees_node(self) -> bool:
        """Whether its containers see all GPUs of the node."""
        return self.sees_others and self.profile is Profile.NODE_PEERS


def format_tables(tables: NcclTables) -> str:
    """The tables as JSON, for the remap program."""
    return json.dumps({"variables": tables.variables}, separators=(",", ":"), sort_keys=True)
