"""GT7: what the agent tells of the GPUs of a node, in Events on the Node."""

from webhook.catalogue.entry import Entry

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
GPU_CORDONED = Entry(
    "GT708",
    "HAMi allocates no more of these GPUs: {found}",
    "Repair the GPU; the agent then releases it",
    _EVENTS,
)
GPU_UNCORDONED = Entry("GT709", "HAMi may allocate these GPUs: {found}", page=_EVENTS)
