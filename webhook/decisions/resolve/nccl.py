"""The values of NCCL's variables that depend on how GPUs are linked.

``NCCL_P2P_LEVEL`` is the greatest distance at which GPUs reach each other directly. NCCL's default depends on the
machine and on NCCL's version, so it stays unless the configuration names a level. ``NCCL_NVLS_ENABLE`` is NVLink SHARP,
which needs NVSwitches and compute capability 9.0. Sources, with lines and versions: docs/nccl.md.
"""

from collections.abc import Sequence

from webhook.decisions.resolve.demand import LINK_TABLES, NVLINK, NVSWITCH, PCIE, GpuDemand, NcclTables
from webhook.decisions.resolve.node import KnownNode
from webhook.hardware.topology.sets import GpuSet, LinkClass
from webhook.words import names
from webhook.words.choices import Profile

P2P_DEFAULT = "auto"
"""A word that no version of NCCL knows as a level: NCCL's default stays in force (src/graph/paths.cc, ncclGetLevel)."""
NVLS_DEFAULT, NVLS_OFF = "2", "0"
Values = tuple[tuple[str, str], ...]
"""Variables with their values."""
_TABLES = {LinkClass.NVSWITCH: NVSWITCH, LinkClass.NVLINK: NVLINK}


def nccl_values(sets: Sequence[GpuSet], node: KnownNode, demand: GpuDemand) -> Values:
    """Returns the variables of a pod with these sets of GPUs: the values that fit the worst set fit all sets.

    If it is not known how the GPUs are linked, the values are those that hold until bind.
    """
    tables = demand.nccl
    table = _link_table(sets, node)
    if table is None:
        return nccl_defaults(tables, nvls=nvls_until_bind(demand.profile, host_network=demand.host_network))
    own = tuple((name, values[table]) for name, values in tables.complete.items())
    level = tables.variables.get(names.ENV_NCCL_P2P_LEVEL, {}).get(table, P2P_DEFAULT)
    return ((names.ENV_NCCL_P2P_LEVEL, level), (names.ENV_NCCL_NVLS_ENABLE, _nvls(sets, node, demand, table)), *own)


def nccl_defaults(tables: NcclTables, *, nvls: str = NVLS_DEFAULT) -> Values:
    """Returns the variables of a pod whose GPUs are not known: NCCL's own defaults, and those of the ``pcie`` table."""
    own = tuple((name, values[PCIE]) for name, values in tables.complete.items())
    return ((names.ENV_NCCL_P2P_LEVEL, P2P_DEFAULT), (names.ENV_NCCL_NVLS_ENABLE, nvls), *own)


def nccl_file_values(sets: Sequence[GpuSet], node: KnownNode, tables: NcclTables) -> Values:
    """Returns the variables of NCCL's configuration file; none where it is not known how GPUs are linked."""
    partial = tables.partial
    table = _link_table(sets, node) if partial else None
    return tuple((name, values[table]) for name, values in partial.items() if table is not None and table in values)


def nvls_until_bind(profile: Profile, *, host_network: bool) -> str:
    """Returns ``NCCL_NVLS_ENABLE`` of a pod whose GPUs are not known."""
    return NVLS_OFF if splits_nvls(profile, host_network=host_network) else NVLS_DEFAULT


def splits_nvls(profile: Profile, *, host_network: bool) -> bool:
    """Returns whether NCCL would set NVLink SHARP up between network namespaces, which ends with an error.

    NCCL hands the multicast memory to the other ranks of the node over a socket of the network namespace, whatever
    ``NCCL_CUMEM_ENABLE`` says, and has no fallback (src/transport/nvls.cc, ncclNvlsGroupConnect).
    """
    return profile is Profile.NODE_PEERS and not host_network


def _link_table(sets: Sequence[GpuSet], node: KnownNode) -> str | None:
    """Returns the table of the configuration for these sets; ``None`` where it is not known how GPUs are linked."""
    if any(map(node.doubt, sets)):
        return None
    return max((_table(gpu_set, node) for gpu_set in sets), key=LINK_TABLES.index)


def _table(gpu_set: GpuSet, node: KnownNode) -> str:
    if gpu_set.link is LinkClass.SINGLE:
        # A single GPU has no pair, but the ranks of other pods or nodes that it works with have GPUs of its kind.
        return NVSWITCH if node.switched.issuperset(gpu_set.gpus) else PCIE
    return _TABLES.get(gpu_set.link, PCIE)


def _nvls(sets: Sequence[GpuSet], node: KnownNode, demand: GpuDemand, table: str) -> str:
    if splits_nvls(demand.profile, host_network=demand.host_network):
        return NVLS_OFF
    configured = demand.nccl.variables.get(names.ENV_NCCL_NVLS_ENABLE, {}).get(table)
    capable = table == NVSWITCH and all(node.with_nvls.issuperset(gpu_set.gpus) for gpu_set in sets)
    return configured or (NVLS_DEFAULT if capable and node.is_fabric_ready else NVLS_OFF)
