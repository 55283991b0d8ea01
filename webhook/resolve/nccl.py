"""The values of NCCL's variables that depend on how GPUs are linked.

``NCCL_P2P_LEVEL`` is how far apart GPUs may be to reach each other directly; ``NCCL_NVLS_ENABLE`` is NVLink SHARP,
which needs NVSwitches and compute capability 9.0. Sources: NCCL src/graph/paths.cc, src/transport/nvls.cc.
"""

from collections.abc import Sequence

from webhook.model import names
from webhook.resolve.demand import NcclTables
from webhook.resolve.node import KnownNode
from webhook.topology.sets import GpuSet, LinkClass

P2P_DEFAULT = "PXB"
NVLS_DEFAULT, NVLS_OFF = "2", "0"
NVSWITCH, NVLINK, PCIE = "nvswitch", "nvlink", "pcie"
"""The tables of the configuration."""
_TABLES = {LinkClass.NVSWITCH: NVSWITCH, LinkClass.NVLINK: NVLINK}


def nccl_values(sets: Sequence[GpuSet], node: KnownNode, tables: NcclTables) -> tuple[tuple[str, str], ...]:
    """The variables of a pod with these sets of GPUs: what fits the worst of them fits all.

    Where it is not known how they are linked, NCCL's own defaults, as until bind.
    """
    if any(map(node.doubt, sets)):
        return nccl_defaults(tables)
    table = max([_table(one, node) for one in sets], key=(NVSWITCH, NVLINK, PCIE).index)
    own = [(name, values[table]) for name, values in tables.variables.items()]
    return (
        (names.ENV_NCCL_P2P_LEVEL, _p2p_level(sets, table, tables)),
        (names.ENV_NCCL_NVLS_ENABLE, _nvls(sets, node, table)),
        *own,
    )


def nccl_defaults(tables: NcclTables) -> tuple[tuple[str, str], ...]:
    """The variables of a pod of whose GPUs nothing is known: NCCL's own defaults (src/graph/paths.cc)."""
    own = tuple((name, values[PCIE]) for name, values in tables.variables.items())
    return ((names.ENV_NCCL_P2P_LEVEL, P2P_DEFAULT), (names.ENV_NCCL_NVLS_ENABLE, NVLS_DEFAULT), *own)


def _table(one: GpuSet, node: KnownNode) -> str:
    if one.link is LinkClass.SINGLE:
        # It has no pair, but the ranks of other pods or nodes that it works with are of its kind.
        return NVSWITCH if node.switched.issuperset(one.gpus) else PCIE
    return _TABLES.get(one.link, PCIE)


def _p2p_level(sets: Sequence[GpuSet], table: str, tables: NcclTables) -> str:
    if table != PCIE:
        return "NVL"
    if any(one.link in (LinkClass.PARTIAL, LinkClass.NVLINK, LinkClass.NVSWITCH) for one in sets):
        return P2P_DEFAULT  # some pairs have NVLink
    return tables.pcie_p2p_level


def _nvls(sets: Sequence[GpuSet], node: KnownNode, table: str) -> str:
    capable = table == NVSWITCH and all(node.with_nvls.issuperset(one.gpus) for one in sets)
    return NVLS_DEFAULT if capable else NVLS_OFF
