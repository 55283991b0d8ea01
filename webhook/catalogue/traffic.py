"""GT9: what GPUs really moved. Hints: nothing is refused, stopped or counted as failed because of them."""

from webhook.catalogue.entry import Entry

_PAGE = "observability.md#nvlink-that-seems-unused"
_FIX = (
    "See with NCCL_DEBUG=INFO whether NCCL says via P2P; where the GPUs have little to say to each other, set "
    'gpu.topology/expect-nvlink: "false"'
)

NVLINK_UNUSED = Entry(
    "GT900",
    "{gpus} are busy, moved {pcie} over PCIe in the last {minutes} min, and not one byte over NVLink since the first "
    "busy minute",
    _FIX,
    _PAGE,
)
NVLINK_HARDLY_USED = Entry(
    "GT901",
    "{gpus} are busy, moved {pcie} over PCIe in the last {minutes} min, and only {nvlink} over NVLink",
    _FIX,
    _PAGE,
)
