"""GT7: the agent's messages about the GPUs of a node, in Events on the Node."""

from webhook.words.catalogue.entry import Entry

_TAINTS = "topology.md#taints-for-claims"
_PAGE, _EVENTS = "troubleshooting.md#nvlinks-are-down", "observability.md#events-warnings-and-audit-annotations"

NVLINK_DOWN = Entry(
    "GT701",
    "NVLinks are down: {found}",
    "Look at the NVLink errors of these GPUs (nvidia-smi nvlink -e) and reset or replace them",
    _PAGE,
)
NVLINK_RESTORED = Entry("GT702", "NVLinks are up again: {found}", page=_EVENTS)
GPU_LOST = Entry(
    "GT703",
    "GPUs are lost: {found}",
    "Look for Xid errors in the log of the kernel, and restart the node or replace the GPU",
    _PAGE,
)
GPU_RETURNED = Entry("GT704", "GPUs are back: {found}", page=_EVENTS)
FABRIC_STATE_CHANGED = Entry(
    "GT705",
    "the NVLink fabric has changed: {found}",
    "If it is not completed: look at the log of NVIDIA's Fabric Manager on the node",
    _PAGE,
)
TOPOLOGY_UNREADABLE = Entry(
    "GT706",
    "the GPUs cannot be read: {found}",
    "Look whether nvidia-smi works on the node; see the log of its agent",
    _EVENTS,
)
TOPOLOGY_READABLE = Entry("GT707", "the GPUs can be read again: {found}", page=_EVENTS)
BANDWIDTH_BELOW_EXPECTED = Entry(
    "GT716",
    "less was measured than NVLink carries: {found}",
    "Look at the NVLink errors of these GPUs (nvidia-smi nvlink -e), and measure again with gpu-topology verify",
    "topology.md#measuring-each-node",
)
GPU_CORDONED = Entry(
    "GT708",
    "HAMi allocates no more of these GPUs: {found}",
    "Repair the GPU; the agent then releases it",
    _EVENTS,
)
GPU_UNCORDONED = Entry("GT709", "HAMi may allocate these GPUs: {found}", page=_EVENTS)
GPU_TAINTED = Entry(
    "GT710",
    "resource claims are no longer given these GPUs: {found}",
    "Repair the GPU; the agent then deletes its DeviceTaintRule",
    _TAINTS,
)
GPU_UNTAINTED = Entry("GT711", "resource claims may be given these GPUs again: {found}", page=_TAINTS)
TAINTS_NOT_SERVED = Entry(
    "GT712",
    "the API server does not serve DeviceTaintRules, so resource claims are not kept from GPUs that are ill",
    "Use Kubernetes 1.37 or later, or in 1.36 enable resource.k8s.io/v1beta2 (--runtime-config) and the feature gate "
    "DRADeviceTaintRules; or run the agents without --taint-devices",
    _TAINTS,
)
TAINT_RULE_TAKEN = Entry(
    "GT713",
    "the DeviceTaintRule {name} is not the agent's own, or was changed, and is left alone: {found}",
    "If the agent should have it back, delete the rule",
    _TAINTS,
)
TOO_MANY_TAINT_RULES = Entry(
    "GT715",
    "{count} devices of ill GPUs are not tainted, because a node has {limit} DeviceTaintRules at most",
    "Look at the node's ResourceSlices: so many devices of one node are a mistake of a driver",
    _TAINTS,
)
GPU_NOT_PUBLISHED = Entry(
    "GT714",
    "these GPUs are ill, and no device of the node's ResourceSlices is known to be one of them: {found}",
    "Without a DRA driver for GPUs on this node nothing is to be done; else look at the slices and the driver's log",
    _TAINTS,
)
