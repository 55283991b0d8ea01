"""GT9: the measured traffic of GPUs. These are hints: they cause no refusal, no stop and no failure."""

from webhook.words.catalogue.entry import Entry

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

_MEASURED = "topology.md#publish-a-measurement"
MEASURED_WORSE = Entry(
    "GT902",
    "the verdict of the annotation gpu.topology/measured is {verdict}: {measured}",
    "See with gpu-topology verify in the pod which ways are slower, and look at the NVLink errors of their GPUs "
    "(nvidia-smi nvlink -e)",
    _MEASURED,
)
MEASURED_UNREADABLE = Entry(
    "GT903",
    "what was measured is not known: {problem}",
    "Publish it again with gpu-topology verify --publish, or remove the annotation",
    _MEASURED,
)
MEASURED_OTHERS = Entry(
    "GT904",
    "the annotation gpu.topology/measured of {at} tells of other GPUs than the pod has",
    "Remove it from the template of the pod",
    _MEASURED,
)
MEASURED_AS_EXPECTED = Entry(
    "GT905", "{fine} of {pairs} ways between {cards} GPUs are as fast as expected{slowest}", page=_MEASURED
)
MEASURED_BELOW_EXPECTED = Entry(
    "GT906",
    "only {fine} of {pairs} ways between {cards} GPUs are known to be as fast as expected{slowest}",
    "See with gpu-topology verify in the pod which ways are slower",
    _MEASURED,
)
