"""GT3: the GPUs that a pod was given, their links, and whether these meet the requirements of the pod."""

from webhook.words.catalogue.entry import Entry

_BINDING, _NODE = "injection.md#7-what-the-scheduler-gave", "topology.md#the-agent"
_EXPLAIN = "explain.md#the-conditions"
_RUN_AGENT = "Run the agent on the node; gpu-topology explain also takes the topology from a file: --topology"
_BIND_AGAIN = "Look whether the webhook is registered for pods/binding and was running, and create the pod again"
_PLACE = "Have the planner choose (placement.mode: on)"
_LINKED = 'Set gpu.topology/require-nvlink: "true" on the pod, with which the planner chooses'
_ADD_UUIDS = "Add the output of nvidia-smi -L to the topology"

RESOLVED = Entry(
    "GT301",
    "the webhook told the pod which GPUs it has and how they are linked",
    "A warning says so when the topology was old, or that of HAMi's annotations: see to the agent of the node",
    _BINDING,
)
NO_ALLOCATION = Entry(
    "GT302",
    "the scheduler has given the pod no GPU",
    "Let the scheduler of the GPUs bind the pod (spec.schedulerName), and check resources in the configuration: their "
    "family says whose annotation is read",
    _BINDING,
)
STALE_ALLOCATION = Entry(
    "GT303",
    "the allocation was made for another node",
    "Wait: the next attempt writes a new one. If it lasts, two schedulers bind the pod",
    _BINDING,
)
BAD_ALLOCATION = Entry(
    "GT304",
    "the allocation does not fit the containers of the pod",
    "The message says what was expected and found. Was the pod changed after it was scheduled, or does another "
    "scheduler write that annotation? Report it with the versions of the scheduler",
    _BINDING,
)
MIG_ALLOCATION = Entry(
    "GT305",
    "the pod was given MIG instances, which have no NVLink",
    "Keep the pod from nodes with GPUs in MIG mode, or switch MIG off there. With a requirement about links "
    "this counts as requirement-not-met",
    _BINDING,
)
NODE_UNKNOWN = Entry(
    "GT306",
    "the GPUs of the node are not known",
    "Start the agent on that node (gpu-topology agent), or see in its log why it publishes nothing",
    _NODE,
)
GPU_UNKNOWN = Entry(
    "GT307",
    "a GPU was allocated that the node does not list",
    "The GPU is lost, or was replaced since: see the agent's Events and metrics, and restart HAMi's device plugin "
    "there",
    _NODE,
)
ALLOCATION_OVER_LIMIT = Entry(
    "GT308",
    "the allocation or the node has more of something than the configuration allows",
    "The message names the limit. If the pod or the node is really so large, raise the limit",
    "configuration.md#limits",
)
REQUIREMENT_NOT_MET = Entry(
    "GT309",
    "the GPUs are not what the pod requires",
    "The message names the GPUs. Free GPUs that fit, or require less: require-nvlink, min-bandwidth, policy. A denied "
    "pod keeps its GPUs reserved: delete it if it shall not wait",
    "annotations.md#requirements",
)
UNMET = Entry(
    "GT310",
    "{unmet}",
    f"{_PLACE} GPUs that meet it, have other GPUs chosen, or require less",
    "annotations.md#requirements",
    example="require-nvlink: GPU0 and GPU5 have 6.0 GB/s (SYS), the link class is SYS",
)
TWO_ALLOCATIONS = Entry(
    "GT311",
    "{key} and {other} name different GPUs: one of them was changed",
    "Create the pod again",
    _BINDING,
)
OTHER_NODE = Entry(
    "GT312",
    "the allocation was made for node {meant}, but the pod goes to node {node}",
    "Wait: the next attempt writes a new one",
    _BINDING,
)
TOPOLOGY_TOO_OLD = Entry(
    "GT313",
    "the topology of node {node} is {age}, and the pod has no remap container that would verify it. Is the agent "
    "running there?",
    _RUN_AGENT,
    _NODE,
)
TOPOLOGY_NOT_KNOWN = Entry(
    "GT314", "the topology of node {node} is not known. Is the agent running there?", _RUN_AGENT, _NODE
)
REQUIREMENTS_NOT_JUDGED = Entry(
    "GT315",
    "whether the requirements are met is not known: {doubt}",
    "See to the agent of the node",
    "annotations.md#requirements",
)
TOPOLOGY_OF_HAMI = Entry(
    "GT316",
    "the topology of node {node} is that of HAMi's annotations: the agent has published none that is up to date",
    "See to the agent of the node",
    _NODE,
)
TOPOLOGY_OLD = Entry(
    "GT317",
    "{stale}",
    _RUN_AGENT,
    _NODE,
    example="the agent of node gpu-1 has not been heard of for 17 minutes",
)
NOT_SCHEDULED = Entry(
    "GT320",
    "the pod is not scheduled yet: which GPUs it gets is open",
    "Explain it again when it has a node",
    _EXPLAIN,
)
NODE_NOT_KNOWN = Entry("GT321", "GPUs of node {node}, of which nothing is known", "See to node-topology", _EXPLAIN)
NO_UUIDS = Entry(
    "GT322",
    "what is known of node {node} has no UUIDs, and the scheduler names GPUs by theirs",
    _ADD_UUIDS,
    _EXPLAIN,
)
ALLOCATION_OF_ANOTHER_FAMILY = Entry(
    "GT323",
    "the scheduler has given the pod no GPU: annotation {key} is of {scheduler}, but the configuration says that the "
    "pod's resources are of {family}",
    "Write resources: family: {other_family} in the configuration, and give it with --config",
    "configuration.md#resources",
)
NODE_NOT_READ = Entry(
    "GT324",
    "the topology of node {node} is not known: {problem}",
    "Have the permission to list ConfigMaps and to get nodes",
    _EXPLAIN,
)
TOPOLOGY_WITHOUT_UUIDS = Entry("GT325", "{teller}, without UUIDs", _ADD_UUIDS, _EXPLAIN)
NO_GPU_OF_A_NODE = Entry("GT326", "no GPU of a node to look at", page=_EXPLAIN)
AGE_NOT_KNOWN = Entry(
    "GT327",
    "{teller}; how long ago is not known: {problem}",
    "Have the permission to get Leases, or look whether the agent runs",
    _NODE,
)
GPUS_NOT_KNOWN = Entry("GT328", "which GPUs they are is not known", page=_EXPLAIN)
LINKS_NOT_KNOWN = Entry(
    "GT329",
    "{doubt}",
    _RUN_AGENT,
    _NODE,
    example=(
        "how GPU0 GPU1 of node gpu-1 are linked is not known: no agent has published the topology of the "
        "node, and HAMi's annotations do not tell the links"
    ),
)
NO_NVLINK_HERE = Entry(
    "GT330",
    "{gpus} have no NVLink: {shown}",
    f"{_LINKED} GPUs that are joined. Other GPUs of node {{node}} are: {{show}}",
    _EXPLAIN,
)
NO_NVLINK_ON_NODE = Entry(
    "GT331",
    "{gpus} have no NVLink: {shown}",
    "No two GPUs of node {node} have NVLink: run the pod on another node",
    _EXPLAIN,
)
SOME_PAIRS_UNLINKED = Entry(
    "GT332",
    "{unlinked} of {pairs} pairs of {gpus} have no NVLink: {shown}",
    f"{_LINKED} GPUs that are all joined. Or let HAMi look at links: gpuSchedulerPolicy: topology-aware in the values "
    "of its chart, which publishes pair scores too",
    _EXPLAIN,
)
LINKS_FAULTY = Entry(
    "GT333",
    "{bandwidth}; {faults}",
    "Have node {node} looked at, or avoid these GPUs",
    _EXPLAIN,
    example=(
        "GPU0-GPU1 have 350.2 GB/s per direction, no pair has less; best ring 350.2 GB/s (0-1-0), estimated; "
        "GPU1 has links down: 1 of 18 to nvswitch"
    ),
)
JUDGED_LATER = Entry(
    "GT334", "the requirements of the pod are judged when its GPUs are known", page="annotations.md#requirements"
)
REQUIREMENTS_DOUBTFUL = Entry(
    "GT335",
    "{doubt}",
    _RUN_AGENT,
    "annotations.md#requirements",
    example="how GPU0 GPU1 of node gpu-1 are linked is not known: HAMi's annotations do not tell the links",
)
NOT_BOUND = Entry(
    "GT340",
    "the pod is not bound yet: its annotations still say what admission wrote",
    "Look again in a moment; kubectl describe pod says what keeps it",
    _BINDING,
)
VALUES_NOT_COMPARED = Entry("GT341", "its values cannot be compared with GPUs that are not known", page=_BINDING)
VALUES_WRONG = Entry(
    "GT342",
    "{differences}",
    _BIND_AGAIN,
    _BINDING,
    example='gpu.topology/cuda-visible-devices.0 is "0,1", and should be "2,3"',
)
REMAP_SEES_OTHERS = Entry(
    "GT343",
    "{differences}; the remap container is shown other GPUs than the pod's, and stops the pod (exit code 12)",
    _BIND_AGAIN,
    _BINDING,
)

