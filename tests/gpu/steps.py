"""What a run does, in its order: what matters most comes first."""

from tests.gpu import discovery, gpus, ipc, nccl, programs
from tests.gpu.outcome import Step

STEPS = (
    Step("discovery", "indices, UUIDs, bus ids and NVML's fields are those of nvidia-smi", 60, discovery.discovery),
    Step("health", "the agent calls a healthy node not degraded", 30, discovery.health),
    Step("nccl-file", "NCCL of one rank takes the topology file", 60, nccl.file_taken),
    Step("nccl-broken-file", "NCCL refuses a broken topology file", 60, nccl.broken_file_refused),
    Step("remap-right", "the remap program passes the GPUs of this machine", 30, programs.remap_right),
    Step("remap-wrong", "the remap program stops for a UUID that is not here", 30, programs.remap_wrong),
    *(Step(name, "CUDA IPC between two processes", 45, form) for name, form in ipc.FORMS.items()),
    Step("multicast", "what the driver answers for a multicast object", 30, gpus.multicast),
    Step("fabric-handle", "what the driver answers for a fabric handle", 30, gpus.fabric_handle),
    Step("imex-channel", "the same with an IMEX channel that root makes", 30, gpus.imex_channel),
    Step("agent", "the agent runs for a minute, and its metrics have each GPU", 120, programs.agent),
    Step("local-copy", "a copy within a GPU is as fast as its memory", 60, gpus.local_copy),
    Step("verify", "gpu-topology verify ends as it should", 240, gpus.verify_one),
    Step("nvml-counters", "NVLink's counters stand still without work", 60, discovery.counters),
    Step("nccl-topology", "the links in our file are those that NCCL finds by itself", 60, nccl.own_topology),
    Step("hami-core", "what NCCL of one rank does with HAMi-core preloaded", 60, nccl.preloaded),
    Step("links", "the matrix is that of nvidia-smi topo -m", 30, discovery.links, gpus=2),
    Step("pairs", "each pair is as fast as its links", 30, gpus.pairs, gpus=2),
    Step("counted-bytes", "NVLink's counters show the bytes that were copied", 30, gpus.counted_bytes, gpus=2),
    Step("all-reduce", "NCCL of all GPUs is no slower with the topology file", 120, nccl.all_reduce, gpus=2),
)
