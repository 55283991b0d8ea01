"""GT7: what the agent tells of the GPUs of a node, in Events on the Node."""

from webhook.catalogue.entry import Entry

_PAGE, _EVENTS = "troubleshooting.md#nvlinks-are-down", "observability.md#events-warnings-and-audit-annotations"

NVLINK_DOWN = Entry(
    "GT701",
    "{links}",
    "Look at the NVLink errors of these GPUs (nvidia-smi nvlink -e) and reset or replace them",
    _PAGE,
)
NVLINK_RESTORED = Entry("GT702", "{links}", page=_EVENTS)
GPU_LOST = Entry(
    "GT703", "{gpus}", "Look for Xid errors in the log of the kernel, and restart the node or replace the GPU", _PAGE
)
GPU_RETURNED = Entry("GT704", "{gpus}", page=_EVENTS)
FABRIC_STATE_CHANGED = Entry(
    "GT705", "{fabric}", "If it is not completed: look at the log of NVIDIA's Fabric Manager on the node", _PAGE
)
TOPOLOGY_UNREADABLE = Entry(
    "GT706", "{problem}", "Look whether nvidia-smi works on the node; see the log of its agent", _EVENTS
)
TOPOLOGY_READABLE = Entry("GT707", "GPUs: {count}", page=_EVENTS)
GPU_CORDONED = Entry("GT708", "HAMi allocates no more of {gpus}", "Repair the GPU; the agent then releases it", _EVENTS)
GPU_UNCORDONED = Entry("GT709", "HAMi may allocate {gpus}", page=_EVENTS)
