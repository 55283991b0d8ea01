"""GT9: the measured traffic of GPUs, which gives hints, and what NCCL's log says of its connections."""

from webhook.words.catalogue.entry import Entry

_PAGE = "observability.md#nvlink-that-seems-unused"
_FIX = (
    "See with NCCL_DEBUG=INFO whether NCCL says via P2P; where the GPUs have little to say to each other, set "
    'gpu.topology/expect-nvlink: "false"'
)

NVLINK_UNUSED = Entry(
    "GT900",
    "{gpus} are busy, moved {pcie} over PCIe in the last {minutes} min, and not one byte over NVLink",
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

_LOG = "explain.md#what-nccl-says"
_AGAIN = "create the pod again"
LOG_SHOWS_LOSS = Entry(
    "GT910",
    "NCCL does not use NVLink there: {ways}",
    "Look in the log for what keeps NCCL from P2P (set by environment, NCCL WARN, P2P is disabled), correct it, and "
    f"{_AGAIN}",
    _LOG,
)
LOG_SHOWS_SWITCH = Entry(
    "GT911",
    "NCCL does not use NVLink there: {ways}. It read {switch}",
    "Remove that variable where the process gets it (env, image, ConfigMap, command or program), and " + _AGAIN,
    _LOG,
)
LOG_SHOWS_ERROR = Entry(
    "GT912",
    "NCCL ended with an error: {error}",
    f"Correct what NCCL names, and {_AGAIN}",
    _LOG,
)
LOG_ENDS_IN_ERROR = Entry(
    "GT913",
    "the log shows NVLink, and then an error of CUDA: {error}",
    "Find out whether the job went on after the error, and give the log of a run without it",
    _LOG,
)
LOG_LINK_UNKNOWN = Entry(
    "GT914",
    "NCCL connected these GPUs, and whether NVLink links them is not known: {ways}",
    "Give the log of a run with NCCL_P2P_LEVEL=NVL, with which P2P goes over NVLink alone; or, for a pod that has its "
    "GPUs, the links of the node with --topology",
    _LOG,
)
LOG_INCOMPLETE = Entry(
    "GT915",
    "the log shows NVLink for {joined} of {gpus} of the pod",
    "Give the whole log of each container, from its first line on and after the first step of the job; every rank "
    "needs NCCL_DEBUG=INFO",
    _LOG,
)
LOG_WITHOUT_LINES = Entry(
    "GT916",
    "the log has no line of NCCL",
    f"Set NCCL_DEBUG=INFO in the container, {_AGAIN}, and give the log from its first line on",
    _LOG,
)
LOG_WITHOUT_BEGINNING = Entry(
    "GT917",
    "the log lacks the lines Init START and Init COMPLETE, by which NCCL names its GPUs",
    "Give the log from its first line on: kubectl logs without --tail and --since, and NCCL_DEBUG_SUBSYS with INIT",
    _LOG,
)
LOG_OF_ANOTHER_HOST = Entry(
    "GT918",
    "the log is of host {hosts}, and the host name of the pod is {host}",
    "Give the log of this pod, or explain the pod of the log",
    _LOG,
)
LOG_OF_OTHER_GPUS = Entry(
    "GT919",
    "the log names GPUs that the pod does not have, or more of them: {gpus}",
    "Give the log of this pod: one of the same name may have run before it",
    _LOG,
)
LOG_OF_SEVERAL_CONTAINERS = Entry(
    "GT920",
    "several processes of the log have one host, one number and one device, so its lines cannot be told apart",
    "Give the log of each container by itself: kubectl logs POD -c CONTAINER, with --nccl-log for each",
    _LOG,
)
LOG_WARNS = Entry("GT921", "NCCL warns: {warnings}", "Look whether the job needs what NCCL warns of", _LOG)
