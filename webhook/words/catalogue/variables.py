"""GT4: variables of NCCL, UCX and CUDA in the containers of a pod."""

from webhook.words.catalogue.entry import Entry

_PAGE = "explain.md#the-conditions"
_SWITCHES = "injection.md#2-what-changes-step-by-step"
_REMOVE = "Remove the variable"
_LOOK = "Look there for variables that begin with NCCL_"

LEFT_AS_IT_IS = Entry(
    "GT401",
    "container {container} sets {variable} itself; it stays as it is",
    "Remove the variable if the webhook's value should hold",
    "injection.md",
)
SETS_DIFFERENTLY = Entry(
    "GT402",
    "container {container} sets {variable} itself, but profile {profile} needs {value}",
    "Remove the variable, or opt out of injection",
    "injection.md",
)
SETS_WHAT_FOLLOWS_FROM_GPUS = Entry(
    "GT403",
    "container {container} sets {variable} itself, but profile {profile} takes it from the GPUs that the scheduler "
    "chooses",
    "Remove the variable, or opt out of injection",
    "injection.md",
)
ENV_FROM_NOT_READ = Entry(
    "GT410",
    "{containers} variables from a ConfigMap or Secret (envFrom), which is not looked at",
    _LOOK,
    _PAGE,
)
VALUE_NOT_KNOWN = Entry(
    "GT411",
    "{setting}",
    "Look up its value: it may turn NVLink off",
    _PAGE,
    example="container main: not known here, set by the pod, from a source that is not looked at",
)
P2P_DISABLED = Entry("GT412", "{setting} (it turns P2P off, and with it NVLink)", _REMOVE, _PAGE)
P2P_LEVEL_TOO_LOW = Entry(
    "GT413",
    "{setting} (it allows P2P to no other GPU, and with it no NVLink)",
    "Remove the variable, or set it to NVL",
    _PAGE,
)
SHM_DISABLED = Entry("GT414", "{setting} (GPUs without NVLink between them then talk over the network)", _REMOVE, _PAGE)
NVLS_OFF_HERE = Entry(
    "GT415",
    "{setting} (it turns NVLink SHARP off, which these GPUs have; NVLink itself stays on)",
    _REMOVE,
    _PAGE,
)
NVLS_FORCED = Entry(
    "GT416",
    "{setting} (it skips NCCL's test for NVLink SHARP, which these GPUs do not have)",
    _REMOVE,
    _PAGE,
)
HOST_ID_EMPTY = Entry(
    "GT417",
    "{setting} (empty, it makes all nodes one, so that NCCL looks for NVLink between nodes)",
    _REMOVE,
    _PAGE,
)
CONF_FILE_NOT_READ = Entry(
    "GT418", "{setting} (NCCL reads more variables from that file, which is not looked at)", _LOOK, _PAGE
)
GRAPH_FILE_DECIDES = Entry("GT419", "{setting} (the rings of that file hold, whatever the links are)", _REMOVE, _PAGE)
GRAPH_FILE_EMPTY = Entry("GT420", "{setting} (an empty name ends NCCL with an error)", _REMOVE, _PAGE)
OWN_TOPOLOGY_FILE = Entry(
    "GT421",
    "{setting} (NCCL believes that file)",
    "Look what NCCL makes of it: NCCL_DEBUG=INFO, and NCCL_TOPO_DUMP_FILE=COPY.xml",
    _PAGE,
)
UCX_WITHOUT_CUDA_IPC = Entry(
    "GT422",
    "{setting} (without cuda_ipc UCX does not use NVLink)",
    "Remove the variable, or add cuda_ipc",
    _PAGE,
)
NVLS_BETWEEN_PODS = Entry(
    "GT430",
    "gpu.topology/nvls: on does not go with profile node-peers without hostNetwork: NCCL hands NVLink SHARP's memory "
    "to the other ranks of a node over a socket, which pods in different network namespaces do not share, and ends "
    "with an error",
    'Use auto, or set gpu.topology/host-network: "true"',
    "nccl.md#nvlink-sharp-nccl_nvls_enable",
)
OWN_NVLS_BETWEEN_PODS = Entry(
    "GT431",
    "container {container}: between pods NCCL ends with an error unless {variable} is {value}",
    "Remove the variable",
    "nccl.md#nvlink-sharp-nccl_nvls_enable",
)
COMMAND_SETS_LIST = Entry(
    "GT404",
    "a command of container {container} sets {variables}: it may run on GPUs of others",
    "Remove the assignment: the webhook says which of the visible GPUs are the container's",
    "annotations.md#lists-of-gpus-in-commands",
)
COMMAND_MAY_NOT_SET_LIST = Entry(
    "GT405",
    "a command of container {container} sets {variables}, but in profile {profile} it sees GPUs of others, and the "
    "webhook says which are its own",
    "Remove the assignment from command, args, probes and lifecycle hooks, or set gpu.topology/on-violation: warn",
    "annotations.md#lists-of-gpus-in-commands",
)
P2P_DISABLED_HERE = Entry(
    "GT406",
    "container {container}: NCCL_P2P_DISABLE turns P2P off, and with it NVLink",
    "Remove the variable",
    _SWITCHES,
)
P2P_LEVEL_TOO_LOW_HERE = Entry(
    "GT407",
    "container {container}: NCCL_P2P_LEVEL allows P2P to no other GPU, and so no NVLink",
    "Remove the variable, or set it to NVL",
    _SWITCHES,
)
SHM_DISABLED_HERE = Entry(
    "GT408",
    "container {container}: with NCCL_SHM_DISABLE GPUs without NVLink talk over the network",
    "Remove the variable",
    _SWITCHES,
)
HOST_ID_EMPTY_HERE = Entry(
    "GT409",
    "container {container}: an empty NCCL_HOSTID makes all nodes one to NCCL",
    "Remove the variable",
    _SWITCHES,
)
GRAPH_FILE_EMPTY_HERE = Entry(
    "GT425",
    "container {container}: an empty NCCL_GRAPH_FILE ends NCCL with an error",
    "Remove the variable",
    _SWITCHES,
)
UCX_WITHOUT_CUDA_IPC_HERE = Entry(
    "GT426",
    "container {container}: UCX_TLS lacks cuda_ipc, so that UCX uses no NVLink",
    "Remove the variable, or add cuda_ipc",
    _SWITCHES,
)
COMMANDS_SET_LIST = Entry(
    "GT423",
    "a command of {containers} sets {variables}, so it does not use what the webhook names, and may use GPUs of others",
    "Remove the assignment",
    _PAGE,
)
COMMAND_NARROWS_LIST = Entry(
    "GT424",
    "a command of {containers} sets {variables}: whether it uses all of its GPUs is not known",
    "Remove the assignment, or look whether its numbers are those of the container's GPUs, from 0 on",
    _PAGE,
)
COMMAND_SWITCHES_OFF = Entry(
    "GT427",
    "a command of container {container} sets {variable}: it may take NVLink from it",
    "Remove the assignment",
    _SWITCHES,
)
COMMANDS_NOT_READ = Entry(
    "GT428",
    "{containers}: some text of its commands is not looked at, and may set variables",
    _LOOK,
    _PAGE,
)
COMMAND_REPLACES = Entry(
    "GT429",
    "{setting} (profile {profile} sets another value, which that may replace)",
    "Remove the assignment",
    _PAGE,
)
DISABLED_P2P_IGNORED = Entry(
    "GT433",
    "{setting} (if P2P is disabled between two GPUs with NVLink, NCCL then goes on without it, and without an error)",
    _REMOVE,
    _PAGE,
)
EXPANDABLE_SEGMENTS = Entry(
    "GT434",
    "{setting} (transfers between processes then leave NVLink without an error, and this pod has some: {sign})",
    "Set expandable_segments:False, or leave it out",
    _PAGE,
)
NVLS_ON_BETWEEN_PODS = Entry(
    "GT432",
    "{setting} (pods of this node have different network namespaces: NCCL would set NVLink SHARP up over a socket of "
    "one, and ends with an error)",
    "Set it to 0",
    "nccl.md#nvlink-sharp-nccl_nvls_enable",
)
NCCL_NEWER_THAN_FACTS = Entry(
    "GT470",
    "the pod has NCCL {release}, and what is told of NCCL here is known up to {newest}",
    "Measure with gpu-topology verify in the pod what the links carry, or use a version of gpu-topology that knows "
    "this release",
    "nccl.md#releases-that-were-read",
)