ALLOCATION_MOVED = Entry(
    "GT348",
    "the allocation was changed after the Binding, as HAMi's NUMA refit does (hami.io/numa-alignment: {alignment}): "
    "{differences}{effect}",
    "Remove hami.io/numa-alignment from the template and create the pod again; gpu.topology/policy: single-numa asks "
    "for GPUs of one NUMA node before the Binding",
    "compatibility.md#numa-refit",
)

NONE_TO_SELECTED = Entry(
    "GT350",
    "the scheduler has given no GPU to the containers that the pod wants prepared",
    "Correct gpu.topology/containers, or let the scheduler of the GPUs bind the pod",
    _BINDING,
)
ALLOCATION_UNREADABLE = Entry("GT351", "the allocation cannot be used: {problem}", "Create the pod again", _BINDING)
ALLOCATION_TOO_LARGE = Entry(
    "GT352",
    "{problem}",
    "Use less, or raise the limit in the configuration of the webhook",
    "configuration.md#limits",
    example=(
        "annotation hami.io/vgpu-devices-allocated on pod team-a/train: expected at most 256 devices "
        "(limits.devices), found 300"
    ),
)
NODE_TOO_LARGE = Entry(
    "GT353",
    "{problem}",
    "Raise the limit in the configuration of the webhook",
    "configuration.md#limits",
    example="node gpu-1 has 100 GPUs, the configuration allows 64 (limits.gpus)",
)
MIG_INSTANCE = Entry(
    "GT354",
    "{gpu} [{instance}] is a MIG instance: between those there is no NVLink",
    "Run the pod on a node whose GPUs are not in MIG mode",
    _BINDING,
)
GPU_IN_MIG_MODE = Entry(
    "GT355",
    "{gpu} of node {node} is in MIG mode: there is no NVLink between instances",
    "Run the pod on a node whose GPUs are not in MIG mode",
    _BINDING,
)
GPU_UNREACHABLE = Entry(
    "GT356",
    "{gpu} of node {node} is {label}, which cannot be reached: {problem}",
    "See the agent's Events and metrics, and restart HAMi's device plugin there",
    _NODE,
)
GPU_NOT_LISTED = Entry(
    "GT357",
    "{gpu} was allocated, but is none of the {count} GPUs that node {node} lists",
    "See the agent's Events and metrics, and restart HAMi's device plugin there",
    _NODE,
)
NUMBERS_NOT_KNOWN = Entry("GT358", "{problem}. Is the agent running there?", _RUN_AGENT, _NODE)
NUMBERS_BESIDE_MIG = Entry(
    "GT359",
    "node {node} has GPUs in MIG mode, so that CUDA's numbers of the others are not known",
    "Run the pod on a node without GPUs in MIG mode",
    _BINDING,
)
FABRIC_NOT_USED = Entry(
    "GT360",
    "NCCL_CUMEM_ENABLE=0: between nodes the job uses the network, not the NVLink fabric",
    'Set gpu.topology/host-network: "true" in the peer profiles, else remove the variable, and create the pod again',
    "nccl.md#nvlink-between-nodes-mnnvl-and-imex-channels",
)
NO_IMEX_CHANNEL = Entry(
    "GT361",
    "the pod has no IMEX channel of its own: where the node gives it none, NCCL fails on the NVLink fabric",
    "Give it a ComputeDomain's channel, or set NCCL_MNNVL_ENABLE=0",
    "nccl.md#nvlink-between-nodes-mnnvl-and-imex-channels",
)
FABRIC_FORCED = Entry(
    "GT364",
    "NCCL_MNNVL_ENABLE=1 without an IMEX channel of its own: where the node gives it none, NCCL fails, on one node too",
    "Remove the variable, or give the pod a ComputeDomain's channel",
    "nccl.md#nvlink-between-nodes-mnnvl-and-imex-channels",
)
NOT_BOUND_AND_OPTED_OUT = Entry(
    "GT344",
    "the pod is not bound yet: its annotations still say what admission wrote, and its Binding will be left alone, "
    "because the namespace or the pod has opted out",
    "Opt in again, and create the pod again",
    _BINDING,
)
LINKS_NOT_READ = Entry(
    "GT345",
    "{doubt}",
    "Have the permission to list ConfigMaps and to get nodes",
    _EXPLAIN,
    example="how GPU0 GPU1 of node gpu-1 are linked is not known: HAMi's annotations do not tell the links",
)
REQUESTS_CONTRADICT = Entry(
    "GT346",
    "{problem}",
    "Correct what the message names, and create the pod again",
    _EXPLAIN,
    example=("container main asks for GPUs of hami, container side for GPUs of volcano: no scheduler gives a pod both"),
)
REQUIREMENTS_UNDECIDED = Entry(
    "GT347",
    "{doubt}",
    page="annotations.md#requirements",
    example="how GPU0 GPU1 of node gpu-1 are linked is not known: the driver did not tell the links of GPU1",
)
