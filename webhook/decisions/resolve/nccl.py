"""The values of NCCL's variables that depend on how GPUs are linked.

``NCCL_P2P_LEVEL`` is how far apart GPUs may be to reach each other directly. NCCL's default depends on the machine and
on NCCL's version, so it stays unless the configuration names a level. ``NCCL_NVLS_ENABLE`` is NVLink SHARP, which needs
NVSwitches and compute capability 9.0. Sources, with lines and versions: docs/nccl.md.
"""

from collections.abc import Sequence

from webhook.decisions.resolve.demand import LINK_TABLES, NVLINK, NVSWITCH, PCIE, GpuDemand, NcclTables
from webhook.decisions.resolve.node import KnownNode
from webhook.hardware.topology.sets import GpuSet, LinkClass
from webhook.words import names
from webhook.words.choices import Profile

P2P_DEFAULT = "auto"
"""No level that any NCCL knows: it leaves the default in force (src/graph/paths.cc, ncclGetLevel)."""
NVLS_DEFAULT, NVLS_OFF = "2", "0"
Values = tuple[tuple[str, str], ...]
"""Variables with their values."""
_TABLES = {LinkClass.NVSWITCH: NVSWITCH, LinkClass.NVLINK: NVLINK}


def nccl_values(sets: Sequence[GpuSet], node: KnownNode, demand: GpuDemand) -> Values:
    """The variables of a pod with these sets of GPUs: what fits the worst of them fits all.

    Where it is not known how they are linked, the values that hold until bind.
    """
    tables = demand.nccl
    table = _link_table(sets, node)
    if table is None:
        return nccl_defaults(tables, nvls=nvls_until_bind(demand.profile, host_network=demand.host_network))
    own = tuple((name, values[table]) for name, values in tables.complete.items())
    level = tables.variables.get(names.ENV_NCCL_P2P_LEVEL, {}).get(table, P2P_DEFAULT)
    return ((names.ENV_NCCL_P2P_LEVEL, level), (names.ENV_NCCL_NVLS_ENABLE, _nvls(sets, node, demand, table)), *own)


def nccl_defaults(tables: NcclTables, *, nvls: str = NVLS_DEFAULT) -> Values:
    """The variables of a pod of whose GPUs nothing is known: NCCL's own defaults, and those of the ``pcie`` table."""
    own = tuple((name, values[PCIE]) for name, values in tables.complete.items())
    return ((names.ENV_NCCL_P2P_LEVEL, P2P_DEFAULT), (names.ENV_NCCL_NVLS_ENABLE, nvls), *own)


def nccl_file_values(sets: Sequence[GpuSet], node: KnownNode, tables: NcclTables) -> Values:
    """The variables that NCCL reads from its configuration file; none where it is not known how GPUs are linked."""
    partial = tables.partial
    table = _link_table(sets, node) if partial else None
    return tuple((name, values[table]) for name, values in partial.items() if table is not None and table in values)


def nvls_until_bind(profile: Profile, *, host_network: bool) -> str:
    """``NCCL_NVLS_ENABLE`` of a pod of whose GPUs nothing is known."""
    return NVLS_OFF if splits_nvls(profile, host_network=host_network) else NVLS_DEFAULT


def splits_nvls(profile: Profile, *, host_network: bool) -> bool:
    """Whether NCCL would set NVLink SHARP up between network namespaces, which ends with an error.

    It hands the multicast memory to the other ranks of the node over a socket of the network namespace, whatever
    ``NCCL_CUMEM_ENABLE`` says, and has no way back (src/transport/nvls.cc, ncclNvlsGroupConnect).
    """
    return profile is Profile.NODE_PEERS and not host_network


def _link_table(sets: Sequence[GpuSet], node: KnownNode) -> str | None:
    """The table of the configuration that holds for these sets; ``None`` where it is not known how GPUs are linked."""
    if any(map(node.doubt, sets)):
        return None
    return max((_table(gpu_set, node) for gpu_set in sets), key=LINK_TABLES.index)


def _table(gpu_set: GpuSet, node: KnownNode) -> str:
    if gpu_set.link is LinkClass.SINGLE:
        # It has no pair, but the ranks of other pods or nodes that it works with are of its kind.
        return NVSWITCH if node.switched.issuperset(gpu_set.gpus) else PCIE
    return _TABLES.get(gpu_set.link, PCIE)


def _nvls(sets: Sequence[GpuSet], node: KnownNode, demand: GpuDemand, table: str) -> str:
    if splits_nvls(demand.profile, host_network=demand.host_network):
        return NVLS_OFF
    configured = demand.nccl.variables.get(names.ENV_NCCL_NVLS_ENABLE, {}).get(table)
    capable = table == NVSWITCH and all(node.with_nvls.issuperset(gpu_set.gpus) for gpu_set in sets)
    return configured or (NVLS_DEFAULT if capable else NVLS_OFF)
